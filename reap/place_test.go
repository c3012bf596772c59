package reap

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/reap/proc"
	"rlminit/wire"
)

// round is what must work in every place: spawn, exit, orphans, leftovers,
// signals, and the end.
func round(t *testing.T, b *box, leftovers bool) {
	t.Helper()
	l := b.link
	sh := func(script string) uint64 {
		id, _ := l.spawn(t, func(m *wire.Spawn) { m.Path, m.Argv = "/bin/sh", []string{"sh", "-c", script} })
		return id
	}
	id := sh("exit 42")
	l.spawned(t, id)
	if got := l.exited(t, id); got.Code != 42 || got.Signal != 0 {
		t.Errorf("exit %+v", got)
	}
	id = sh("sleep 1000 & wait")
	l.spawned(t, id)
	if got := l.signal(t, id, unix.SIGTERM, wire.ScopeGroup); got.Count != 1 || got.Errno != 0 {
		t.Errorf("TERM to a group: %+v", got)
	}
	if got := l.exited(t, id); got.Signal != int32(unix.SIGTERM) {
		t.Errorf("%+v", got)
	}
	id = sh("for i in 1 2 3 4 5 6 7 8 9; do (true &); done; exit 0")
	l.spawned(t, id)
	l.exited(t, id)
	id = sh("(sleep 1000 &); exit 1")
	l.spawned(t, id)
	got := l.exited(t, id)
	if leftovers {
		if got.Leftovers != 1 {
			t.Errorf("%d leftovers", got.Leftovers)
		}
		l.signal(t, id, unix.SIGKILL, wire.ScopeLeftover)
		eventually(t, "the leftover is gone", func() bool { return l.signal(t, id, 0, wire.ScopeLeftover).Count == 0 })
	}
	eventually(t, "no zombie is left", func() bool { return b.zombies() == 0 })
	b.cmd.Process.Signal(unix.SIGTERM)
	want[*wire.Shutdown](t, l, nil)
	l.send(t, &wire.StopBegun{})
	began := time.Now()
	l.send(t, &wire.StopDone{})
	if code := b.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the end took %v", took)
	}
}

func TestAsRoot(t *testing.T) { round(t, startBox(t), true) }

func TestAsAnotherUser(t *testing.T) {
	b := startBox(t, withEnv("REAPTEST_UID=12345"))
	if b.link.welcome.Tags {
		t.Error("tags without setgroups")
	}
	id, out := b.link.spawn(t, nil, "report")
	b.link.spawned(t, id)
	r := decode[report](t, out)
	if r.Status["Uid"] != "12345 12345 12345 12345" || r.Status["NoNewPrivs"] != "1" {
		t.Errorf("uid %s, no_new_privs %s", r.Status["Uid"], r.Status["NoNewPrivs"])
	}
	// Its score is set from outside, when the program has begun: its own look may
	// come before that.
	asleep, _ := b.link.spawn(t, nil, "sleep")
	pid := b.link.spawned(t, asleep).PID
	if score, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/proc/%d/oom_score_adj", b.cmd.Process.Pid, pid)); string(score) != "300\n" {
		t.Errorf("the score of a child that is said to run is %q, %v", score, err)
	}
	b.link.signal(t, asleep, unix.SIGKILL, wire.ScopeGroup)
	b.link.exited(t, asleep)
	round(t, b, true)
	if !strings.Contains(b.stderr.String(), "setgroups is not allowed") {
		t.Errorf("stderr %q", b.stderr)
	}
}

// What is said is what clone(2) gives, whatever pidfd_open(2) does.
func TestPidfdRefusedIsSaid(t *testing.T) {
	const refused = "pidfd is refused"
	if b := startBox(t, withEnv("REAPTEST_NOPIDFD=clone")); strings.Count(b.stderr.String(), refused) != 1 {
		t.Errorf("without CLONE_PIDFD it says %q", b.stderr)
	}
	if b := startBox(t, withEnv("REAPTEST_NOPIDFD=open")); strings.Contains(b.stderr.String(), refused) {
		t.Errorf("without pidfd_open it says %q", b.stderr)
	}
}

