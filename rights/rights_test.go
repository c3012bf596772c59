package rights

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/wire"
)

// server is a process that serves, in this one: what rights it has is another
// matter, and shown by tests of the whole.
type server struct {
	t       *testing.T
	silent  int // how many of the first take calls and answer none
	mu      sync.Mutex
	started int
	ended   int
	peers   []int
	said    []string
}

func (s *server) start() (int, func(), error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	if s.started <= s.silent {
		s.peers = append(s.peers, pair[1])
	} else {
		go func() {
			if err := Serve(pair[1], atOnce, nil); err != nil {
				s.t.Error(err)
			}
		}()
	}
	return pair[0], func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended++
		wire.CloseAll(s.peers)
		s.peers = nil
	}, nil
}

func (s *server) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, line)
}

const atOnce = 16

func newUser(t *testing.T) (*User, *server) {
	s := &server{t: t}
	return New(s.start, 1, atOnce, s.say), s
}

// Whoever does it, a directory answers the same, errors and their texts too.
func TestADirectoryByAHelper(t *testing.T) {
	user, _ := newUser(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "from"), []byte("template"), 0o644); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name string
		do   func(d *durable.Dir) (any, error)
	}{
		{"mkdir", func(d *durable.Dir) (any, error) { return nil, d.Mkdir("a", 0o751) }},
		{"mkdir again", func(d *durable.Dir) (any, error) { return nil, d.Mkdir("a", 0o751) }},
		{"mkdir all", func(d *durable.Dir) (any, error) { return nil, d.MkdirAll("b/c/d", 0o700) }},
		{"write", func(d *durable.Dir) (any, error) {
			return nil, d.WriteFile("a/file", []byte("x"), durable.Write{Mode: 0o640, Names: true})
		}},
		{"write nothing", func(d *durable.Dir) (any, error) { return nil, d.WriteFile("a/empty", nil, durable.Write{Mode: 0o600}) }},
		{"write too much", func(d *durable.Dir) (any, error) {
			return nil, d.WriteFile("a/big", make([]byte, 100), durable.Write{Mode: 0o600, Max: 10})
		}},
		{"append", func(d *durable.Dir) (any, error) { return nil, d.Append("a/file", []byte("y"), 0o640, 100) }},
		{"read", func(d *durable.Dir) (any, error) { return d.ReadFile("a/file", 100) }},
		{"read nothing", func(d *durable.Dir) (any, error) { return d.ReadFile("a/empty", 100) }},
		{"read too much", func(d *durable.Dir) (any, error) { return d.ReadFile("a/file", 1) }},
		{"read a directory", func(d *durable.Dir) (any, error) { return d.ReadFile("a", 1) }},
		{"read what is not there", func(d *durable.Dir) (any, error) { return d.ReadFile("none", 1) }},
		{"date", func(d *durable.Dir) (any, error) { return nil, d.Date("a/file", time.Unix(1e9, 5)) }},
		{"lstat", func(d *durable.Dir) (any, error) {
			got, err := d.Lstat("a/file")
			if err != nil {
				return nil, err
			}
			// Each of the two files was changed at a moment of its own.
			var st unix.Stat_t
			if err := unix.Lstat(d.Path("a/file"), &st); err != nil || !got.Changed.Equal(time.Unix(st.Ctim.Unix())) || got.Ino != st.Ino {
				t.Errorf("lstat of %s: changed at %v, want %v (%v)", d.Path("a/file"), got.Changed, time.Unix(st.Ctim.Unix()), err)
			}
			got.Changed, got.Ino = time.Time{}, 0
			return got, nil
		}},
		{"symlink", func(d *durable.Dir) (any, error) { return nil, d.Symlink("a/file", "says") }},
		{"readlink", func(d *durable.Dir) (any, error) { return d.Readlink("says") }},
		{"writable", func(d *durable.Dir) (any, error) { return nil, d.Writable("a") }},
		{"lstat what is not there", func(d *durable.Dir) (any, error) { return d.Lstat("none") }},
		{"a link", func(d *durable.Dir) (any, error) {
			return nil, os.Symlink("/etc", d.Path("link"))
		}},
		{"behind a link", func(d *durable.Dir) (any, error) { return d.ReadFile("link/passwd", 1<<20) }},
		{"outside", func(d *durable.Dir) (any, error) { return d.ReadFile("../x", 1) }},
		{"chmod", func(d *durable.Dir) (any, error) { return nil, d.Chmod("a/file", 0o604) }},
		{"rename", func(d *durable.Dir) (any, error) { return nil, d.Rename("a/file", "b/file") }},
		{"rename onto", func(d *durable.Dir) (any, error) { return nil, d.RenameNew("b/file", "a/empty") }},
		{"sync", func(d *durable.Dir) (any, error) { return nil, d.SyncDir("b") }},
		{"list", func(d *durable.Dir) (any, error) {
			entries, err := d.ReadDir("b", 10)
			slices.SortFunc(entries, func(a, b durable.Entry) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
			return entries, err
		}},
		{"list too many", func(d *durable.Dir) (any, error) {
			entries, err := d.ReadDir("b", 1)
			return len(entries), err
		}},
		{"temporary", func(d *durable.Dir) (any, error) {
			return nil, d.WriteFile(".rlminit-0123456789abcdef.tmp", nil, durable.Write{Mode: 0o600})
		}},
		{"clean", func(d *durable.Dir) (any, error) { return nil, d.CleanTemps(".") }},
		{"copy", func(d *durable.Dir) (any, error) {
			from, err := d.OpenLike(outside)
			if err != nil {
				return nil, err
			}
			defer from.Close()
			return nil, d.CopyTree(from, "b/c", durable.Copy{DirMode: 0o750})
		}},
		{"a directory below", func(d *durable.Dir) (any, error) {
			below, err := d.OpenDir("b/c")
			if err != nil {
				return nil, err
			}
			defer below.Close()
			return below.ReadFile("from", 100)
		}},
		{"open", func(d *durable.Dir) (any, error) {
			f, err := d.OpenRegular("b/file", unix.O_RDWR|unix.O_APPEND, 0)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			if _, err := f.WriteString("z"); err != nil {
				return nil, err
			}
			return d.Same("b/file", f) && !d.Same("a/empty", f), nil
		}},
		{"glob", func(d *durable.Dir) (any, error) { return d.Glob("b/f*") }},
		{"remove", func(d *durable.Dir) (any, error) { return nil, d.RemoveAll("b") }},
		{"remove again", func(d *durable.Dir) (any, error) { return nil, d.RemoveAll("b") }},
	}
	directory := func(by *User) (*durable.Dir, string) {
		path := filepath.Join(t.TempDir(), "volume")
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		d, err := by.Dir(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d, path
	}
	ours, here := directory(nil)
	theirs, there := directory(user)
	for _, step := range steps {
		want, wantErr := step.do(ours)
		got, err := step.do(theirs)
		if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
			t.Errorf("%s: %#v, want %#v", step.name, got, want)
		}
		text := func(err error, home string) string {
			if err == nil {
				return ""
			}
			return string(bytes.ReplaceAll([]byte(err.Error()), []byte(home), []byte("HOME")))
		}
		if text(err, there) != text(wantErr, here) {
			t.Errorf("%s: %v, want %v", step.name, err, wantErr)
		}
		for _, kind := range []error{fs.ErrNotExist, fs.ErrExist, durable.ErrTooBig, durable.ErrNotRegular, unix.ELOOP} {
			if errors.Is(err, kind) != errors.Is(wantErr, kind) {
				t.Errorf("%s: %v is %v: %t", step.name, err, kind, errors.Is(err, kind))
			}
		}
	}
}

