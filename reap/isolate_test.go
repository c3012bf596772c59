package reap

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/isolate"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// isolatedVolume is a volume whose files anybody's user may read and write, so
// that what is held back is held back by the rulesets.
func isolatedVolume(t *testing.T) string {
	t.Helper()
	if isolate.Capable().Landlock == 0 {
		t.Skip("this kernel offers no Landlock")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root for a PID namespace and other users")
	}
	home, err := os.MkdirTemp("/var", "reap-isolate-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	os.Chmod(home, 0o777)
	for _, dir := range []string{"profiles", "profiles/alice", "profiles/bob", ".rlminit"} {
		os.Mkdir(filepath.Join(home, dir), 0o777)
		os.Chmod(filepath.Join(home, dir), 0o777)
		os.WriteFile(filepath.Join(home, dir, "file"), []byte("text"), 0o666)
		os.Chmod(filepath.Join(home, dir, "file"), 0o666)
	}
	return home
}

// tried is what a child that plays "try" says of each path.
func tried(t *testing.T, out *os.File) map[string]string {
	t.Helper()
	content, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(content)) {
		path, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		said[path] = what
	}
	return said
}

// spawnIsolated asks for a child with a ruleset of tier 2's.
func (l *link) spawnIsolated(t *testing.T, ruleset *isolate.Ruleset, change func(*wire.Spawn), part ...string) (uint64, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	t.Cleanup(func() { r.Close() })
	m := &wire.Spawn{
		ID: l.next, Name: "isolated", Path: "/proc/self/exe", Argv: childArgv(part...), Env: []string{"PATH=/usr/bin:/bin"},
		Dir: "/", Targets: []int32{1}, NoNewPrivs: true, Ruleset: true, Rights: ruleset.Directory(),
	}
	l.next++
	if change != nil {
		change(m)
	}
	fds := []int{int(w.Fd())}
	if m.Ruleset {
		fds = append(fds, ruleset.FD())
	}
	l.send(t, m, fds...)
	return m.ID, r
}

