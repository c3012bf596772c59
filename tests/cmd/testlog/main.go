// Command testlog turns `go test -json` into what a person wants to see: a
// line a package, the output of what failed, what was skipped and why, the tests that
// took longest, and the totals. What was skipped is added to the file LEFT_OUT too. Its exit code is 1 if
// a test failed, if none ran, or, with CI=true, if one was skipped that tests/skips
// does not name.
//
//	{ go test -json ./...; echo "exit $?"; } | testlog SUITE [FLAG...]
//
// Without that last line, or with another code than 0 and 1, not all was run.
//
// With RUN_AGAIN=true, which .ci/run alone sets, up to three tests that failed are run
// once more, each alone, with the FLAGs of go test. A test that passes then is named in
// the totals, is to be mended, and does not fail the run. A panic and a data race always
// fail it.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

// event is one line of go test -json: `go doc test2json`.
type event struct {
	Action      string
	Package     string
	Test        string
	Elapsed     float64 // seconds
	Output      string
	ImportPath  string // of build-output
	FailedBuild string
}

// log is what was seen so far.
type log struct {
	out            io.Writer
	output         map[string][]string // by package and test, until it ends
	skipped        int
	passed, failed []test
	skips          []skip
	exit           string // how go test ended; "": it did not
	costs          []cost
	broken         bool // a package failed outside of its tests, or a fault is none of chance
}

// test names one by its package and its own name, with those it is a part of.
type test struct{ pkg, name string }

type skip struct{ test, why string }

// cost is the time of a test, without those that it consists of, or of a package.
type cost struct {
	test
	seconds float64
}

// dear is the number of costs that are printed.
const dear = 12

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, `usage: { go test -json ./...; echo "exit $?"; } | testlog SUITE [FLAG...]`)
		os.Exit(2)
	}
	ci := os.Getenv("CI") == "true"
	allowed, err := readAllowed("tests/skips", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
	l := &log{out: os.Stdout, output: map[string][]string{}}
	if err := l.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
	l.ended()
	var again []test
	if os.Getenv("RUN_AGAIN") == "true" {
		again = l.forgive(func(t test) bool { return passesAlone(t, os.Args[2:]) })
	}
	if !l.finish(os.Args[1], allowed, ci) {
		os.Exit(1)
	}
	for _, t := range again {
		fmt.Printf("%s: passed only when run again: %s %s\n", os.Args[1], t.pkg, t.name)
	}
}

// ended holds what go test said at its end against what was seen.
func (l *log) ended() {
	switch {
	case l.exit == "0", l.exit == "1" && (l.broken || len(l.failed) > 0):
	default:
		l.broken = true
		fmt.Fprintf(l.out, "go test did not come to its end, or not to this one: exit %q\n", l.exit)
	}
}

// forgiven is how many tests may fail and be run again.
const forgiven = 3

// forgive runs again what failed, if that is little and could be chance, and takes
// what passes then, and what it is a part of, for passed.
func (l *log) forgive(passes func(test) bool) []test {
	var alone []test // without those that failed by a part of theirs
	for _, t := range l.failed {
		if !slices.ContainsFunc(l.failed, func(part test) bool {
			return part.pkg == t.pkg && strings.HasPrefix(part.name, t.name+"/")
		}) {
			alone = append(alone, t)
		}
	}
	if l.broken || len(alone) > forgiven {
		return nil
	}
	for _, t := range alone {
		if !passes(t) {
			return nil
		}
	}
	l.passed = append(l.passed, l.failed...)
	l.failed = nil
	return alone
}

// passesAlone runs one test and tells whether it ran and passed.
func passesAlone(t test, flags []string) bool {
	fmt.Printf("again: %s %s\n", t.pkg, t.name)
	parts := strings.Split(t.name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	cmd := exec.Command("go", slices.Concat([]string{"test"}, flags, []string{"-json", "-count=1", "-run", strings.Join(parts, "/"), t.pkg})...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	second := &log{out: os.Stdout, output: map[string][]string{}}
	if readErr := second.read(bytes.NewReader(out)); err != nil || readErr != nil {
		return false
	}
	return slices.Contains(second.passed, t) && len(second.failed) == 0 && !second.broken && second.skipped == 0
}

// readAllowed reads the names of tests that a suite may skip in CI. A line is
// a suite, a pattern as in path.Match, and the reason.
func readAllowed(name, suite string) ([]string, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read which skips are expected: %w", err)
	}
	var patterns []string
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[0] == suite {
			patterns = append(patterns, fields[1])
		}
	}
	return patterns, nil
}