// What is larger than a packet goes along in memory, both ways.
func TestLargeContent(t *testing.T) {
	user, _ := newUser(t)
	d, err := user.Dir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, size := range []int{inline - 300, inline, inline + 1, 5 << 20} {
		content := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
		if err := d.WriteFile("file", content, durable.Write{Mode: 0o600, Max: 10 << 20}); err != nil {
			t.Fatal(err)
		}
		if got, err := d.ReadFile("file", 10<<20); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes: %d, %v", size, len(got), err)
		}
	}
}

// Many at once get each its own answer, and every descriptor is given back.
func TestManyAtOnce(t *testing.T) {
	user, s := newUser(t)
	dir := t.TempDir()
	d, err := user.Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	before := descriptors(t)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			name := fmt.Sprint("file", i)
			if err := d.WriteFile(name, []byte(name), durable.Write{Mode: 0o600, Loose: true}); err != nil {
				t.Error(err)
			}
			if got, err := d.ReadFile(name, 100); err != nil || string(got) != name {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			f, err := user.Open(filepath.Join(dir, name))
			if err != nil {
				t.Error(err)
				return
			}
			f.Close()
		})
	}
	all.Wait()
	for deadline := time.Now().Add(5 * time.Second); descriptors(t) > before; {
		if time.Now().After(deadline) {
			t.Errorf("%d descriptors, and %d before", descriptors(t), before)
			break
		}
	}
	if s.started != 1 {
		t.Errorf("%d processes", s.started)
	}
}

func descriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestPaths(t *testing.T) {
	served, _ := newUser(t)
	for name, user := range map[string]*User{"ourselves": nil, "another": served} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
			if err := errors.Join(os.WriteFile(file, []byte("x"), 0o640), os.Symlink(dir, link)); err != nil {
				t.Fatal(err)
			}
			if mode, _, err := user.Look(link+"/file", 0); err != nil || mode != unix.S_IFREG|0o640 {
				t.Errorf("mode %o, %v", mode, err)
			}
			if _, _, err := user.Look(dir+"/none", 0); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("mode of nothing: %v", err)
			}
			if _, err, _ := user.Look(file, unix.X_OK); !errors.Is(err, unix.EACCES) {
				t.Errorf("access: %v", err)
			}
			program := filepath.Join(dir, "program")
			if err := os.WriteFile(program, nil, 0o755); err != nil {
				t.Fatal(err)
			}
			looks, err := user.LookAlong([]string{dir + "/none", dir, file, program, link}, unix.X_OK)
			if err != nil || len(looks) != 4 || !errors.Is(looks[0].Err, fs.ErrNotExist) || looks[1].Mode&unix.S_IFMT != unix.S_IFDIR ||
				!errors.Is(looks[2].Denied, unix.EACCES) || looks[3] != (Look{Mode: unix.S_IFREG | 0o755}) {
				t.Errorf("along a path: %+v, %v", looks, err)
			}
			if looks, err := user.LookAlong(nil, unix.X_OK); err != nil || len(looks) != 0 {
				t.Errorf("along no path: %+v, %v", looks, err)
			}
			if fd, err := user.Handle(link+"/file", false); err != unix.ELOOP {
				t.Errorf("without links: %d, %v", fd, err)
			}
			fd, err := user.Handle(link+"/file", true)
			if err != nil {
				t.Fatal(err)
			}
			unix.Close(fd)
			socket := filepath.Join(dir, "socket")
			for range 2 { // a stale one is replaced
				// A process that answered closes its own copy after that.
				for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
					if fd, err = user.Listen("unix", socket); !errors.Is(err, unix.EADDRINUSE) || time.Now().After(end) {
						break
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				if _, err := user.Listen("unix", socket); !errors.Is(err, unix.EADDRINUSE) {
					t.Errorf("a socket in use: %v", err)
				}
				unix.Close(fd)
			}
			watches, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(watches)
			number, err := user.Watch(watches, dir, unix.IN_CREATE)
			if err != nil || number < 1 {
				t.Fatalf("watch %d, %v", number, err)
			}
			if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if n, err := unix.Read(watches, make([]byte, 4096)); n <= 0 || err != nil {
				t.Errorf("no event: %v", err)
			}
		})
	}
}

