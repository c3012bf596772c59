package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/tests/unprivileged"
)

var (
	here  = Identity{Container: "here", BootID: "boot-1"}
	there = Identity{Container: "3f2a", BootID: "boot-1"}
	far   = Identity{Container: "far", BootID: "boot-2"}
)

// clock is what a claim takes for the time.
type clock struct{ now time.Time }

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

type place struct {
	t    *testing.T
	path string
	home *durable.Dir
	time *clock
	said []string
}

func newPlace(t *testing.T, path string) *place {
	t.Helper()
	home, err := durable.Open(path)
	must(t, err)
	t.Cleanup(func() { home.Close() })
	return &place{t: t, path: path, home: home, time: &clock{time.Date(2026, 5, 24, 18, 0, 0, 0, time.UTC)}}
}

func (p *place) claim(who Identity) *Claim {
	c := NewClaim(p.home, who, func(line string) { p.said = append(p.said, line) })
	c.now = func() time.Time { return p.time.now }
	return c
}

// apart makes this file system one whose locks other hosts do not see.
func apart(t *testing.T) {
	real := blind
	blind = func(*os.File) bool { return true }
	t.Cleanup(func() { blind = real })
}

// unlock has the kernel know nothing of a lease, as another's would not.
func unlock(t *testing.T, l *Lease) {
	t.Helper()
	for _, f := range []*os.File{l.file, l.old} {
		must(t, unix.Flock(int(f.Fd()), unix.LOCK_UN))
	}
}

// die closes what a lease has open.
func die(t *testing.T, l *Lease) {
	t.Helper()
	must(t, l.file.Close())
	if l.old != nil {
		must(t, l.old.Close())
	}
}

// copied is what somebody else keeps of a lease.
func copied(t *testing.T, l *Lease) (files []*os.File) {
	t.Helper()
	for _, f := range l.Files() {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		must(t, err)
		files = append(files, os.NewFile(uintptr(fd), f.Name()))
	}
	return files
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *place) wantHeld(c *Claim, text string) {
	p.t.Helper()
	l, err := c.Try()
	var held *Held
	if !errors.As(err, &held) || l != nil {
		p.t.Fatalf("got %v, want it held", err)
	}
	want := fmt.Sprintf("volume %s is held by %s; no profile is started here; stop that container, or set RLMINIT_PROFILES=off", p.path, text)
	if err.Error() != want {
		p.t.Errorf("got  %s\nwant %s", err, want)
	}
}

func (p *place) wantFree(c *Claim) *Lease {
	p.t.Helper()
	l, err := c.Try()
	must(p.t, err)
	return l
}

func TestTheSecondContainerWaitsForTheFirst(t *testing.T) {
	p := newPlace(t, t.TempDir())
	first := p.wantFree(p.claim(there))
	p.time.pass(2 * time.Second)
	second := p.claim(here)
	p.wantHeld(second, "container 3f2a")
	p.time.pass(time.Hour) // a holder on this kernel is never stale
	p.wantHeld(second, "container 3f2a")
	must(t, first.Release())
	taken := p.wantFree(second)
	p.wantHeld(p.claim(there), "container here")
	must(t, taken.Release())
	if len(p.said) != 0 {
		t.Errorf("said %q", p.said)
	}
}