func TestPidfdRefused(t *testing.T) {
	b := startBox(t, withEnv("REAPTEST_NOPIDFD=clone"), withMain("/bin/sh", "-c", "sleep 1000"))
	killTier2(t, b)
	b.link = b.accept()
	b.link.hello(t)
	b.link.next = b.link.welcome.NextID
	main := func() bool {
		for pid := range b.processes() {
			cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if strings.HasPrefix(string(cmdline), "sleep\x001000") {
				return unix.Kill(pid, unix.SIGKILL) == nil
			}
		}
		return false
	}
	id, _ := b.link.spawn(t, func(m *wire.Spawn) { m.Path, m.Argv = "/bin/sh", []string{"sh", "-c", "exit 9"} })
	if got := b.link.exited(t, id); got.Code != 9 {
		t.Errorf("%+v", got)
	}
	eventually(t, "main is there", main)
	want[*wire.Shutdown](t, b.link, nil)
	b.link.send(t, &wire.StopDone{})
	if code := b.wait(); code != 137 {
		t.Errorf("exit code %d", code)
	}
	round(t, startBox(t, withEnv("REAPTEST_NOPIDFD=clone")), true)
}

func TestWithoutCapKill(t *testing.T) {
	round(t, startBox(t, withEnv(fmt.Sprintf("REAPTEST_DROP=%d", unix.CAP_KILL))), true)
}

func TestWithoutCapSetpcap(t *testing.T) {
	b := startBox(t, withEnv(fmt.Sprintf("REAPTEST_DROP=%d", unix.CAP_SETPCAP)))
	id, out := b.link.spawn(t, nil, "report")
	b.link.spawned(t, id)
	if r := decode[report](t, out); r.Status["CapEff"] != "0000000000000000" || r.Status["NoNewPrivs"] != "1" {
		t.Errorf("%v", r.Status)
	}
	if !strings.Contains(b.stderr.String(), "no CAP_SETPCAP") {
		t.Errorf("stderr %q", b.stderr)
	}
}

func TestUserOutOfReach(t *testing.T) {
	b := newBox(t, withEnv(fmt.Sprintf("REAPTEST_DROP=%d", unix.CAP_SETUID)))
	if code := b.wait(); code != 78 {
		t.Errorf("exit code %d", code)
	}
	if want := "rlminit: cannot start: user app cannot be reached without CAP_SETUID; "; !strings.HasPrefix(b.stderr.String(), want) {
		t.Errorf("stderr %q", b.stderr)
	}
}

func TestFewDescriptors(t *testing.T) {
	b := startBox(t, withEnv("REAPTEST_NOFILE=64"))
	r, w, _ := os.Pipe()
	defer r.Close()
	defer w.Close()
	for i := range 100 {
		b.link.send(t, &wire.Hold{Key: fmt.Sprint("log/", i)}, int(w.Fd()))
	}
	var ids []uint64
	for range 60 { // more than there are descriptors for pidfds
		id, _ := b.link.spawn(t, func(m *wire.Spawn) { m.Path, m.Argv = "/bin/sleep", []string{"sleep", "1000"} })
		m := want(t, b.link, func(m wire.Message) bool { return idOf(m) == id })
		if _, ok := m.(*wire.Spawned); ok {
			ids = append(ids, id)
		}
	}
	if id, _ := b.link.spawn(t, func(m *wire.Spawn) { m.Name, m.Path, m.Argv = "99", "/bin/sleep", []string{"sleep", "1000"} }); true {
		failed := want(t, b.link, func(m *wire.SpawnFailed) bool { return m.ID == id })
		if failed.Errno != int32(unix.EMFILE) || !strings.Contains(failed.Reason, "raise --ulimit nofile") {
			t.Errorf("a service of which the log is not held: %+v", failed)
		}
	}
	if len(ids) < 50 {
		t.Errorf("only %d of 60 run", len(ids))
	}
	for _, id := range ids {
		b.link.signal(t, id, unix.SIGKILL, wire.ScopeMain)
		if got := b.link.exited(t, id); got.Signal != int32(unix.SIGKILL) {
			t.Errorf("%+v", got)
		}
		b.link.send(t, &wire.Acknowledge{ID: id})
	}
	round(t, b, true)
}