// A process that takes calls and does not answer is ended and replaced. What only looks
// is asked of the next one, and anything else, which may have been done, is an error.
func TestASilentProcessIsReplaced(t *testing.T) {
	real := askEvery
	askEvery = 100 * time.Millisecond
	defer func() { askEvery = real }()
	for _, c := range []struct {
		name string
		do   func(*User) error
		want error
	}{
		{"a look", func(u *User) error { _, _, err := u.Look("/", 0); return err }, nil},
		{"a directory", func(u *User) error {
			d, err := u.Dir("/")
			if err == nil {
				d.Close()
			}
			return err
		}, nil},
		{"a socket", func(u *User) error { _, err := u.Listen("unix", filepath.Join(t.TempDir(), "s")); return err }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			user, s := newUser(t)
			s.silent = 1
			if err := c.do(user); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("the silent one: %v", err)
			}
			if _, _, err := user.Look("/", 0); err != nil {
				t.Errorf("the next one: %v", err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.started != 2 || s.ended == 0 || len(s.said) != 1 {
				t.Errorf("%d started, %d ended, said %q", s.started, s.ended, s.said)
			}
		})
	}
}

// Where each process ends, that is an error in the end.
func TestProcessesThatAllEnd(t *testing.T) {
	real := askEvery
	askEvery = 50 * time.Millisecond
	defer func() { askEvery = real }()
	user, s := newUser(t)
	s.silent = mostEnds
	if _, _, err := user.Look("/", 0); !errors.Is(err, ErrEnded) {
		t.Errorf("all of them silent: %v", err)
	}
	if _, _, err := user.Look("/", 0); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// One that ends is replaced too, without a word, and what only looks is asked again.
func TestAProcessThatEndsIsReplaced(t *testing.T) {
	user, s := newUser(t)
	s.silent = 1
	failed := make(chan error)
	go func() {
		_, _, err := user.Look("/", 0)
		failed <- err
	}()
	for closed := false; !closed; {
		s.mu.Lock()
		if closed = len(s.peers) > 0; closed {
			wire.CloseAll(s.peers)
			s.peers = nil
		}
		s.mu.Unlock()
	}
	if err := <-failed; err != nil {
		t.Errorf("%v", err)
	}
	if _, _, err := user.Look("/", 0); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// What waits for a file system that does not answer leaves places for others: a user
// has only so many calls under way.
func TestAUserThatWaitsCostsNobodyElse(t *testing.T) {
	const hung, services, profile = 2, 1, 3
	var under atomic.Int64
	start := func() (int, func(), error) {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return -1, nil, err
		}
		l, err := newLink(pair[1])
		go func() {
			var none *Users
			for {
				var c call
				if _, err := l.receive(&c); err != nil {
					return
				}
				if c.UID == hung {
					under.Add(1)
					continue
				}
				a, _ := none.carry(c, nil)
				_ = l.send(&a)
			}
		}()
		return pair[0], l.shut, err
	}
	user := New(start, services, atOnce, func(line string) { t.Error(line) })
	for range 200 {
		go func() { _, _, _ = user.As(hung).Look("/", 0) }() // for ever
	}
	for under.Load() < atOnce/4 {
		time.Sleep(time.Millisecond)
	}
	for range 20 {
		for _, uid := range []uint32{services, profile} {
			if _, _, err := user.As(uid).Look("/", 0); err != nil {
				t.Error(err)
			}
		}
	}
	if n := under.Load(); n != atOnce/4 {
		t.Errorf("%d of one user's are under way, want %d", n, atOnce/4)
	}
}

// Look is LookAlong of one path.
func (u *User) Look(path string, use uint32) (mode uint32, denied, err error) {
	looks, err := u.LookAlong([]string{path}, use)
	switch {
	case err != nil:
		return 0, nil, err
	case len(looks) != 1:
		return 0, nil, unix.EPROTO
	}
	return looks[0].Mode, looks[0].Denied, looks[0].Err
}

// A look is given up only where it is in the kernel itself: not while it waits for others,
// nor where the process is replaced under it.
func TestLookUntilSilent(t *testing.T) {
	before := silentEvery
	silentEvery = 10 * time.Millisecond
	t.Cleanup(func() { silentEvery = before })
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := newLink(pair[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.conn.Close() })
	u := New(func() (int, func(), error) { return pair[0], func() {}, nil }, 1000, atOnce, func(line string) { t.Log(line) })
	var begun atomic.Bool
	pings := make(chan bool, 100)
	go func() {
		for {
			var c call
			if _, err := theirs.receive(&c); err != nil {
				return
			}
			if c.Kind != kindPing {
				continue // and never answers
			}
			a := answer{ID: c.ID}
			if begun.Load() && c.Offset != 0 {
				a.Value = 1
			}
			_ = theirs.send(&a)
			select {
			case pings <- begun.Load():
			default:
			}
		}
	}()
	ended := make(chan error, 1)
	go func() {
		_, err := u.LookUntilSilent([]string{"/"}, 0)
		ended <- err
	}()
	for range 4 * mostSilent { // it waits for others
		select {
		case <-pings:
		case err := <-ended:
			t.Fatal("given up before it had begun: ", err)
		}
	}
	begun.Store(true)
	if err := <-ended; !errors.Is(err, ErrSilent) {
		t.Error(err)
	}
}

// Calls that follow one another are no call that is never answered, however often one of
// them is found in the kernel.
func TestCallsInARowAreNotSilent(t *testing.T) {
	before := silentEvery
	silentEvery = time.Millisecond
	t.Cleanup(func() { silentEvery = before })
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := newLink(pair[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.conn.Close() })
	u := New(func() (int, func(), error) { return pair[0], func() {}, nil }, 1000, atOnce, func(line string) { t.Log(line) })
	go func() { // each call is answered when it was found in the kernel mostSilent-1 times
		var at uint64
		found := 0
		for {
			var c call
			if _, err := theirs.receive(&c); err != nil {
				return
			}
			if c.Kind != kindPing {
				at, found = c.ID, 0
				continue
			}
			a := answer{ID: c.ID}
			if uint64(c.Offset) == at {
				a.Value = 1
				found++
			}
			_ = theirs.send(&a)
			if found == mostSilent-1 {
				_ = theirs.send(&answer{ID: at})
			}
		}
	}()
	over, at := make(chan struct{}), new(Progress)
	go func() {
		defer close(over)
		for range 20 {
			_, _ = u.Followed(at).LookAlong([]string{"/"}, 0)
		}
	}()
	if u.Silent(at, over) {
		t.Error("calls that were all answered count as one that is not")
	}
}

// A call that waits for a place which a hanging call has is silent, as long as none of its
// user's calls comes to its end.
func TestWaitingForAPlaceIsSilent(t *testing.T) {
	before := silentEvery
	silentEvery = 10 * time.Millisecond
	t.Cleanup(func() { silentEvery = before })
	p := &process{services: 1000, atOnce: 4, places: map[uint32]*room{}}
	u := &User{process: p, uid: 1001}
	leave := p.enter(1001, nil)
	at, over := new(Progress), make(chan struct{})
	go func() {
		p.enter(1001, at)()
		close(over)
	}()
	if !u.Silent(at, over) {
		t.Error("it waits behind a call that hangs, and is not silent")
	}
	leave()
	<-over
	turns := make(chan bool)
	at, over = new(Progress), make(chan struct{})
	go func() { turns <- u.Silent(at, over) }()
	held := p.enter(1001, nil)
	go func() {
		p.enter(1001, at)()
		close(over)
	}()
	for range 20 { // others come and go before it
		p.places[1001].left.Add(1)
		time.Sleep(silentEvery)
	}
	held()
	if <-turns {
		t.Error("others came to their ends, and it counts as silent")
	}
}
