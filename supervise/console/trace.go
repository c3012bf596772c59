package console

import (
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Traceable lets a crash say where it happened, and SIGUSR1 where everything is.
// Begun with two group ids, as a set-group-ID program is, a Go program says
// neither by itself: package runtime, Security. For that its runtime sets
// GOTRACEBACK; what services inherit is the container's.
func Traceable() {
	level, found := os.LookupEnv("RLMINIT_GOTRACEBACK")
	if found {
		_ = os.Setenv("GOTRACEBACK", level)
	} else {
		_ = os.Unsetenv("GOTRACEBACK")
		level = "single"
	}
	debug.SetTraceback(level)
	if err := writeStacksWhenAsked(); err != nil {
		slog.Warn("SIGUSR1 will not show where the supervisor is", "err", err)
	}
}

// stacksEvery is the pause from one to the next: whoever can send us the signal
// shall not fill the container's log with them.
const stacksEvery = 5 * time.Second

// writeStacksWhenAsked waits for SIGUSR1, which tier 1 has blocked for it, in the
// poller: os/signal would take three threads, of as many as a container may have.
func writeStacksWhenAsked() error {
	asked := unix.Sigset_t{}
	asked.Val[0] = 1 << (unix.SIGUSR1 - 1)
	fd, err := unix.Signalfd(-1, &asked, unix.SFD_NONBLOCK|unix.SFD_CLOEXEC)
	if err != nil {
		return err
	}
	signals := os.NewFile(uintptr(fd), "signalfd")
	go func() {
		for info := make([]byte, unsafe.Sizeof(unix.SignalfdSiginfo{})); ; {
			if _, err := signals.Read(info); err != nil {
				return
			}
			stacks := make([]byte, 1<<20) // enough for some thousand goroutines
			_, _ = os.Stderr.Write(stacks[:runtime.Stack(stacks, true)])
			time.Sleep(stacksEvery) // what is asked meanwhile is asked once
		}
	}()
	return nil
}
