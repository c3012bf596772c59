// Command nasty is the test suite's misbehaving program: it leaves orphans
// behind, ignores signals, and tells what it is. It is static, so that it runs
// in an image that has nothing else.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/examples/gateway/process"
)

const usage = `usage: nasty VERB
    self                 print what this process is, as JSON
    ps                   print what every process is, as JSON
    exit N               exit with code N
    die SIGNAL           die by signal number SIGNAL
    kill N PID           send signal number N to a process
    unproc CMD [ARG…]    unmount /proc and everything below, then execute CMD
    sleep                do nothing, for ever
    deaf                 print "deaf" and ignore every signal that can be
    orphans N SECONDS    leave N double-forked orphans a second, which exit at once; print their number
    stray                leave an orphan in its own session that sleeps for ever; print its pid and sleep
    write PATH TEXT      open PATH for writing, write TEXT and a newline, exit
    lines N              print N numbered lines
    crowd SOCKET N       keep N connections to a control socket busy with what is no request
    flood SOCKET MB      send a request of MB megabytes to a control socket; print whether it is refused
    requests SOCKET WORD "METHOD PATH [BODY]"…  make each request of a control socket; print its status, and whether the answer has WORD
    at-once SOCKET N "METHOD PATH"  make a request N times at once, on N connections; print how many answers have each status
    ask URL              request URL over and over until stdin ends; print what came of it, as JSON
    keep [forget]        count starts in a descriptor that the service manager stores; then sleep
    hoard N              store N descriptors with the service manager; then sleep
    shout                notify the service manager without end, with descriptors
    massacre PROGRAM N   kill N children of PID 1 that run PROGRAM; print how many of each last argument, as JSON
    trace SECONDS        kill the supervisor again and again, and try to read the memory of each next one
    read PATH            print a file
    bound FILE           print a file of the own cgroup, of version 2
    time URL N           request URL N times, each on a new connection; print the median in microseconds
    hog WHAT [WHERE]     take all memory, forks, cpu, disk (of a directory), descriptors, log, inotify or connections (of an address)
    clock SECONDS        set the machine's clock so much forward
    receive NET:ADDR FILE  add to FILE what is sent to a tcp, unix or unixgram socket, a new line for each connection
    share ADDR           listen at an address of TCP together with others that do
    flap FILE            add a byte to FILE, exit with its length modulo 64
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "nasty:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	verb, rest := "", []string(nil)
	if len(args) > 0 {
		verb, rest = args[0], args[1:]
	}
	switch {
	case verb == "self":
		report, err := process.Self()
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(report)
	case verb == "ps":
		all, err := process.All()
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(all)
	case verb == "unproc" && len(rest) > 0:
		return unproc(rest)
	case verb == "exit" && len(rest) == 1:
		code, err := strconv.Atoi(rest[0])
		if err != nil {
			return err
		}
		os.Exit(code)
	case verb == "die" && len(rest) == 1:
		number, err := strconv.Atoi(rest[0])
		if err != nil {
			return err
		}
		if err := unix.Kill(os.Getpid(), unix.Signal(number)); err != nil {
			return err
		}
		forever()
	case verb == "kill" && len(rest) == 2:
		number, err := strconv.Atoi(rest[0])
		if err != nil {
			return err
		}
		pid, err := strconv.Atoi(rest[1])
		if err != nil {
			return err
		}
		return unix.Kill(pid, unix.Signal(number))
	case verb == "sleep":
		forever()
	case verb == "deaf":
		signal.Ignore()
		fmt.Println("deaf")
		forever()
	case verb == "orphans" && len(rest) == 2:
		return orphans(rest)
	case verb == "jobs" && len(rest) == 1:
		count, err := strconv.Atoi(rest[0])
		if err != nil {
			return err
		}
		return jobs(count)
	case verb == "writers" && len(rest) == 2:
		return writers(rest[0], rest[1], 100, 100_000)
	case verb == "stray":
		return stray()
	case verb == "write" && len(rest) == 2:
		f, err := os.OpenFile(rest[0], os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(f, rest[1])
		return errors.Join(err, f.Close())
	case verb == "lines" && len(rest) == 1:
		n, err := strconv.Atoi(rest[0])
		if err != nil {
			return err
		}
		for i := range n {
			fmt.Println("line", i+1)
		}
	case verb == "flood" && len(rest) == 2:
		megabytes, err := strconv.Atoi(rest[1])
		if err != nil {
			return err
		}
		return flood(rest[0], megabytes)
	case verb == "requests" && len(rest) > 2:
		return requests(rest[0], rest[1], rest[2:])
	case verb == "at-once" && len(rest) == 3:
		n, err := strconv.Atoi(rest[1])
		if err != nil {
			return err
		}
		return atOnce(rest[0], n, rest[2])
	case verb == "ask" && len(rest) == 1:
		return ask(rest[0])
	case verb == "keep" && len(rest) <= 1:
		return keep(len(rest) == 1)
	case verb == "massacre" && len(rest) == 2:
		kills, err := strconv.Atoi(rest[1])
		if err != nil {
			return err
		}
		return massacre(rest[0], kills)
	case verb == "hoard" && len(rest) == 1:
		count, err := strconv.Atoi(rest[0])
		if err != nil {
			return err
		}
		return hoard(count)
	case verb == "shout":
		return shout()
	case verb == "crowd" && len(rest) == 2:
		count, err := strconv.Atoi(rest[1])
		if err != nil {
			return err
		}
		return crowd(rest[0], count)
	case verb == "trace" && len(rest) == 1:
		seconds, err := strconv.Atoi(rest[0])
		if err != nil {
			return err
		}
		return trace(seconds)
	case verb == "bound" && len(rest) == 1:
		own, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			return err
		}
		path, _ := strings.CutPrefix(strings.TrimSpace(string(own)), "0::")
		content, err := os.ReadFile("/sys/fs/cgroup" + path + "/" + rest[0])
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(content)
		return err
	case verb == "read" && len(rest) == 1:
		content, err := os.ReadFile(rest[0])
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(content)
		return err
	case verb == "time" && len(rest) == 2:
		count, err := strconv.Atoi(rest[1])
		if err != nil || count < 1 {
			return fmt.Errorf("bad number %q", rest[1])
		}
		return timed(rest[0], count)
	case verb == "hog" && len(rest) >= 1 && hogs[rest[0]] != nil:
		return hogs[rest[0]](strings.Join(rest[1:], ""))
	case verb == "clock" && len(rest) == 1:
		seconds, err := strconv.Atoi(rest[0])
		if err != nil {
			return err
		}
		now := unix.NsecToTimeval(time.Now().Add(time.Duration(seconds) * time.Second).UnixNano())
		return unix.Settimeofday(&now)
	case verb == "share" && len(rest) == 1:
		return share(rest[0])
	case verb == "receive" && len(rest) == 2:
		return receive(rest[0], rest[1])
	case verb == "flap" && len(rest) == 1:
		return flap(rest[0])
	default:
		return errors.New(strings.TrimSpace(usage))
	}
	return nil
}

// forever does nothing. A sleep, for an empty select ends a Go program that
// has nothing else to do.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

// stray leaves an orphan that lives on.
func stray() error {
	cmd := exec.Command("/proc/self/exe", "sleep")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Println("stray", cmd.Process.Pid)
	forever()
	return nil
}

// flap counts its starts in a file that it alone writes, and exits with a code
// that tells which start it was.
func flap(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString("x"); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	os.Exit(int(info.Size() % 64))
	return nil
}