func (l *log) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if code, ok := strings.CutPrefix(lines.Text(), "exit "); ok {
			l.exit = code
			continue
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(l.out, lines.Text()) // not from the test: a complaint of go itself
			continue
		}
		l.add(e)
	}
	return lines.Err()
}

func (l *log) add(e event) {
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(l.out, e.Output)
	case "output":
		l.output[key] = append(l.output[key], e.Output)
		// A figure is worth showing though its test passes.
		if _, figure, found := strings.Cut(e.Output, "figure: "); found {
			fmt.Fprint(l.out, "figure: ", figure)
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			l.endPackage(e, l.output[key])
		} else {
			l.endTest(e, l.output[key])
		}
		delete(l.output, key)
	}
}

func (l *log) endTest(e event, output []string) {
	l.costs = append(l.costs, cost{test{e.Package, e.Test}, e.Elapsed})
	switch e.Action {
	case "pass":
		l.passed = append(l.passed, test{e.Package, e.Test})
	case "fail":
		l.failed = append(l.failed, test{e.Package, e.Test})
		l.broken = l.broken || slices.ContainsFunc(output, unforgivable)
		fmt.Fprintf(l.out, "%s", strings.Join(output, ""))
	case "skip":
		l.skipped++
		l.skips = append(l.skips, skip{e.Test, reason(output)})
	}
}

// unforgivable tells of a line of a failure that it is none of chance.
func unforgivable(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "WARNING: DATA RACE")
}

// reason is the line that a test gave to t.Skip.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			return line
		}
	}
	return "no reason given"
}

func (l *log) endPackage(e event, output []string) {
	inTest := func(t test) bool { return t.pkg == e.Package }
	for key, left := range l.output { // of tests that did not come to their end: a crash
		if pkg, name, _ := strings.Cut(key, "\x00"); pkg == e.Package && name != "" {
			if e.Action == "fail" {
				fmt.Fprint(l.out, strings.Join(left, ""))
				l.broken = l.broken || slices.ContainsFunc(left, unforgivable)
			}
			delete(l.output, key)
		}
	}
	if e.Action == "fail" && (!slices.ContainsFunc(l.failed, inTest) || slices.ContainsFunc(output, unforgivable)) {
		l.broken = true
	}
	for _, line := range output {
		if line != "PASS\n" && line != "FAIL\n" && !strings.Contains(line, "[no test files]") {
			fmt.Fprint(l.out, line)
		}
	}
}

// finish prints the totals and tells whether all is well.
func (l *log) finish(suite string, allowed []string, ci bool) bool {
	ok := len(l.failed) == 0 && !l.broken && len(l.passed) > 0
	for _, s := range l.skips {
		expected := slices.ContainsFunc(allowed, func(pattern string) bool {
			match, err := path.Match(pattern, s.test)
			return err == nil && match
		})
		fmt.Fprintf(l.out, "skipped: %s: %s\n", s.test, s.why)
		if !expected && ci {
			fmt.Fprintf(l.out, "  a skip that tests/skips does not name is a failure here\n")
			ok = false
		}
	}
	if file := os.Getenv("LEFT_OUT"); file != "" && !l.note(file, suite) {
		ok = false
	}
	l.printCosts()
	if len(l.passed)+len(l.failed)+l.skipped == 0 {
		fmt.Fprintln(l.out, "no test ran")
	}
	fmt.Fprintf(l.out, "%s: %d passed, %d failed, %d skipped\n", suite, len(l.passed), len(l.failed), l.skipped)
	return ok
}

// printCosts prints the tests that took longest. A test with parts is their sum, and is left
// out.
func (l *log) printCosts() {
	parts := map[test]bool{}
	for _, c := range l.costs {
		if i := strings.LastIndexByte(c.name, '/'); i > 0 {
			parts[test{c.pkg, c.name[:i]}] = true
		}
	}
	costs := slices.DeleteFunc(l.costs, func(c cost) bool { return parts[c.test] || c.seconds < 1 })
	slices.SortStableFunc(costs, func(a, b cost) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, c := range costs[:min(len(costs), dear)] {
		fmt.Fprintf(l.out, "took %5.1f s: %s %s\n", c.seconds, c.pkg, c.name)
	}
}

// note adds to a file what was left out, for the last line of make test.
func (l *log) note(file, suite string) bool {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		for _, s := range l.skips {
			fmt.Fprintf(f, "%s %s (%s)\n", suite, s.test, s.why)
		}
		err = f.Close()
	}
	if err != nil {
		fmt.Fprintln(l.out, "cannot note what was left out:", err)
	}
	return err == nil
}
