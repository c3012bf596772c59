package reap

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lines collects what a process prints, for a test to look at meanwhile.
type lines struct {
	mu   sync.Mutex
	text []byte
}

func newLines() *lines { return new(lines) }

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	return len(b), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// report is what a child knows of itself.
type report struct {
	Args                      []string
	PID, PPID, Session, Group int
	Status                    map[string]string // of /proc/self/status
	Descriptors               map[string]string
	Environment               []string
	Arguments                 []string
	Dir                       string
	NoFile                    [2]uint64
	Core                      [2]uint64
	OOMScore                  string
	Umask                     int
	Foreground                int
}

// timerSlack is that of this thread, ns.
func timerSlack() int {
	ns, _ := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	return ns
}

func reportSelf() report {
	r := report{
		PID: os.Getpid(), PPID: os.Getppid(), Group: unix.Getpgrp(), Environment: os.Environ(), Arguments: os.Args,
		Status: map[string]string{}, Descriptors: map[string]string{},
	}
	r.Session, _ = unix.Getsid(0)
	r.Dir, _ = os.Getwd()
	content, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(content)) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			r.Status[key] = strings.Join(strings.Fields(value), " ")
		}
	}
	r.Status["TimerSlack"] = strconv.Itoa(timerSlack())
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		target, err := os.Readlink("/proc/self/fd/" + entry.Name())
		fd, _ := strconv.Atoi(entry.Name())
		flags, ferr := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		// What this process opened itself is close-on-exec, what it was given is not.
		if err == nil && ferr == nil && flags&unix.FD_CLOEXEC == 0 {
			r.Descriptors[entry.Name()] = target
		}
	}
	limits, _ := os.ReadFile("/proc/self/limits")
	for line := range strings.Lines(string(limits)) {
		fields := strings.Fields(line)
		read := func(to *[2]uint64) {
			for i := range to {
				to[i], _ = strconv.ParseUint(fields[len(fields)-3+i], 10, 64)
			}
		}
		if strings.HasPrefix(line, "Max core file size") {
			read(&r.Core)
		}
	}
	r.NoFile = startLimit
	score, _ := os.ReadFile("/proc/self/oom_score_adj")
	r.OOMScore = strings.TrimSpace(string(score))
	r.Umask = unix.Umask(0)
	r.Foreground, _ = unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return r
}

// play is a child of tier 1.
func play(args []string) {
	switch args[0] {
	case "exit":
		code, _ := strconv.Atoi(args[1])
		os.Exit(code)
	case "try": // reads or writes each path, and says of each what came of it
		for _, path := range args[1:] {
			what, err := path, error(nil)
			if file, write := strings.CutPrefix(path, "+"); write {
				err = os.WriteFile(file, []byte("x"), 0o600)
			} else {
				_, err = os.ReadFile(path)
			}
			if err == nil {
				fmt.Println(what, "works")
			} else {
				fmt.Println(what, errors.Unwrap(err))
			}
		}
	case "unshare":
		fmt.Println(unix.Unshare(unix.CLONE_NEWUSER))
	case "report":
		json.NewEncoder(os.Stdout).Encode(reportSelf())
	case "sleep":
		fmt.Println("ready")
		select {}
	case "signals": // prints every signal
		got := make(chan os.Signal, 100)
		signal.Notify(got)
		signal.Reset(unix.SIGURG)
		fmt.Println("ready")
		for s := range got {
			if s == unix.SIGURG || s == unix.SIGCONT {
				continue
			}
			fmt.Println(int(s.(syscall.Signal)))
			if s == unix.SIGTERM && len(args) > 1 {
				code, _ := strconv.Atoi(args[1])
				os.Exit(code)
			}
		}
	case "deaf": // does not care for TERM
		signal.Ignore(unix.SIGTERM, unix.SIGINT)
		fmt.Println("ready")
		select {}
	case "orphans": // leaves so many double-forked processes that exit at once
		n, _ := strconv.Atoi(args[1])
		for range n {
			doubleFork("exit", "0")
		}
		fmt.Println("done")
		if len(args) > 2 {
			play(args[2:])
		}
	case "leak": // leaves one that lives on in a session of its own, without our environment
		doubleFork("deaf")
		fmt.Println("leaked")
		play(args[1:])
	case "abort":
		unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	case "storm": // orphans at a rate for a time
		rate, _ := strconv.Atoi(args[1])
		last, _ := time.ParseDuration(args[2])
		tick := time.NewTicker(time.Second / time.Duration(rate))
		for end := time.Now().Add(last); time.Now().Before(end); <-tick.C {
			doubleFork("exit", "7")
		}
		fmt.Println("done")
	case "fill": // fills the pids limit and stays
		for {
			cmd := exec.Command("/bin/sleep", "1000")
			if err := cmd.Start(); err != nil {
				break
			}
		}
		fmt.Println("full")
		select {}
	case "crowd": // has as many descriptors in flight as its user may, for a time
		last, _ := time.ParseDuration(args[1])
		pair, _ := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		for unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(make([]int, 100)...), nil, unix.MSG_DONTWAIT) == nil {
		}
		fmt.Println("full")
		time.Sleep(last)
	case "fork": // starts the part that follows and exits at once
		cmd := exec.Command("/proc/self/exe", append([]string{"child"}, args[1:]...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Env = []string{}
		if err := cmd.Start(); err != nil {
			os.Exit(1)
		}
	}
	os.Exit(0)
}

// doubleFork leaves a process to PID 1.
func doubleFork(part ...string) {
	cmd := exec.Command("/proc/self/exe", slices.Concat([]string{"child", "fork"}, part)...)
	cmd.Env = []string{}
	cmd.Run()
}
