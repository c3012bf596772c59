// Command bench measures the log path beside s6-log, svlogd and cat, in one
// run, for `make bench-logs`. It prints MB/s of what a service wrote, the
// logger's CPU time per MB, and the ratios that rlminit promises.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"rlminit/internal/redact"
	"rlminit/logs"
)

const lineSize = 100

var (
	megabytes = flag.Int("mb", 512, "MB that the fast service writes")
	block     = flag.Int("block", lineSize, "bytes per write of the fast service")
	rounds    = flag.Int("rounds", 3, "rounds, of which the median counts")
	services  = flag.Int("services", 1000, "services of the second part; 0 leaves it out")
	seconds   = flag.Int("seconds", 10, "how long they write")
	dir       = flag.String("dir", "", "where to log; a temporary directory by default")
)

func main() {
	flag.Parse()
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "write":
			return write(os.Stdout)
		case "collect":
			return collect(args[1], args[2] == "true", args[3:])
		case "forward":
			return forwarded(args[1])
		case "sink":
			return sink()
		case "chatter":
			return chatter()
		case "many":
			return many(args[1])
		}
		return fmt.Errorf("cannot run %q: write, collect, forward, sink, many or chatter", args[0])
	}
	if *dir == "" {
		temp, err := os.MkdirTemp("", "rlminit-bench-logs-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		*dir = temp
	}
	if err := one(); err != nil {
		return err
	}
	if *services == 0 {
		return nil
	}
	return runMany()
}

// write is the fast service.
func write(w io.Writer) error {
	text := make([]byte, 0, *block+lineSize)
	for len(text) < *block {
		line := fmt.Sprintf(`%09d level=info msg="request done" path=/v1/items status=200 took=12ms user=alice `, len(text))
		for len(line) < lineSize-1 {
			line += "x"
		}
		text = append(text, line+"\n"...)
	}
	text = text[:*block]
	for left := *megabytes * 1e6; left > 0; left -= len(text) {
		if _, err := w.Write(text[:min(len(text), left)]); err != nil {
			return err
		}
	}
	return nil
}

// cost is what a run took.
type cost struct {
	wall, cpu time.Duration
}

func (c cost) speed() float64 { return float64(*megabytes) / c.wall.Seconds() }
func (c cost) perMB() float64 { return c.cpu.Seconds() * 1000 / float64(*megabytes) }

func writer(stdout *os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", fmt.Sprintf("-mb=%d", *megabytes), fmt.Sprintf("-block=%d", *block), "write")
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	return cmd
}

// peer measures a logger that reads its stdin.
func peer(argv []string, stdout string) (cost, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return cost{}, err
	}
	logger := exec.Command(argv[0], argv[1:]...)
	logger.Stdin, logger.Stderr = r, os.Stderr
	if stdout != "" {
		f, err := os.Create(stdout)
		if err != nil {
			return cost{}, err
		}
		defer f.Close()
		logger.Stdout = f
	}
	service := writer(w)
	start := time.Now()
	if err := errors.Join(logger.Start(), service.Start(), r.Close(), w.Close()); err != nil {
		return cost{}, err
	}
	if err := errors.Join(service.Wait(), logger.Wait()); err != nil {
		return cost{}, err
	}
	state := logger.ProcessState
	return cost{time.Since(start), state.UserTime() + state.SystemTime()}, nil
}

// ours measures rlminit's collector, in a process of its own as in tier 2, with patterns
// that are masked.
func ours(home string, timestamps bool, patterns ...string) (cost, error) {
	argv := []string{fmt.Sprintf("-mb=%d", *megabytes), fmt.Sprintf("-block=%d", *block), "collect", home, fmt.Sprint(timestamps)}
	return itself(append(argv, patterns...)...)
}

// itself measures a part of this program, in a process of its own.
func itself(argv ...string) (cost, error) {
	cmd := exec.Command("/proc/self/exe", argv...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return cost{}, err
	}
	var c cost
	_, err = fmt.Sscan(string(out), &c.wall, &c.cpu)
	return c, err
}

func collect(home string, timestamps bool, patterns []string) error {
	masks, err := redact.NewLines(patterns)
	if err != nil {
		return err
	}
	c, err := logs.New(logs.Options{Home: home, Tee: -1})
	if err != nil {
		return err
	}
	took, before, err := timed(c, logs.Config{Dir: "rlminit", File: true, MaxSize: 1e6, MaxFiles: 10, Timestamps: timestamps, Redact: masks})
	if err != nil {
		return err
	}
	fmt.Println(int64(took), int64(used()-before))
	return nil
}

