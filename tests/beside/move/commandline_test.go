package move

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rlminit/tests/ns"
)

// TestCommandLine runs rlminit import as a person types it.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	dir := place(t)
	write(t, dir, "Procfile", "web: sleep 1\n")
	write(t, dir, "bad/Procfile", "web: sleep 1\nnothing\n")
	write(t, dir, "none/readme.txt", "nothing\n")
	write(t, dir, "empty/Procfile", "# nothing\n")
	write(t, dir, "old.yaml", "old\n")
	program := []string{filepath.Join(ns.Programs(), "rlminit"), "import"}
	if !ns.Privileged() { // only what root owns is run as a verb
		program = []string{filepath.Join(ns.Programs(), "rlminit-import")}
	}
	for _, c := range []struct {
		args     string
		code     int
		out, err string // how each begins; "": it is empty
	}{
		{"Procfile", 0, "# What rlminit supervises", "rlminit: procfile, in the root /: 1 service, 0 things left out\n"},
		{".", 0, "# What rlminit supervises", "rlminit: procfile"},
		{"bad", 14, "# What", "rlminit: procfile, in the root /: 1 service, 1 thing left out: 1 invalid\nbad/Procfile:2: nothing: it is no NAME: COMMAND"},
		{"--json bad", 14, "{\n  \"source\": \"procfile\"", ""},
		{"-o new.yaml Procfile", 0, "", "rlminit: procfile"},
		{"-o new.yaml Procfile", 0, "", "rlminit: procfile"}, // it is the same
		{"-o old.yaml Procfile", 1, "", "rlminit: cannot write old.yaml: something else is there; --force overwrites it"},
		{"-o old.yaml --force Procfile", 0, "", "rlminit: procfile"},
		{"-o gone/new.yaml Procfile", 1, "", "rlminit: cannot write gone/new.yaml: "},
		{"--help", 0, "Usage: rlminit import", ""},
		{"", 2, "", "rlminit: PATH is missing; write rlminit import PATH"},
		{"--frob x", 2, "", "rlminit: unknown flag: --frob"},
		{"--from runit Procfile", 2, "", `rlminit: cannot import from "runit": it is none of s6, supervisord`},
		{"nowhere", 1, "", "rlminit: cannot read nowhere: no such file"},
		{"none", 1, "", "rlminit: cannot tell what none is; say so by --from: "},
		{"--from s6 none", 1, "", "rlminit: cannot import: there is no run"},
		{"--from supervisord none", 1, "", "rlminit: cannot import: there is none of supervisord.conf"},
		{"empty", 1, "", "rlminit: cannot import: there is no service in it"},
	} {
		cmd := exec.Command(program[0], append(program[1:], strings.Fields(c.args)...)...)
		cmd.Dir = dir
		var out, complaint strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &complaint
		_ = cmd.Run() // its code is looked at
		for what, is := range map[string][2]string{"stdout": {out.String(), c.out}, "stderr": {complaint.String(), c.err}} {
			if !strings.HasPrefix(is[0], is[1]) || is[1] == "" && is[0] != "" {
				t.Errorf("import %s: %s is %q, and is to begin with %q", c.args, what, is[0], is[1])
			}
		}
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("import %s: exit code %d, want %d: %s", c.args, code, c.code, complaint.String())
		}
		if c.code == 1 && strings.Count(complaint.String(), "\n") != 1 {
			t.Errorf("import %s: %q is not one line", c.args, complaint.String())
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "new.yaml")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("-o: %v, %v", info, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".rlminit*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// commented are the keys and sections of supervisor's own sample that are not in force.
var commented = regexp.MustCompile(`(?m)^;(\[|[a-z_]+ ?=)`)

// TestSupervisordSample imports the sample that supervisor prints, with each key in force.
func TestSupervisordSample(t *testing.T) {
	t.Parallel()
	need(t, "echo_supervisord_conf", "supervisor")
	sample, err := exec.Command("echo_supervisord_conf").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := place(t)
	write(t, dir, "supervisord.conf", commented.ReplaceAllString(string(sample), "$1"))
	m := convert(t, dir, filepath.Join(dir, "supervisord.conf"))
	if len(m.Services) != 1 {
		t.Errorf("%+v", m.Services)
	}
	for _, l := range m.Left {
		if l.Reason == "unknown" || l.Reason == "invalid" && l.What != "environment" {
			t.Errorf("%d: %s: %s", l.Line, l.What, l.Why)
		}
	}
	for _, what := range []string{"[eventlistener:theeventlistenername]", "[unix_http_server]", "stdout_capture_maxbytes", "stdout_logfile", "serverurl"} {
		if !m.left(what, "no-equal") {
			t.Errorf("%s is not named in %+v", what, m.Left)
		}
	}
	t.Logf("figure: supervisor's sample: %d keys and sections left out: %v", len(m.Left), m.Counts)
}