// A child with a ruleset has what that allows, less what is tier 1's and tier
// 2's; one that was handed everything too; and a directory that is private to it.
func TestChildIsRestrictedByBothRulesets(t *testing.T) {
	home := isolatedVolume(t)
	b := startBox(t, withPolicy(func(p *wire.Policy) {
		p.Volume, p.Enclosed, p.Opened = home, true, []string{home + "/profiles", home + "/none"}
		p.Unenclosed = "gateway-default"
	}))
	l := b.link
	image := isolate.NewImage(home)
	defer image.Close()
	// Where the copy of this program lies.
	own, _, err := isolate.Build(image, isolate.Rules{
		Level: isolate.Profile, Own: []string{home + "/profiles/alice"}, Exec: []string{b.dir}, Connect: isolate.Ports{Any: true}, Bind: isolate.Ports{Any: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	lax, _, err := isolate.Build(isolate.NewImage(), isolate.Rules{
		Level: isolate.Profile, Own: []string{home, "/tmp"}, Exec: []string{b.dir}, Connect: isolate.Ports{Any: true}, Bind: isolate.Ports{Any: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer lax.Close()
	private := filepath.Join(t.TempDir(), "private")
	os.Chmod(filepath.Dir(private), 0o777)
	for dir := filepath.Dir(filepath.Dir(private)); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o755)
	}
	const held = "permission denied"
	for _, c := range []struct {
		about   string
		ruleset *isolate.Ruleset
		name    string
		want    map[string]string
	}{
		{"its own", own, "isolated", map[string]string{
			home + "/profiles/alice/file": "works", "+" + home + "/profiles/alice/new": "works",
			home + "/profiles/bob/file": held, home + "/.rlminit/file": held, "+" + private + "/x": "works", "+/tmp/reap-isolate": held,
		}},
		{"a lax one of tier 2's", lax, "isolated", map[string]string{
			home + "/profiles/bob/file": "works", home + "/.rlminit/file": held, "+" + home + "/new": held,
		}},
		{"the volume's own service", lax, "gateway-default", map[string]string{
			home + "/.rlminit/file": "works", "+" + home + "/new": "works",
		}},
	} {
		var paths []string
		for path := range c.want {
			paths = append(paths, path)
		}
		id, out := l.spawnIsolated(t, c.ruleset, func(m *wire.Spawn) {
			m.Name = c.name
			if c.ruleset == own {
				m.Private = []string{private}
			}
		}, append([]string{"try"}, paths...)...)
		if got := l.exited(t, id); got.Code != 0 {
			t.Fatalf("%s: exit %+v", c.about, got)
		}
		said := tried(t, out)
		for path, want := range c.want {
			if said[path] != want {
				t.Errorf("%s: %s: %q, want %q", c.about, path, said[path], want)
			}
		}
	}
	if info, err := os.Stat(private); err != nil || info.Mode().Perm() != 0o700 || info.Sys().(*syscall.Stat_t).Uid != testUser {
		t.Errorf("the private directory: %v, %v", info, err)
	}
}

// The ruleset survives descriptors that become numbers near its own, many of
// them, and limits on descriptors.
func TestRulesetAmongManyDescriptors(t *testing.T) {
	home := isolatedVolume(t)
	b := startBox(t, withPolicy(func(p *wire.Policy) { p.Volume, p.Enclosed = home, true }))
	l := b.link
	image := isolate.NewImage(home)
	defer image.Close()
	ruleset, _, err := isolate.Build(image, isolate.Rules{Exec: []string{b.dir}, Connect: isolate.Ports{Any: true}, Bind: isolate.Ports{Any: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer ruleset.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fds, targets := []int{int(w.Fd())}, []int32{1}
	for n := int32(3); n < 60; n++ {
		fds, targets = append(fds, int(r.Fd())), append(targets, n)
	}
	id := l.next
	l.next++
	l.send(t, &wire.Spawn{
		ID: id, Name: "many", Path: "/proc/self/exe", Argv: childArgv("try", home+"/.rlminit/file", "/etc/passwd"), Env: []string{"PATH=/usr/bin:/bin"},
		Dir: "/", Targets: targets, NoNewPrivs: true, Ruleset: true,
	}, append(fds, ruleset.FD())...)
	w.Close()
	if got := l.exited(t, id); got.Code != 0 {
		t.Fatalf("exit %+v", got)
	}
	said := tried(t, r)
	if said["/etc/passwd"] != "works" || said[home+"/.rlminit/file"] != "permission denied" {
		t.Errorf("%q", said)
	}
}

// The filter is in force, and so small a thing as a wrong one fails the spawn.
func TestChildHasItsFilter(t *testing.T) {
	b := startBox(t)
	l := b.link
	strict := isolate.Rules{Level: isolate.Strict}.Filter()
	id, out := l.spawn(t, func(m *wire.Spawn) { m.Filter = strict }, "unshare")
	if got := l.exited(t, id); got.Code != 0 {
		t.Fatalf("exit %+v", got)
	}
	content, _ := io.ReadAll(out)
	if string(content) != "operation not permitted\n" {
		t.Errorf("unshare: %q", content)
	}
	id, _ = l.spawn(t, func(m *wire.Spawn) { m.Filter = make([]byte, 8) }, "exit", "0")
	failed := want(t, l, func(m *wire.SpawnFailed) bool { return m.ID == id })
	if failed.Step != wire.StepSeccomp || failed.Errno != int32(unix.EINVAL) {
		t.Errorf("a filter that is none: %+v", failed)
	}
}

// What isolates is refused where it makes no sense, and a foreign directory is
// never taken for a private one.
func TestIsolationThatCannotBe(t *testing.T) {
	home := isolatedVolume(t)
	b := startBox(t, withPolicy(func(p *wire.Policy) { p.Volume = home }))
	l := b.link
	image := isolate.NewImage(home)
	defer image.Close()
	ruleset, _, err := isolate.Build(image, isolate.Rules{Exec: []string{b.dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer ruleset.Close()
	const foreign = "/usr"
	for name, c := range map[string]struct {
		change func(*wire.Spawn)
		step   wire.Step
		errno  unix.Errno
	}{
		"a ruleset without its descriptor": {func(m *wire.Spawn) { m.Targets = []int32{1, 7} }, wire.StepMessage, unix.EINVAL},
		"a private directory of another's": {func(m *wire.Spawn) { m.Private = []string{foreign} }, wire.StepPrivate, unix.EPERM},
		"a private directory nowhere":      {func(m *wire.Spawn) { m.Private = []string{"/nowhere/private"} }, wire.StepPrivate, unix.ENOENT},
		"a relative private directory":     {func(m *wire.Spawn) { m.Private = []string{"private"} }, wire.StepMessage, unix.EINVAL},
		"too many private directories":     {func(m *wire.Spawn) { m.Private = make([]string, 9) }, wire.StepMessage, unix.EINVAL},
		"half an instruction":              {func(m *wire.Spawn) { m.Filter = make([]byte, 9) }, wire.StepMessage, unix.EINVAL},
	} {
		id, _ := l.spawnIsolated(t, ruleset, c.change, "exit", "0")
		failed := want(t, l, func(m *wire.SpawnFailed) bool { return m.ID == id })
		if failed.Step != c.step || failed.Errno != int32(c.errno) {
			t.Errorf("%s: %+v", name, failed)
		}
	}
	none, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	defer w.Close()
	id := l.next
	l.next++
	l.send(t, &wire.Spawn{
		ID: id, Name: "none", Path: "/proc/self/exe", Argv: childArgv("exit", "0"), Dir: "/", NoNewPrivs: true, Ruleset: true,
	}, int(none.Fd()))
	failed := want(t, l, func(m *wire.SpawnFailed) bool { return m.ID == id })
	if failed.Step != wire.StepLandlock {
		t.Errorf("a pipe for a ruleset: %+v", failed)
	}
}

// cost of a spawn with everything, beside one with nothing: for make bench.
func BenchmarkIsolatedSpawn(b *testing.B) {
	if isolate.Capable().Landlock == 0 {
		b.Skip("this kernel offers no Landlock")
	}
	finished, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(finished)
	spawner, errno := sys.NewSpawner(int32(finished), true)
	if errno != 0 {
		b.Fatal(errno)
	}
	image := isolate.NewImage("/data")
	defer image.Close()
	spawn := func(b *testing.B, rules isolate.Rules) {
		c := &sys.Command{Session: sys.OwnSession, NoNewPrivs: true}
		c.Program([]string{"/bin/true"}, []string{"true"}, nil)
		if rules.Level != "" {
			ruleset, _, err := isolate.Build(image, rules)
			if err != nil {
				b.Fatal(err)
			}
			defer ruleset.Close()
			c.Isolation.Ruleset = int32(ruleset.FD())
			c.Isolation.Filter(rules.Filter())
		}
		spawner.Begin(c)
		unix.Read(finished, make([]byte, 8))
		if c.Errno != 0 {
			b.Fatal(c.Step, c.Errno)
		}
		sys.Collect(c.PID)
		if c.PIDFD >= 0 {
			sys.Close(c.PIDFD)
		}
	}
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			spawn(b, isolate.Rules{})
		}
	})
	all := isolate.Ports{Any: true}
	for _, level := range []isolate.Level{isolate.Profile, isolate.Strict} {
		b.Run(string(level), func(b *testing.B) {
			for b.Loop() {
				spawn(b, isolate.Rules{Level: level, Connect: all, Bind: all, Own: []string{"/var/lib"}})
			}
		})
	}
}

// A directory of tier 2's becomes the service's own by its tag, which no other
// service of the same user has; one of somebody else's never does.
func TestCredentialsAreForOneServiceAlone(t *testing.T) {
	home := isolatedVolume(t)
	os.Mkdir(home+"/services", 0o755)
	if err := unix.Mount("tmpfs", home+"/services", "tmpfs", 0, "mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(home+"/services", unix.MNT_DETACH) })
	const supervisor = 4720
	b := startBox(t, withPolicy(func(p *wire.Policy) {
		p.Volume, p.Enclosed, p.Published = home, true, home+"/services"
		p.Supervisor.UID, p.Supervisor.GID = supervisor, supervisor
	}))
	l := b.link
	image := isolate.NewImage(home)
	defer image.Close()
	credentials, foreign := home+"/services/web", home+"/foreign"
	for dir, owner := range map[string]int{credentials: supervisor, foreign: 0} {
		os.Mkdir(dir, 0o750)
		os.WriteFile(dir+"/token", []byte("text"), 0o444)
		os.Chown(dir, owner, owner)
		os.Chmod(dir, 0o750)
	}
	ruleset, _, err := isolate.Build(image, isolate.Rules{
		Read: []string{credentials}, Exec: []string{b.dir}, Connect: isolate.Ports{Any: true}, Bind: isolate.Ports{Any: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	// held is how many inodes there are: a rule holds one that has no name any more.
	held := func() uint64 {
		var fs unix.Statfs_t
		if err := unix.Statfs(home+"/services", &fs); err != nil {
			t.Fatal(err)
		}
		return fs.Files - fs.Ffree
	}
	before := held() - 2
	var opened []int
	open := func(dir string) int {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		opened = append(opened, fd)
		return fd
	}
	for _, isolated := range []bool{true, false} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		id := l.next
		l.next++
		fds := []int{int(w.Fd()), open(credentials)}
		if isolated {
			fds = append(fds, ruleset.FD())
		}
		l.send(t, &wire.Spawn{
			ID: id, Name: "web", Path: "/proc/self/exe", Argv: childArgv("try", credentials+"/token", home+"/.rlminit/file"),
			Dir: "/", Targets: []int32{1}, NoNewPrivs: true, Tag: lowTag + 7, Credentials: true, Ruleset: isolated,
		}, fds...)
		w.Close()
		if got := l.exited(t, id); got.Code != 0 {
			t.Fatalf("isolated %v: exit %+v", isolated, got)
		}
		if said := tried(t, r); said[credentials+"/token"] != "works" || (said[home+"/.rlminit/file"] != "works") != isolated {
			t.Errorf("isolated %v: %q", isolated, said)
		}
		l.send(t, &wire.Acknowledge{ID: id})
	}
	id, out := l.spawn(t, func(m *wire.Spawn) { m.Tag = lowTag + 8 }, "try", credentials+"/token")
	l.exited(t, id)
	if said := tried(t, out); said[credentials+"/token"] != "permission denied" {
		t.Errorf("another service: %q", said)
	}
	id = l.next
	l.next++
	l.send(t, &wire.Spawn{
		ID: id, Name: "bad", Path: "/proc/self/exe", Argv: childArgv("exit", "0"), Dir: "/", NoNewPrivs: true, Tag: lowTag + 9, Credentials: true,
	}, open(foreign))
	failed := want(t, l, func(m *wire.SpawnFailed) bool { return m.ID == id })
	if failed.Step != wire.StepPrivate || failed.Errno != int32(unix.EPERM) {
		t.Errorf("a directory of root's: %+v", failed)
	}
	// They leave nothing in PID 1's ruleset, which every isolated process copies.
	wire.CloseAll(opened)
	ruleset.Close()
	os.RemoveAll(credentials)
	eventually(t, "the directory that was removed is gone", func() bool { return held() == before })
}
