package s6

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rlminit/tests/box"
	"rlminit/tests/ns"
)

// TestSetuidgidBesideS6 becomes each kind of account by s6's s6-setuidgid and by ours.
func TestSetuidgidBesideS6(t *testing.T) {
	need(t)
	if !ns.Privileged() {
		t.Skip("not root: no other user can be become")
	}
	ours := names(t)
	for _, args := range [][]string{
		{"nobody", "id"},
		{"nobody", "sh", "-c", "grep -E '^(Uid|Gid|Groups|CapEff|CapPrm)' /proc/self/status"},
		{"nobody", "sh", "-c", "exit 7"},
		{"nobody", "sh", "-c", "kill -9 $$"},
		{"nobody", "env"},
		{"1:2", "id"},
		{"", "id", "-u"},
		{"nosuch", "id"},
		{"65534", "id"},
		{"nobody:nogroup", "id"},
		{"1:", "id"},
		{"nobody"},
		{},
		{"-x", "nobody", "id"},
		{"nobody", "/etc/passwd"},
		{"nobody", "/nowhere/nosuch"},
		{"nobody", "--", "id"},
	} {
		theirs, own := result(t, "s6-setuidgid", args), result(t, filepath.Join(ours, "s6-setuidgid"), args)
		if theirs.code != own.code || theirs.out != own.out || (theirs.err == "") != (own.err == "") {
			t.Errorf("s6-setuidgid %q:\n s6   %v\n ours %v", args, theirs, own)
		}
	}
	drop := append([]string{"--reuid", "65534", "--clear-groups", "s6-setuidgid"}, "nobody", "id")
	theirs := result(t, "setpriv", drop)
	drop[3] = filepath.Join(ours, "s6-setuidgid")
	if own := result(t, "setpriv", drop); theirs.code != own.code || own.code != 111 {
		t.Errorf("whoever is not root: s6 %v, ours %v", theirs, own)
	}
}

// TestSayAgain: a service is its user already, and its key ready asks what the script would,
// so that a script with these words runs as it is. s6's own s6-setuidgid refuses.
func TestSayAgain(t *testing.T) {
	need(t)
	if !ns.Privileged() {
		t.Skip("not root: nobody can be become")
	}
	ours := names(t)
	as := func(args ...string) outcome {
		return result(t, "setpriv", append([]string{"--reuid", "65534", "--regid", "65534", "--clear-groups"}, args...))
	}
	set, check := filepath.Join(ours, "s6-setuidgid"), filepath.Join(ours, "s6-notifyoncheck")
	for _, user := range []string{"nobody", "65534:65534"} {
		if got := as(set, user, "sh", "-c", "id -u; exit 3"); got.code != 3 || got.out != "65534\n" {
			t.Errorf("%s again: %v", user, got)
		}
		if got := as("s6-setuidgid", user, "true"); got.code != 111 {
			t.Errorf("s6's own, which we are said to differ from: %v", got)
		}
	}
	for _, user := range []string{"daemon", "65534:0", "0:65534"} {
		if got := as(set, user, "true"); got.code != 111 {
			t.Errorf("who is another: %s: %v", user, got)
		}
	}
	if got := as(check, "-d", "-n", "300", "-w1000", "-c", "nc -z x 1", "-3", "4", set, "nobody", "sh", "-c", "id -u; exit 4"); got.code != 4 || got.out != "65534\n" {
		t.Errorf("s6-notifyoncheck: %v", got)
	}
	for _, args := range [][]string{{}, {"-d"}, {"-x", "true"}, {"-c"}} {
		if theirs, own := result(t, "s6-notifyoncheck", args), result(t, check, args); own.code != 100 || theirs.code != 100 {
			t.Errorf("s6-notifyoncheck %q: s6 %v, ours %v", args, theirs, own)
		}
	}
}

// names makes the links of install-compat, beside the programs that the tests run.
func names(t *testing.T) string {
	t.Helper()
	bin, err := box.Build()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(bin) })
	dir := filepath.Join(bin, "names")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(bin, "rlminit"), "install-compat", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

func result(t *testing.T, name string, args []string) outcome {
	t.Helper()
	cmd := exec.Command(name, args...)
	var out, complaint strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.Env = append(os.Environ(), "KEPT=as it is")
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return outcome{out.String(), complaint.String(), cmd.ProcessState.ExitCode()}
}

// TestWithContenv runs commands with the environment of services, from within and from without.
func TestWithContenv(t *testing.T) {
	b := ns.Start(t, box.Spec{Config: strings.Replace(config, "services:\n", `services:
  own: {command: [sh, -c, "exec rlminit-s6 with-contenv env"], environment: {GREETING: mine}, type: oneshot}
`, 1)})
	b.Await("own", "exited")
	var inside string
	box.Eventually(t, long, "the log has the environment", func() (bool, any) {
		inside = b.Must("logs", "own")
		return strings.Contains(inside, "GREETING="), inside
	})
	if !strings.Contains(inside, "GREETING=mine") {
		t.Errorf("a service lost its own value: %s", inside)
	}
	for _, who := range []box.User{box.Root, box.Service} {
		if who == box.Root && !ns.Privileged() {
			continue
		}
		r := b.As(who, "env", "-i", "PATH=/bin:/usr/bin", "HOME=/its/own", "EXTRA=kept", b.Shell(who, "printf %s \"$(command -v rlminit-s6)\""), "with-contenv", "env")
		env := strings.Split(strings.TrimSpace(r.Out), "\n")
		for _, want := range []string{"GREETING=good day", "EXTRA=kept"} {
			if !slices.Contains(env, want) {
				t.Errorf("%v has no %s: %v", who, want, r)
			}
		}
		if kept := slices.Contains(env, "HOME=/its/own"); kept != (who == box.Root) || r.Code != 0 {
			t.Errorf("%v: HOME: %v", who, r)
		}
		if slices.Contains(env, "PATH=/bin:/usr/bin") {
			t.Errorf("%v: PATH is not the container's: %v", who, r)
		}
	}
	if r := b.As(box.Stranger, "rlminit-s6", "with-contenv", "sh", "-c", "echo $EXTRA$GREETING; exit 9"); r.Code != 9 || strings.Contains(r.Out, "good") {
		t.Errorf("a stranger: %v", r)
	}
}