func idOf(m wire.Message) uint64 {
	switch m := m.(type) {
	case *wire.Spawned:
		return m.ID
	case *wire.SpawnFailed:
		return m.ID
	}
	return 0
}

func TestWithoutProc(t *testing.T) {
	b := startBox(t, withEnv("REAPTEST_NOPROC=1"))
	if !strings.Contains(b.stderr.String(), "no /proc") {
		t.Errorf("stderr %q", b.stderr)
	}
	round(t, b, false)
}

// The runtime directory is ours, emptied without following what the last
// boot's services put there, and holds a socket for all and a directory for the
// service user.
func TestRuntimeDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a PID namespace and other users")
	}
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	run := filepath.Join(dir, "run")
	for _, d := range []string{dir, filepath.Dir(dir)} {
		os.Chmod(d, 0o755)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(precious, 0o755))
	must(os.WriteFile(filepath.Join(precious, "file"), []byte("x"), 0o644))
	must(os.MkdirAll(filepath.Join(run, "services", "old", "deep"), 0o755))
	must(os.Symlink(precious, filepath.Join(run, "services", "link")))
	must(os.Symlink(precious, filepath.Join(run, "services", "old", "link")))
	must(os.Chown(run, testUser, testGroup))
	must(os.Chmod(run, 0o777))
	startBox(t, withEnv("RLMINIT_RUNTIME_DIR="+run))
	if _, err := os.Stat(filepath.Join(precious, "file")); err != nil {
		t.Error("a link was followed")
	}
	entries, _ := os.ReadDir(run)
	if len(entries) != 5 { // with the lock, the name of the service user, and the link to temporary files
		t.Errorf("left: %v", entries)
	}
	for name, want := range map[string]struct {
		uid  uint32
		mode uint32
	}{
		".":            {0, unix.S_IFDIR | 0o755},
		"services":     {testUser, unix.S_IFDIR | 0o755},
		"control.sock": {0, unix.S_IFSOCK | 0o666},
	} {
		var st unix.Stat_t
		must(unix.Stat(filepath.Join(run, name), &st))
		if st.Uid != want.uid || st.Mode != want.mode {
			t.Errorf("%s: uid %d, mode %o", name, st.Uid, st.Mode)
		}
	}
}

// A symlink in place of the runtime directory is not followed.
func TestRuntimeDirectoryIsALink(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a PID namespace and other users")
	}
	elsewhere := t.TempDir()
	link := filepath.Join(t.TempDir(), "run")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	b := startBox(t, withEnv("RLMINIT_RUNTIME_DIR="+link)) // takes the next one, and says so
	eventually(t, "it says which cannot be used", func() bool {
		return strings.Contains(b.stderr.String(), "cannot use the runtime directory "+link+": ")
	})
	if entries, _ := os.ReadDir(elsewhere); len(entries) != 0 {
		t.Errorf("made there: %v", entries)
	}
}