func TestWaitTakesOverOnceItIsFree(t *testing.T) {
	p := newPlace(t, t.TempDir())
	first := p.wantFree(p.claim(there))
	got := make(chan *Lease)
	waiter := p.claim(here)
	go func() {
		l, err := waiter.Wait(context.Background(), time.Millisecond, func(error) {})
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	select {
	case <-got:
		t.Fatal("two hold it")
	default:
	}
	must(t, first.Release())
	must(t, (<-got).Release())

	ctx, cancel := context.WithCancel(context.Background())
	held := p.wantFree(p.claim(there))
	cancel()
	if _, err := waiter.Wait(ctx, time.Hour, func(error) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	must(t, held.Release())
}

// What is wrong with a volume may be mended, and is looked at again until then.
func TestWaitOutlastsWhatIsWrong(t *testing.T) {
	p := newPlace(t, t.TempDir())
	must(t, os.Mkdir(filepath.Join(p.path, OldFile), 0o755)) // which cannot be moved aside either
	tries := 0
	p.home.Fail(func(string) error {
		if tries < 3 {
			return unix.EIO
		}
		return nil
	})
	l, err := p.claim(here).Wait(t.Context(), time.Millisecond, func(err error) {
		tries++
		if !errors.Is(err, unix.EIO) {
			t.Errorf("it waits for %v", err)
		}
	})
	must(t, err)
	must(t, l.Release())
	if tries != 3 {
		t.Errorf("%d tries", tries)
	}
}

// The kernel gives the lock back when the holder dies, whatever its record says.
func TestADeadHolderIsReplacedAtOnce(t *testing.T) {
	if os.Getenv("LEASE_CHILD") != "" {
		p := newPlace(t, os.Getenv("LEASE_CHILD"))
		p.time.now = time.Now()
		p.wantFree(p.claim(there))
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
	}
	dir := t.TempDir()
	child := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "LEASE_CHILD="+dir)
	out, err := child.StdoutPipe()
	must(t, err)
	in, err := child.StdinPipe()
	must(t, err)
	defer in.Close()
	must(t, child.Start())
	buf := make([]byte, 4)
	_, err = out.Read(buf)
	must(t, err)
	p := newPlace(t, dir)
	p.time.now = time.Now()
	if _, err := p.claim(here).Try(); err == nil {
		t.Error("two hold it")
	}
	must(t, child.Process.Kill())
	_ = child.Wait() // it was killed
	must(t, p.wantFree(p.claim(here)).Release())
}

// On another kernel flock may know nothing of the holder: its record counts.
func TestAHolderOnAnotherKernelIsHonouredUntilStale(t *testing.T) {
	apart(t)
	p := newPlace(t, t.TempDir())
	l := p.wantFree(p.claim(far))
	unlock(t, l) // what this kernel would see
	mine := p.claim(here)
	p.time.pass(29 * time.Second)
	p.wantHeld(mine, "container far (29s ago)")
	if _, err := l.Beat(); err != nil {
		t.Fatal(err)
	}
	p.time.pass(29 * time.Second)
	p.wantHeld(mine, "container far (29s ago)")
	p.time.pass(time.Second)
	taken := p.wantFree(mine)

	_, err := l.Beat()
	var held *Held
	if !errors.As(err, &held) || held.Container != "here" {
		t.Errorf("the first still thinks that it holds the volume: %v", err)
	}
	must(t, taken.Release())
}

func TestAClockAheadDoesNotHoldForEver(t *testing.T) {
	apart(t)
	p := newPlace(t, t.TempDir())
	p.time.pass(24 * time.Hour)
	l := p.wantFree(p.claim(far))
	unlock(t, l)
	p.time.pass(-24 * time.Hour)
	mine := p.claim(here)
	p.wantHeld(mine, "container far (0s ago)")
	p.time.pass(Stale)
	must(t, p.wantFree(mine).Release())
}

func TestARestartedContainerFindsItsOwnRecordNoHindrance(t *testing.T) {
	apart(t)
	p := newPlace(t, t.TempDir())
	const id = "0123456789ab"
	l := p.wantFree(p.claim(Identity{id, "before the power cut"}))
	die(t, l)
	must(t, p.wantFree(p.claim(Identity{id, "after it"})).Release())

	l = p.wantFree(p.claim(Identity{"box", "one machine"}))
	die(t, l)
	p.wantHeld(p.claim(Identity{"box", "another machine"}), "container box (0s ago)")
}

func TestTheLockOutlivesASupervisor(t *testing.T) {
	p := newPlace(t, t.TempDir())
	l := p.wantFree(p.claim(here))
	kept := copied(t, l)
	die(t, l) // the supervisor
	p.wantHeld(p.claim(there), "container here")
	if old, err := p.claim(there).takeOld(); err == nil {
		t.Errorf("the old lock is free without the supervisor: %v", old)
	}
	next, err := p.claim(here).Adopt(kept)
	must(t, err)
	p.wantHeld(p.claim(there), "container here")
	must(t, next.Release())
	must(t, p.wantFree(p.claim(there)).Release())
}

// A container that knows of the old lock alone neither starts beside one of ours
// nor is joined by one.
func TestAnOlderContainerIsKeptOut(t *testing.T) {
	p := newPlace(t, t.TempDir())
	older, err := os.OpenFile(filepath.Join(p.path, OldFile), os.O_RDWR|os.O_CREATE, 0o640)
	must(t, err)
	defer older.Close()
	l := p.wantFree(p.claim(here))
	if err := unix.Flock(int(older.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Errorf("the old lock: %v", err)
	}
	must(t, l.Release())
	must(t, unix.Flock(int(older.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	p.wantHeld(p.claim(there), "another container")
}

// What services could once write, and what the kernel can tell better, holds
// nobody up.
func TestAFalseRecordDelaysNobody(t *testing.T) {
	for _, name := range []string{OldFile, File} {
		p := newPlace(t, t.TempDir())
		must(t, os.Mkdir(filepath.Join(p.path, journal.Home), 0o700))
		text, err := record{"far", "boot-2", p.time.now}.encode()
		must(t, err)
		must(t, os.WriteFile(filepath.Join(p.path, name), text, 0o600))
		must(t, p.wantFree(p.claim(here)).Release())
	}
}

func TestARemovedLockFileIsMadeAnew(t *testing.T) {
	p := newPlace(t, t.TempDir())
	l := p.wantFree(p.claim(here))
	must(t, os.Remove(filepath.Join(p.path, File)))
	replaced, err := l.Beat()
	if !replaced || err != nil {
		t.Errorf("%v %v", replaced, err)
	}
	p.wantHeld(p.claim(there), "container here")
	must(t, os.Remove(filepath.Join(p.path, File)))
	p.wantHeld(p.claim(there), "another container") // the old one is held all the while
	if replaced, err := l.Beat(); !replaced || err != nil {
		t.Errorf("%v %v", replaced, err)
	}
}

// Where the kernel keeps the lock from everybody, its holder writes nothing, and finds
// that somebody has removed the file when it is told to look.
func TestAKeptLockCostsNothing(t *testing.T) {
	p := newPlace(t, t.TempDir())
	l := p.wantFree(p.claim(here))
	p.time.pass(time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	looks, moved, ended := make(chan struct{}), make(chan int), make(chan error)
	go func() { ended <- l.Keep(ctx, looks, func(files []*os.File) { moved <- len(files) }) }()
	for range 2 {
		before := p.time.now
		must(t, os.Remove(filepath.Join(p.path, File)))
		looks <- struct{}{}
		if n := <-moved; n != 2 {
			t.Errorf("it moved to %d files", n)
		}
		text, err := os.ReadFile(filepath.Join(p.path, File))
		must(t, err)
		if stamp, _ := before.UTC().MarshalJSON(); !strings.Contains(string(text), string(stamp)) {
			t.Errorf("the new file says %s, want %s in it", text, stamp)
		}
	}
	stop()
	must(t, <-ended)
	must(t, l.Release())
}

func TestHostileLockFiles(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for name, plant := range map[string]func(path string) error{
		"link":    func(path string) error { return os.Symlink(outside, path) },
		"fifo":    func(path string) error { return unix.Mkfifo(path, 0o600) },
		"dir":     func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) },
		"garbage": func(path string) error { return os.WriteFile(path, []byte("{\x00\xff"), 0o600) },
		"huge": func(path string) error {
			if err := os.WriteFile(path, []byte(`{"container":"`+strings.Repeat("x", 5000)), 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 1<<40)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, t.TempDir())
			must(t, os.Mkdir(filepath.Join(p.path, journal.Home), 0o700))
			must(t, plant(filepath.Join(p.path, File)))
			l := p.wantFree(p.claim(here))
			p.wantHeld(p.claim(there), "container here")
			must(t, l.Release())
			if _, err := os.Lstat(outside); !os.IsNotExist(err) {
				t.Errorf("wrote through a link: %v", err)
			}
		})
	}
	apart(t)
	p := newPlace(t, t.TempDir())
	must(t, os.Mkdir(filepath.Join(p.path, journal.Home), 0o700))
	must(t, os.WriteFile(filepath.Join(p.path, File),
		[]byte(`{"container":"\u001b[31m\n`+strings.Repeat("x", 80)+`","boot_id":"b","heartbeat":"2026-05-24T18:00:00Z"}`), 0o600))
	p.wantHeld(p.claim(here), "container ??31m?"+strings.Repeat("x", 58)+" (0s ago)")
}

func TestAVolumeThatCannotBeWritten(t *testing.T) {
	if unprivileged.Rerun(t, func(dir string) {
		for _, name := range []string{"bare", "left", "held"} {
			must(t, os.MkdirAll(filepath.Join(dir, name, journal.Home), 0o755))
		}
		must(t, os.WriteFile(filepath.Join(dir, "left", File), nil, 0o644))
		must(t, os.WriteFile(filepath.Join(dir, "held", File), nil, 0o644))
	}) {
		return
	}
	for _, name := range []string{"bare", "left"} {
		p := newPlace(t, filepath.Join(unprivileged.Dir(), name))
		c := p.claim(here)
		l := p.wantFree(c)
		if _, err := l.Beat(); err != nil {
			t.Error(err)
		}
		if name == "left" { // and it outlives a supervisor like any other
			kept := copied(t, l)
			die(t, l)
			var err error
			l, err = c.Adopt(kept)
			must(t, err)
		}
		must(t, l.Release())
		must(t, p.wantFree(c).Release())
		if len(p.said) != 1 || !strings.Contains(p.said[0], "owned by uid 0, services run as") || !strings.HasSuffix(p.said[0], "not locked against other containers") {
			t.Errorf("said %q", p.said)
		}
	}
	p := newPlace(t, filepath.Join(unprivileged.Dir(), "held"))
	f, err := os.Open(filepath.Join(p.path, File))
	must(t, err)
	defer f.Close()
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	p.wantHeld(p.claim(here), "another container")
}

func TestWithoutFlockTheHeartbeatCounts(t *testing.T) {
	real := flock
	defer func() { flock = real }()
	flock = func(*os.File, int) error { return unix.ENOLCK }
	p := newPlace(t, t.TempDir())
	first := p.wantFree(p.claim(there))
	second := p.claim(here)
	p.time.pass(29 * time.Second)
	p.wantHeld(second, "container 3f2a (29s ago)")
	if _, err := first.Beat(); err != nil {
		t.Error(err)
	}
	p.time.pass(29 * time.Second)
	p.wantHeld(second, "container 3f2a (29s ago)")
	p.time.pass(time.Second)
	taken := p.wantFree(second)
	var held *Held
	if _, err := first.Beat(); !errors.As(err, &held) {
		t.Errorf("two hold it: %v", err)
	}
	must(t, taken.Release())
	must(t, p.wantFree(p.claim(there)).Release())
	if len(p.said) != 3 { // three claims, once each
		t.Errorf("said %q", p.said)
	}
}

func TestSelf(t *testing.T) {
	who := Self()
	host, _ := os.Hostname()
	if who.Container != host || len(who.BootID) != 36 {
		t.Errorf("%+v", who)
	}
}