// TestShim runs a program of which there is a shim, as root, as others, and without a
// supervisor.
func TestShim(t *testing.T) {
	if !ns.Privileged() {
		t.Skip("not root: there is nothing to drop")
	}
	tell := "#!/bin/sh\necho \"$0|$(id -u):$(id -g)|$GREETING|$PWD|$*\"\n[ \"$1\" != again ] || exec agent once more\nif [ \"$1\" = signalled ]; then trap 'exit 9' USR1; echo ready; sleep 30 >&- 2>&- & wait; fi\nread line && echo \"read $line\"\nexit ${CODE:-5}\n"
	dir := t.TempDir()
	real, shims := filepath.Join(dir, "real"), filepath.Join(dir, "shims")
	for _, d := range []string{real, shims} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // for the users in the box
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(real, "agent"), []byte(tell), 0o755); err != nil {
		t.Fatal(err)
	}
	b := ns.Start(t, box.Spec{Config: config})
	if r := b.As(box.Root, "rlminit", "install-compat", "--shim", "agent="+real+"/agent", shims); r.Code != 0 {
		t.Fatal(r)
	}
	home := b.Shell(box.Root, "rlminit exec -- pwd")
	path := "PATH=" + shims + ":$PATH; export PATH; echo hello | "
	for _, try := range []struct {
		who    box.User
		script string
		want   string
	}{
		{box.Root, "GREETING=none CODE=3 agent 'a b' --flag -- x; echo code $?", real + "/agent|1000:1000|good day|" + home + "|a b --flag -- x\nread hello\ncode 5\n"},
		{box.Service, "GREETING=mine CODE=3 agent 'a b'; echo code $?", real + "/agent|1000:1000|mine|/|a b\nread hello\ncode 3\n"},
		{box.Stranger, "agent; echo code $?", real + "/agent|10000:10000||/|\nread hello\ncode 5\n"},
		{box.Service, "agent again", real + "/agent|1000:1000||/|again\n" + real + "/agent|1000:1000||/|once more\nread hello\n"},
		{box.Root, real + "/agent full; echo code $?", real + "/agent|0:0||/|full\nread hello\ncode 5\n"},
	} {
		r := b.As(try.who, "sh", "-c", "cd /; "+path+"{ "+try.script+"; }")
		if got := r.Out; got != strings.ReplaceAll(try.want, home, strings.TrimSpace(home)) || r.Err != "" {
			t.Errorf("%v: %s:\n %q\n want %q; stderr %q", try.who, try.script, got, try.want, r.Err)
		}
	}
	// A signal of the caller's goes to the program, which has taken the place of the shim.
	r := b.As(box.Root, "sh", "-c", shims+"/agent signalled >"+dir+"/out & p=$!; i=0; until grep -q ready "+dir+"/out; do i=$((i+1)); [ $i -lt 3000 ] || exit 99; sleep 0.01; done; kill -USR1 $p; wait $p")
	if r.Code != 9 {
		t.Errorf("a signal: %v", r)
	}
	for _, bad := range [][]string{
		{"agent=" + shims + "/agent", "/etc"},
		{"agent=" + real + "/agent", real},
		{"agent=/etc/passwd", shims},
		{"agent=agent", shims},
		{"agent=/nowhere", shims},
		{"tini=" + real + "/agent", "/nowhere"},
	} {
		if r := b.As(box.Root, "rlminit", "install-compat", "--shim", bad[0], bad[1]); r.Code != 1 || !strings.HasPrefix(r.Err, "rlminit: cannot make ") || strings.Count(r.Err, "\n") != 1 {
			t.Errorf("%q: %v", bad, r)
		}
	}
	// Two that call each other end, even as root where nobody supervises.
	pure := ns.Start(t, box.Spec{Main: []string{"sleep", "inf"}})
	box.Eventually(t, long, "the box has its own /proc and /tmp", func() (bool, any) {
		r := pure.As(box.Root, "grep", "-x", "rlminit", "/proc/1/comm")
		return r.Code == 0, r
	})
	pure.Shell(box.Root, "d=$(mktemp -d); printf '#!/bin/sh\nid -u; exit 4\n' >$d/real; chmod 755 $d $d/real; rlminit install-compat --shim x=$d/real $d; echo $d >/tmp/shims")
	r = pure.As(box.Root, "sh", "-c", "$(cat /tmp/shims)/x")
	if r.Code != 4 || r.Out != "0\n" || !strings.HasPrefix(r.Err, "x: no rlminit supervises here: ") || strings.Count(r.Err, "\n") != 1 {
		t.Errorf("without a supervisor: %v", r)
	}
	r = pure.As(box.Root, "sh", "-c", "d=$(cat /tmp/shims); cp $d/x $d/real; $d/x; echo $?; rm -r $d /tmp/shims")
	if !strings.HasSuffix(r.Out, "1\n") || !strings.Contains(r.Err, "is a shim itself") {
		t.Errorf("a shim of itself: %v", r)
	}
}