// A directory that somebody else can put another in the place of is none to be
// emptied; nor is one that another container, which lives, has.
func TestRuntimeDirectoryOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a PID namespace and other users")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		must(os.Chmod(d, 0o755))
	}
	theirs := filepath.Join(dir, "theirs")
	must(os.MkdirAll(filepath.Join(theirs, "run", "precious"), 0o755))
	must(os.Chown(theirs, testUser, testGroup))
	open := filepath.Join(dir, "open")
	must(os.MkdirAll(filepath.Join(open, "run", "precious"), 0o755))
	must(os.Chmod(open, 0o777))
	held := filepath.Join(dir, "held")
	must(os.MkdirAll(filepath.Join(held, "precious"), 0o755))
	lock, err := os.Create(filepath.Join(held, ".lock"))
	must(err)
	defer lock.Close()
	must(unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	for _, run := range []string{theirs + "/run", open + "/run", held} {
		b := startBox(t, withEnv("RLMINIT_RUNTIME_DIR="+run)) // takes the next one, and says so
		eventually(t, "it says which cannot be used", func() bool {
			return strings.Contains(b.stderr.String(), "cannot use the runtime directory "+run+": ")
		})
		if _, err := os.Stat(filepath.Join(run, "precious")); err != nil {
			t.Errorf("%s was emptied", run)
		}
	}
}

// Main's user owns the pipes that are descriptors 0 to 2, and can open them.
func TestStdioIsMains(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := newBox(t, withMain("/bin/sh", "-c", "echo opened >/dev/stdout"), func(c *exec.Cmd, _ *wire.Policy) { c.Stdout = w })
	w.Close()
	if got := new(link).line(t, r); got != "opened" {
		t.Errorf("%q", got)
	}
	if code := b.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Root in the container can look at PID 1 and write to its stdout, as with any
// other init, also after children have changed their user in memory that is
// shared with it.
func TestPID1CanBeLookedAt(t *testing.T) {
	b := startBox(t)
	for range 10 {
		id, _ := b.link.spawn(t, func(m *wire.Spawn) { m.Path, m.Argv = "/bin/true", []string{"true"} })
		b.link.exited(t, id)
	}
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid), &st); err != nil {
		t.Fatal(err)
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", b.cmd.Process.Pid))
	if len(status) == 0 {
		t.Error("its environment cannot be read")
	}
}

// What reap may import: tests/structure bounds its size. What only computes, and is
// linked by way of package wire in any case, is cheaper than the same by hand.
func TestImports(t *testing.T) {
	allowed := map[string]bool{
		"os": true, "runtime": true, "runtime/debug": true, "sync/atomic": true, "time": true, "unsafe": true, "golang.org/x/sys/unix": true,
		"bytes": true, "cmp": true, "math": true, "math/bits": true, "slices": true, "strings": true,
		"rlminit/wire": true, "rlminit/reap/sys": true, "rlminit/reap/pure": true,
		"rlminit/reap/leaves": true, "rlminit/reap/threads": true, "rlminit/reap/runtimedir": true, "rlminit/reap/proc": true, "rlminit/reap/say": true, "rlminit/reap/footprint": true,
	}
	for _, dir := range []string{".", "leaves", "threads", "runtimedir", "proc", "say", "footprint", "sys", "pure"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, path := range importsOf(t, file) {
				ok := allowed[path]
				if dir == "sys" || dir == "pure" {
					ok = path == "unsafe" || dir == "pure" && path == "rlminit/reap/sys"
				}
				if !ok {
					t.Errorf("%s imports %s", file, path)
				}
			}
		}
	}
}

func importsOf(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, spec := range parsed.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		paths = append(paths, path)
	}
	return paths
}

// The limit is that of whichever cgroup version shows one.
func TestPIDsLimit(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	none, low, high, empty := file("none", "max\n"), file("low", "10\n"), file("high", "4096\n"), file("empty", "")
	for _, c := range []struct {
		files []string
		want  uint64
	}{
		{[]string{low, high}, 10},
		{[]string{dir + "/absent", high}, 4096},
		{[]string{none, dir + "/absent"}, 1 << 62},
		{[]string{empty}, 1 << 62},
		{nil, 1 << 62},
	} {
		if got := proc.PIDsLimit(c.files...); got != c.want {
			t.Errorf("%q: %d, want %d", c.files, got, c.want)
		}
	}
}
