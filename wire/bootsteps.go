package wire

import (
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// BootStepsKey names what NoteBootStep fills among what tier 1 holds.
const BootStepsKey = "steps"

// bootStepsMax bounds the notes of steps that are read, in bytes.
const bootStepsMax = 64 << 10

// BootStep is a part of the boot, and when it was over: since the machine was started,
// by CLOCK_BOOTTIME.
type BootStep struct {
	Name string
	Over time.Duration
}

// NoteBootStep appends to a memfd that a step is over now. It is for people to read
// later: a failure costs nothing else.
func NoteBootStep(fd int, name string) {
	line := strconv.FormatInt(int64(SinceBoot()), 10) + " " + strings.ReplaceAll(name, "\n", " ") + "\n"
	_, _ = unix.Write(fd, []byte(line))
}

// ReadBootSteps reads the notes, in order. Other text is left out.
func ReadBootSteps(fd int) (steps []BootStep) {
	b := make([]byte, bootStepsMax)
	n, err := unix.Pread(fd, b, 0)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b[:n])) {
		at, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if over, err := strconv.ParseInt(at, 10, 64); err == nil && name != "" {
			steps = append(steps, BootStep{name, time.Duration(over)})
		}
	}
	return steps
}

// SinceBoot is how long ago the machine was started, by CLOCK_BOOTTIME: the clock
// that proc_pid_stat(5) has for the start of a process.
func SinceBoot() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // it has this clock
	return time.Duration(now.Nano())
}
