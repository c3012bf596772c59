// Command soak runs the tests of packages many times in a row on a machine that is busy,
// and keeps a table of the runs:
//
//	soak [-runs 20] [-spin 4] [-race] [-table bin/soak.tsv] PACKAGE...
//
// Each package's test binary is built once. Beside each run, as many threads as -spin
// says do nothing but take processor time. A line of the table is a run: commit,
// package, number, outcome, seconds, and the tests that failed. The runs that the table
// has of this commit are not done again, so a soak that was interrupted goes on. The
// output of a failed run is kept beside the table. At the end soak prints a row for each
// package and exits with 1 if a run failed.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// run is one line of the table.
type run struct {
	commit, pkg string
	number      int
	outcome     string // passed or failed
	seconds     float64
	failed      string // names of tests, with commas; - for none
}

type soak struct {
	runs, spin int
	race       bool
	table      string
	timeout    time.Duration
	commit     string
	done       []run
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "spin" {
		for n := uint64(0); ; n++ { // killed with its parent's run
			if n == math.MaxUint64 {
				return
			}
		}
	}
	var s soak
	flag.IntVar(&s.runs, "runs", 20, "runs of each package")
	flag.IntVar(&s.spin, "spin", 4, "threads that take processor time meanwhile")
	flag.BoolVar(&s.race, "race", false, "build with the race detector")
	flag.StringVar(&s.table, "table", "bin/soak.tsv", "the `file` with a line for each run")
	flag.DurationVar(&s.timeout, "timeout", 40*time.Minute, "of one run")
	flag.Parse()
	ok, err := s.all(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func (s *soak) all(packages []string) (bool, error) {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return false, fmt.Errorf("cannot tell the commit: %w", err)
	}
	s.commit = strings.TrimSpace(string(out))
	if err := s.load(); err != nil {
		return false, err
	}
	for _, pkg := range packages {
		if err := s.one(pkg); err != nil {
			return false, err
		}
	}
	return s.report(packages), nil
}

// load reads the runs that the table has of this commit.
func (s *soak) load() error {
	f, err := os.Open(s.table)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var r run
		n, err := fmt.Sscan(lines.Text(), &r.commit, &r.pkg, &r.number, &r.outcome, &r.seconds, &r.failed)
		if n == 6 && err == nil && r.commit == s.commit {
			s.done = append(s.done, r)
		}
	}
	return lines.Err()
}

// of are the runs of a package that the table has.
func (s *soak) of(pkg string) (runs []run) {
	for _, r := range s.done {
		if r.pkg == pkg {
			runs = append(runs, r)
		}
	}
	return runs
}

// one does the missing runs of a package.
func (s *soak) one(pkg string) error {
	first := len(s.of(pkg)) + 1
	if first > s.runs {
		return nil
	}
	dir, err := os.MkdirTemp("", "soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "test")
	args := []string{"test", "-c", "-vet=off", "-o", binary}
	if s.race {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, pkg)...).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the tests of %s: %w\n%s", pkg, err, out)
	}
	if _, err := os.Stat(binary); err != nil {
		return nil // it has no tests
	}
	for n := first; n <= s.runs; n++ {
		r, err := s.attempt(pkg, binary, n)
		if err != nil {
			return err
		}
		s.done = append(s.done, r)
		if err := s.note(r); err != nil {
			return err
		}
	}
	return nil
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// attempt runs the tests once, in their package's folder, beside the spinning threads.
func (s *soak) attempt(pkg, binary string, n int) (run, error) {
	for range s.spin {
		spin := exec.Command("/proc/self/exe", "spin")
		if err := spin.Start(); err != nil {
			return run{}, err
		}
		defer func() { _ = spin.Process.Kill(); _ = spin.Wait() }()
	}
	cmd := exec.Command(binary, "-test.timeout", s.timeout.String(), "-test.count", "1")
	cmd.Dir = pkg
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err := cmd.Run()
	r := run{s.commit, pkg, n, "passed", time.Since(began).Seconds(), "-"}
	if err == nil {
		return r, nil
	}
	r.outcome = "failed"
	var names []string
	for _, m := range failedTest.FindAllStringSubmatch(out.String(), -1) {
		names = append(names, m[1])
	}
	if len(names) > 0 {
		r.failed = strings.Join(names, ",")
	}
	kept := fmt.Sprintf("%s-%s-%d.log", s.table, strings.ReplaceAll(strings.Trim(pkg, "./"), "/", "-"), n)
	return r, os.WriteFile(kept, out.Bytes(), 0o644)
}

// note adds a run to the table.
func (s *soak) note(r run) error {
	line := fmt.Sprintf("%s\t%s\t%d\t%s\t%.1f\t%s\n", r.commit, r.pkg, r.number, r.outcome, r.seconds, r.failed)
	fmt.Print(line)
	f, err := os.OpenFile(s.table, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

// report prints a row for each package and tells whether all runs passed.
func (s *soak) report(packages []string) bool {
	ok := true
	fmt.Printf("\n%6s %6s %9s  package\n", "runs", "failed", "median s")
	for _, pkg := range packages {
		runs := s.of(pkg)
		if len(runs) == 0 {
			continue
		}
		failed, names, times := 0, map[string]int{}, []float64{}
		for _, r := range runs {
			times = append(times, r.seconds)
			if r.outcome != "passed" {
				failed++
				for name := range strings.SplitSeq(r.failed, ",") {
					names[name]++
				}
			}
		}
		slices.Sort(times)
		fmt.Printf("%6d %6d %9.1f  %s", len(runs), failed, times[len(times)/2], pkg)
		for name, n := range names {
			fmt.Printf("  %s %d", name, n)
		}
		fmt.Println()
		ok = ok && failed == 0
	}
	return ok
}
