package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/logs"
)

const (
	perSecond = 100 // lines a second of each service
	every     = 10 * time.Millisecond
)

// runMany is the second part: many services that write at a moderate rate.
func runMany() error {
	fmt.Printf("\n%d services, %d lines of %d bytes a second each, for %d s\n\n", *services, perSecond, lineSize, *seconds)
	home, err := os.MkdirTemp(*dir, "many-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	cmd := exec.Command("/proc/self/exe", fmt.Sprintf("-services=%d", *services), fmt.Sprintf("-seconds=%d", *seconds), "many", home)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// many is the collector's process of the second part. The services are one
// child, so that their CPU time is not counted.
func many(home string) error {
	raise()
	c, err := logs.New(logs.Options{Home: home, Tee: -1})
	if err != nil {
		return err
	}
	before := resident()
	var slots []*logs.Slot
	var pipes []*os.File
	for i := range *services {
		name := fmt.Sprintf("s%d", i)
		s, err := c.Open(name, logs.Config{Dir: name, File: true, MaxSize: 1e6, MaxFiles: 10, Timestamps: true}, nil)
		if err != nil {
			return err
		}
		slots = append(slots, s)
		pipe, err := stdout(s)
		if err != nil {
			return err
		}
		pipes = append(pipes, pipe)
	}
	children := exec.Command("/proc/self/exe", fmt.Sprintf("-seconds=%d", *seconds), "chatter")
	children.ExtraFiles, children.Stderr = pipes, os.Stderr
	start, cpu := time.Now(), used()
	if err := children.Run(); err != nil {
		return err
	}
	wall, spent := time.Since(start), used()-cpu
	for _, s := range slots {
		done := make(chan struct{})
		s.MarkExit(1, "exited", func(string) { close(done) })
		<-done
	}
	if err := check(home); err != nil {
		return err
	}
	time.Sleep(3 * time.Second) // what is used up is given back when a second was idle
	after := resident()
	turns := switches()
	time.Sleep(5 * time.Second)
	turns = switches() - turns
	fmt.Printf("nothing lost; %.2f of a core (below 1)\n", spent.Seconds()/wall.Seconds())
	fmt.Printf("%d wake-ups in 5 s of idleness\n", turns)
	fmt.Printf("%.1f KB a service when idle again (at most 8)\n", float64(after-before)/float64(*services)/1024)
	return nil
}

// chatter is all the services at once: it writes to every descriptor from 3 on.
func chatter() error {
	line := []byte(strings.Repeat("y", lineSize-1) + "\n")
	tick := time.NewTicker(every)
	defer tick.Stop()
	for range *seconds * int(time.Second/every) {
		<-tick.C
		for range perSecond * int(every) / int(time.Second) {
			for fd := 3; ; fd++ {
				if _, err := unix.Write(fd, line); errors.Is(err, unix.EBADF) {
					break
				} else if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// check sees to it that every line is there.
func check(home string) error {
	want := perSecond * *seconds
	for i := range *services {
		files, err := filepath.Glob(filepath.Join(home, fmt.Sprintf("s%d", i), "*"))
		if err != nil {
			return err
		}
		got := 0
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			got += strings.Count(string(data), " out ")
		}
		if got != want {
			return fmt.Errorf("service %d has %d lines, not %d", i, got, want)
		}
	}
	return nil
}

// resident is this process's memory, in bytes: its own and its share of what it
// shares, without the garbage that the benchmark itself has made.
func resident() int64 {
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "Pss: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	return 0
}

// stdout is a descriptor of our own for a slot's stdout: an os.File closes its
// own.
func stdout(s *logs.Slot) (*os.File, error) {
	fd, err := unix.Dup(s.Stdout())
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), s.Name()), nil
}

// switches is how often this process has been given the processor.
func switches() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Nvcsw + u.Nivcsw
}

// raise lifts the soft limit of descriptors.
func raise() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
}
