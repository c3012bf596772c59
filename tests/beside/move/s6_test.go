package move

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/ns"
)

// TestS6 runs s6-svscan beside what was made of its service directories.
func TestS6(t *testing.T) {
	t.Parallel()
	need(t, "s6-svscan", "s6")
	need(t, "execlineb", "execline") // which s6-notifyoncheck runs its check with
	dir := place(t)
	write(t, dir, "witness", witness)
	write(t, dir, "bin/with-contenv", "#!/bin/sh\nexec \"$@\"\n")
	run := func(name, more string, args ...string) {
		write(t, dir, "services/"+name+"/run", fmt.Sprintf("#!%s/bin/with-contenv sh\nexec 2>&1\n%s\nexec %s/witness %s %s\n", dir, more, dir, name, strings.Join(args, " ")))
	}
	run("web", "", "stay")
	write(t, dir, "services/web/down-signal", "SIGHUP\n")
	run("plain", "cd /usr", "stay")
	run("crashes", "", "exit", "3", "0.2")
	run("ends", "", "exit", "0", "0.2") // and is started again, whatever its code
	run("idle", "", "stay")
	write(t, dir, "services/idle/down", "")
	run("slow", "sleep 1; echo ready >&3; exec 3>&-", "stay")
	write(t, dir, "services/slow/notification-fd", "3\n")
	write(t, dir, "services/asked/run", fmt.Sprintf("#!%[1]s/bin/with-contenv sh\nexec 2>&1\nPATH=$WORDS$PATH\nexec \\\n  s6-notifyoncheck -d -w 100 -n 1000 -c \"test -e %[1]s/up\" \\\n  %[1]s/witness asked stay\n", dir))
	write(t, dir, "services/asked/notification-fd", "3\n")
	words := filepath.Join(dir, "words") // the names of s6's programs that a script finds here
	write(t, dir, "words/empty", "")
	if out, err := exec.Command(filepath.Join(ns.Programs(), "rlminit"), "install-compat", words).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run("logged", "", "stay")
	write(t, dir, "services/logged/log/run", fmt.Sprintf("#!/bin/sh\nexec s6-log n5 s100000 T %s/logged\n", dir))
	write(t, dir, "logged/empty", "")
	theirs, ours := filepath.Join(dir, "theirs"), filepath.Join(dir, "ours")

	m := convert(t, dir, "--root", "/", "--user", "1000:1000", filepath.Join(dir, "services"))
	for what, reason := range map[string]string{"root": "rights", "log": "near"} {
		if !m.left(what, reason) {
			t.Errorf("%s is not named as %s in %+v", what, reason, m.Left)
		}
	}
	// s6 writes into its directories, so it has its own.
	if out, err := exec.Command("cp", "-a", filepath.Join(dir, "services"), filepath.Join(dir, "scan")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if ns.Privileged() {
		if out, err := exec.Command("chown", "-R", "1000:1000", filepath.Join(dir, "scan"), filepath.Join(dir, "logged")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	scan := filepath.Join(dir, "scan")
	d := original(t, dir, theirs, []string{"GREETING=good day"}, "s6-svscan", scan)
	b := ns.Start(t, box.Spec{Config: m.config, Env: []string{"RECORD=" + ours, "GREETING=good day", "WORDS=" + words + ":"}})

	want := map[string]int{"start web": 1, "start plain": 1, "start crashes": 3, "start ends": 3, "start slow": 1, "start logged": 1, "start asked": 1}
	for _, record := range []string{theirs, ours} {
		await(t, record, want)
	}
	b.Await("idle", "stopped")
	b.Await("slow", "running") // it has written to its descriptor
	svstat := func(name string) string {
		out, err := exec.Command("s6-svstat", filepath.Join(scan, name)).CombinedOutput()
		return fmt.Sprint(string(out), err)
	}
	box.Eventually(t, long, "s6 has slow as ready", func() (bool, any) { return strings.Contains(svstat("slow"), "ready"), svstat("slow") })
	b.Await("asked", "starting")
	if said := svstat("asked"); strings.Contains(said, "ready") {
		t.Errorf("asked is ready without what its check asks for: %s", said)
	}
	write(t, dir, "up", "")
	b.Await("asked", "running")
	box.Eventually(t, long, "s6 has asked as ready", func() (bool, any) { return strings.Contains(svstat("asked"), "ready"), svstat("asked") })
	box.Eventually(t, long, "s6-log has what logged wrote", func() (bool, any) {
		data, err := os.ReadFile(filepath.Join(dir, "logged/current"))
		return strings.HasSuffix(string(data), " logged says hello\n"), fmt.Sprint(string(data), err)
	})
	if out := b.Must("logs", "logged"); strings.Count(out, " out logged says hello\n") != 1 {
		t.Errorf("logs logged: %q", out)
	}
	stopBoth(t, d, b)
	same := equal(t, summary(relative(lines(theirs), scan), 3), summary(relative(lines(ours), filepath.Join(dir, "services")), 3))
	t.Logf("figure: s6: %d services imported, %d started, %d equal; left out: %v", len(m.Services), len(want), same, m.Counts)
}

// relative are lines without the directory that differs between the two.
func relative(all []string, dir string) (out []string) {
	for _, l := range all {
		out = append(out, strings.ReplaceAll(l, dir, "DIR"))
	}
	return out
}

func stopBoth(t *testing.T, d *exec.Cmd, b *box.Box) {
	t.Helper()
	if err := d.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = d.Wait() // s6-svscan's code says nothing
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
}

// TestS6RC starts what was made of sources of s6-rc, as images with s6-overlay 3 have them.
// Debian has no s6-rc to run beside it.
func TestS6RC(t *testing.T) {
	t.Parallel()
	dir := place(t)
	if out, err := exec.Command("cp", "-a", "testdata/s6v3", "testdata/s6v2", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, tree := range []string{"s6v3", "s6v2"} {
		spell(t, filepath.Join(dir, tree), map[string]string{"/etc/s6-overlay/": filepath.Join(dir, tree) + "/etc/s6-overlay/"})
	}
	m := convert(t, dir, "--root", "/", "--user", "1000:1000", filepath.Join(dir, "s6v3"))
	b := ns.Start(t, box.Spec{Config: m.config, Env: []string{"STATE=" + filepath.Join(dir, "state"), "GREETING=you"}})
	b.Await("svc-api", "running")
	b.Await("init-config", "exited")
	b.Await("svc-idle", "stopped")
	// The API is started when the database has said that it is ready, and not before.
	await(t, filepath.Join(dir, "state/order"), map[string]int{"dirs": 1, "config": 1, "db": 1, "api": 1})
	if got := lines(filepath.Join(dir, "state/order")); !slices.Equal(got, []string{"dirs", "config", "db", "api"}) {
		t.Errorf("the order is %q", got)
	}
	box.Eventually(t, long, "the log has it", func() (bool, any) {
		out := b.Must("logs", "svc-api")
		return strings.Contains(out, "api of you"), out
	})
	t.Logf("figure: s6-rc: %d services imported, 4 started; left out: %v", len(m.Services), m.Counts)

	m = convert(t, dir, "--root", "/", "--user", "1000:1000", filepath.Join(dir, "s6v2"))
	if !m.left("s6-setuidgid", "rights") {
		t.Errorf("%+v", m.Left)
	}
	b = ns.Start(t, box.Spec{Config: strings.ReplaceAll(m.config, "    user: app\n", "    enabled: false\n"), Env: []string{"STATE=" + filepath.Join(dir, "v2"), "GREETING=you"}})
	b.Await("web", "running")
	b.AwaitThat("worker", "was restarted", func(s control.Service) bool { return s.Restarts > 0 })
	if got := lines(filepath.Join(dir, "v2/config")); !slices.Equal(got, []string{"configured by 1000"}) {
		t.Errorf("cont-init.d did %q", got)
	}
	b.Must("stop", "web")
	if out := b.Must("logs", "web"); !strings.Contains(out, "web starts, greeting you") || !strings.Contains(out, "web got HUP") {
		t.Errorf("logs web: %q", out)
	}
}

// spell replaces words in all files of a tree.
func spell(t *testing.T, dir string, words map[string]string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := string(data)
		for old, now := range words {
			text = strings.ReplaceAll(text, old, now)
		}
		return os.WriteFile(path, []byte(text), 0)
	})
	if err != nil {
		t.Fatal(err)
	}
}
