package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

func finish(t *testing.T, ci bool, allowed []string, lines ...string) (bool, string) {
	t.Helper()
	var out bytes.Buffer
	l := &log{out: &out, output: map[string][]string{}}
	if err := l.read(strings.NewReader(strings.Join(lines, "\n"))); err != nil {
		t.Fatal(err)
	}
	return l.finish("unit", allowed, ci), out.String()
}

const (
	pass = `{"Action":"pass","Package":"p","Test":"TestA"}`
	fail = `{"Action":"fail","Package":"p","Test":"TestB"}`
	why  = `{"Action":"output","Package":"p","Test":"TestC","Output":"    a_test.go:1: no engine\n"}`
	skp  = `{"Action":"skip","Package":"p","Test":"TestC"}`
	dead = `{"Action":"fail","Package":"p"}`
)

func TestTotals(t *testing.T) {
	for _, c := range []struct {
		name    string
		ci      bool
		allowed []string
		lines   []string
		ok      bool
		want    string
	}{
		{"passes", true, nil, []string{pass}, true, "unit: 1 passed, 0 failed, 0 skipped"},
		{"a failure", false, nil, []string{pass, fail, dead}, false, "1 passed, 1 failed"},
		{"a package that does not build", false, nil, []string{pass, dead}, false, "1 passed, 0 failed"},
		{"a crash in a test", false, nil, []string{pass, why, dead}, false, "a_test.go:1: no engine"},
		{"nothing ran", false, nil, nil, false, "no test ran"},
		{"a skip on a laptop", false, nil, []string{pass, why, skp}, true, "skipped: TestC: a_test.go:1: no engine"},
		{"a skip in CI", true, nil, []string{pass, why, skp}, false, "is a failure here"},
		{"an expected skip in CI", true, []string{"TestC"}, []string{pass, why, skp}, true, "1 skipped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ok, out := finish(t, c.ci, c.allowed, c.lines...)
			if ok != c.ok || !strings.Contains(out, c.want) {
				t.Errorf("ok %t, output:\n%s", ok, out)
			}
		})
	}
}

// TestCosts: the tests that took longest come first, without those that have parts.
func TestCosts(t *testing.T) {
	_, out := finish(t, false, nil,
		`{"Action":"pass","Package":"p","Test":"TestA/one","Elapsed":2.5}`, `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":9}`,
		`{"Action":"pass","Package":"p","Test":"TestB","Elapsed":31}`, `{"Action":"pass","Package":"p","Test":"TestC","Elapsed":0.5}`)
	if want := "took  31.0 s: p TestB\ntook   2.5 s: p TestA/one\nunit: 4"; !strings.HasPrefix(out, want) {
		t.Errorf("it is\n%s, and should begin with\n%s", out, want)
	}
}

// TestForgive: what failed by chance passes alone; a panic, a data race, a package
// that broke and many failures are not chance.
func TestForgive(t *testing.T) {
	part := `{"Action":"fail","Package":"p","Test":"TestB/one"}`
	race := `{"Action":"output","Package":"p","Test":"TestB","Output":"WARNING: DATA RACE\n"}`
	other := `{"Action":"fail","Package":"q"}`
	many := []string{pass}
	for _, name := range []string{"A", "B", "C", "D"} {
		many = append(many, strings.ReplaceAll(fail, "TestB", "Test"+name))
	}
	for _, c := range []struct {
		name  string
		lines []string
		twice bool // it passes when it is run again
		ran   int
		ok    bool
	}{
		{"by chance", []string{pass, part, fail, dead}, true, 1, true},
		{"again", []string{pass, part, fail, dead}, false, 1, false},
		{"a data race", []string{pass, race, fail, dead}, true, 0, false},
		{"a panic that is a test", []string{`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: meant\\n"}`, pass, part, fail, dead}, true, 1, true},
		{"a package besides", []string{pass, fail, dead, other}, true, 0, false},
		{"many", many, true, 0, false},
		{"nothing", []string{pass}, true, 0, true},
	} {
		l := &log{out: io.Discard, output: map[string][]string{}}
		if err := l.read(strings.NewReader(strings.Join(c.lines, "\n"))); err != nil {
			t.Fatal(err)
		}
		ran := 0
		l.forgive(func(which test) bool {
			ran++
			return c.twice && (which == test{"p", "TestB/one"})
		})
		if ok := l.finish("unit", nil, true); ok != c.ok || ran != c.ran {
			t.Errorf("%s: well %t, %d run again", c.name, ok, ran)
		}
	}
}

// TestEnded: what does not say how it ended, or says otherwise than was seen, fails.
func TestEnded(t *testing.T) {
	for _, c := range []struct {
		lines []string
		ok    bool
	}{
		{[]string{pass, "exit 0"}, true},
		{[]string{pass}, false},
		{[]string{pass, "exit 1"}, false},
		{[]string{pass, "exit 137"}, false},
	} {
		l := &log{out: io.Discard, output: map[string][]string{}}
		if err := l.read(strings.NewReader(strings.Join(c.lines, "\n"))); err != nil {
			t.Fatal(err)
		}
		l.ended()
		if ok := l.finish("unit", nil, true); ok != c.ok {
			t.Errorf("%q: well %t", c.lines, ok)
		}
	}
}
