package main

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/wire"
)

func TestInitArguments(t *testing.T) {
	for _, test := range []struct {
		args    string
		config  string
		flags   map[string]string
		command []string
		fault   string
	}{
		{args: ""},
		{args: "--"},
		{args: "sh -c x", command: []string{"sh", "-c", "x"}},
		{args: "-- --version -x --", command: []string{"--version", "-x", "--"}},
		{args: "--config a.yaml sh --config b", config: "a.yaml", command: []string{"sh", "--config", "b"}},
		{args: "--config=a=b -- sh", config: "a=b", command: []string{"sh"}},
		{args: "--strict --stop-timeout 3s --user=1:2 --profiles off --home /x -- sh", flags: map[string]string{"strict": "on", "stop_timeout": "3s", "user": "1:2", "profiles": "off", "home": "/x"}, command: []string{"sh"}},
		{args: "--strict=off", flags: map[string]string{"strict": "off"}},
		{
			args:  "--success 3 --verbose --success=4,5 --signal-group --verbose --parent-death TERM --warn-on-reap=off",
			flags: map[string]string{"success": "3,4,5", "verbose": "2", "signal_group": "on", "parent_death": "TERM", "warn_on_reap": "off"},
		},
		{args: "--verbose --verbose --verbose --verbose", flags: map[string]string{"verbose": "3"}},
		{args: "--parent-death", fault: "--parent-death needs a value; see rlminit help init"},
		{args: "--frob", fault: "no flag --frob; see rlminit help init"},
		{args: "-g", fault: "no flag -g; see rlminit help init"},
		{args: "-config x", fault: "no flag -config; see rlminit help init"},
		{args: "--config", fault: "--config needs a value; see rlminit help init"},
	} {
		o, help, err := initArguments(strings.Fields(test.args))
		if test.fault != "" {
			if err == nil || err.Error() != test.fault {
				t.Errorf("%q: %v, want %q", test.args, err, test.fault)
			}
			continue
		}
		if err != nil || help || o.config != test.config || !maps.Equal(o.flags, test.flags) || !slices.Equal(o.command, test.command) {
			t.Errorf("%q: %+v, %v, %v", test.args, o, help, err)
		}
	}
	for _, args := range []string{"-h", "--help", "--strict --help"} {
		if _, help, err := initArguments(strings.Fields(args)); !help || err != nil {
			t.Errorf("%q does not ask for help: %v", args, err)
		}
	}
}

// compiled runs compile as init does, and returns what it left in the memfds.
func compiled(t *testing.T, yaml string, args ...string) (r result, policy, bundle []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rlminit.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := (*box)(nil).command(append([]string{"compile", "--config", file}, args...)...)
	for range 2 {
		fd, err := unix.MemfdCreate("cli-test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "memfd")
		defer f.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	r = outcomeOf(t, cmd)
	content := func(f *os.File) []byte {
		f.Seek(0, io.SeekStart)
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return r, content(cmd.ExtraFiles[0]), content(cmd.ExtraFiles[1])
}

func TestCompile(t *testing.T) {
	r, raw, rawBundle := compiled(t, "version: 1\nuser: \"61234:61234\"\nhome: /data\nmain: {command: [agent]}\n",
		"--stop-timeout", "3s", "--", "--flag of main", "")
	if r.code != 0 || r.out != "" {
		t.Fatalf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	policy, err := wire.DecodePolicy(raw)
	if err != nil {
		t.Fatal(err)
	}
	if policy.StopNanos != 3e9 || policy.Volume != "/data" {
		t.Errorf("policy = %+v", policy)
	}
	if policy.Main == nil || !slices.Equal(policy.Main.Argv, []string{"agent", "--flag of main", ""}) {
		t.Errorf("main = %+v", policy.Main)
	}
	bundle, err := config.DecodeBundle(rawBundle)
	if err != nil {
		t.Fatal(err)
	}
	if len(bundle.Files) != 1 || !slices.Equal(bundle.Args, []string{"--flag of main", ""}) || bundle.Flags["stop_timeout"] != "3s" {
		t.Errorf("bundle = %+v", bundle)
	}
}

// A broken configuration ends the container with 78, and with a line for each
// fault.
func TestCompileBroken(t *testing.T) {
	r, policy, _ := compiled(t, "version: 1\nuser: \"61234\"\nservices:\n  web: {command: [web], enviroment: {}}\n  db: {command: db}\n")
	want := `rlminit: rlminit.yaml:4: services.web: unknown key "enviroment"; did you mean "environment"?
rlminit: rlminit.yaml:5: services.db.command: "db" is a string; write [db]
`
	if r.code != 78 || r.err != want || r.out != "" || len(policy) != 0 {
		t.Errorf("exit %d, %d bytes of policy, stderr:\n%swant:\n%s", r.code, len(policy), r.err, want)
	}
	if r := (*box)(nil).rlminit(t, "init", "--config", "/nonexistent/rlminit.yaml"); r.code != 78 ||
		r.err != "rlminit: cannot read /nonexistent/rlminit.yaml: no such file or directory\n" {
		t.Errorf("no configuration: exit %d, %q", r.code, r.err)
	}
	if r := (*box)(nil).rlminit(t, "compile"); r.code != 2 || countLines(r.err) != 1 {
		t.Errorf("compile by hand: exit %d, %q", r.code, r.err)
	}
}