// timed has a service write all of its lines into a log. It returns how long that took, and
// the CPU time that this process had used before.
func timed(c *logs.Collector, cfg logs.Config) (took, before time.Duration, err error) {
	s, err := c.Open("web", cfg, nil)
	if err != nil {
		return 0, 0, err
	}
	pipe, err := stdout(s)
	if err != nil {
		return 0, 0, err
	}
	service := writer(pipe)
	start, before := time.Now(), used()
	if err := service.Run(); err != nil {
		return 0, 0, err
	}
	done := make(chan struct{})
	s.MarkExit(1, "exited", func(string) { close(done) })
	<-done
	return time.Since(start), before, nil
}

// used is this process's CPU time so far.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// one is the first part: a single service as fast as it can.
func one() error {
	fmt.Printf("one service, %d MB in lines of %d bytes, %d bytes a write; median of %d\n\n", *megabytes, lineSize, *block, *rounds)
	peers := []struct {
		name string
		run  func(home string) (cost, error)
	}{
		{"rlminit", func(home string) (cost, error) { return ours(home, true) }},
		{"s6-log", func(home string) (cost, error) {
			return peer([]string{"s6-log", "-b", "t", "s1000000", "n10", filepath.Join(home, "s6")}, "")
		}},
		{"svlogd", func(home string) (cost, error) {
			d := filepath.Join(home, "svlogd")
			if err := os.MkdirAll(d, 0o755); err != nil {
				return cost{}, err
			}
			if err := os.WriteFile(filepath.Join(d, "config"), []byte("s1000000\nn10\n"), 0o644); err != nil {
				return cost{}, err
			}
			return peer([]string{"svlogd", "-ttt", d}, "")
		}},
		{"rlminit, no timestamps", func(home string) (cost, error) { return ours(home, false) }},
		{masked, func(home string) (cost, error) { return ours(home, true, redact.Secrets) }},
		{matched, func(home string) (cost, error) { return ours(home, true, redact.Secrets, "sk-([A-Za-z0-9]{20,})") }},
		{onward, func(home string) (cost, error) {
			return itself(fmt.Sprintf("-mb=%d", *megabytes), fmt.Sprintf("-block=%d", *block), "forward", home)
		}},
		{"cat >file", func(home string) (cost, error) { return peer([]string{"cat"}, filepath.Join(home, "cat")) }},
	}
	all := map[string][]cost{}
	for range *rounds {
		for _, p := range peers {
			home, err := os.MkdirTemp(*dir, "run-")
			if err != nil {
				return err
			}
			c, err := p.run(home)
			if err != nil {
				return fmt.Errorf("cannot measure %s: %w", p.name, err)
			}
			all[p.name] = append(all[p.name], c)
			if err := os.RemoveAll(home); err != nil {
				return err
			}
		}
	}
	speed := func(name string) float64 { return median(all[name], cost.speed) }
	perMB := func(name string) float64 { return median(all[name], cost.perMB) }
	for _, p := range peers {
		fmt.Printf("%-24s %7.0f MB/s  %6.2f ms CPU/MB\n", p.name, speed(p.name), perMB(p.name))
	}
	fmt.Printf("\nspeed beside the slower peer       %5.2f  (at least 1)\n", speed("rlminit")/min(speed("s6-log"), speed("svlogd")))
	fmt.Printf("CPU per MB beside the faster peer  %5.2f  (at most 1.5)\n", perMB("rlminit")/perMB(faster(speed("s6-log"), speed("svlogd"))))
	fmt.Printf("CPU per MB beside the thriftier    %5.2f\n", perMB("rlminit")/min(perMB("s6-log"), perMB("svlogd")))
	fmt.Printf("no timestamps, beside cat >file    %5.2f  (at least 0.70)\n", speed("rlminit, no timestamps")/speed("cat >file"))
	fmt.Printf("CPU per MB of redact: [secrets]    %+5.2f ms, and of a pattern beside it %+.2f ms\n", perMB(masked)-perMB("rlminit"), perMB(matched)-perMB(masked))
	fmt.Printf("CPU per MB of forward              %+5.2f ms\n", perMB(onward)-perMB("rlminit"))
	return nil
}

// The collector with redact, which has the named patterns, and one of a person's own.
const (
	masked  = "rlminit, redact secrets"
	matched = "rlminit, and a pattern"
	onward  = "rlminit, sent on as JSON"
)

func faster(s6, sv float64) string {
	if s6 > sv {
		return "s6-log"
	}
	return "svlogd"
}

func median(costs []cost, of func(cost) float64) float64 {
	var all []float64
	for _, c := range costs {
		all = append(all, of(c))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
