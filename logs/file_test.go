package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func fileSize(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func mode(t *testing.T, name string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestModes(t *testing.T) {
	defer unix.Umask(unix.Umask(0o022))
	c := newCollector(t, Options{})
	s := open(t, c, "web", Config{Dir: "logs/services/web", File: true, Timestamps: true})
	exited(t, s, "exited")
	dir := filepath.Join(c.opts.Home, "logs/services/web")
	if got := mode(t, dir); got != 0o750 {
		t.Errorf("directory: %o", got)
	}
	if got := mode(t, filepath.Join(dir, current)); got != 0o640 {
		t.Errorf("current: %o", got)
	}
}

func TestRotationKeepsTheNewestFiles(t *testing.T) {
	c := newCollector(t, Options{})
	s := open(t, c, "web", Config{File: true, Timestamps: true, MaxSize: 1000, MaxFiles: 3})
	dir := filepath.Join(c.opts.Home, "logs/web")
	for i := range 200 {
		say(t, s.Stdout(), fmt.Sprintf("%d %s\n", i, strings.Repeat("x", 50)))
	}
	exited(t, s, "exited")
	names := files(t, dir)
	if len(names) != 4 {
		t.Fatalf("there are %d files", len(names))
	}
	lines := texts(t, joined(t, dir))
	for i, line := range lines[:len(lines)-1] {
		if want := fmt.Sprintf("out %d ", 200-len(lines)+1+i); !strings.HasPrefix(line, want) {
			t.Fatalf("%q, not %q", line, want)
		}
	}
	for _, name := range names[:3] {
		if size := fileSize(t, name); size > 1000 || size < 800 {
			t.Errorf("%s has %d bytes", name, size)
		}
		if _, err := rotatedAt(filepath.Base(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a service puts beside its log, under names of rotated files, ends neither
// rotation nor the removal of old files.
func TestRotationBesideTraps(t *testing.T) {
	c := newCollector(t, Options{})
	s := open(t, c, "web", Config{File: true, Timestamps: true, MaxSize: 200, MaxFiles: 3})
	dir := filepath.Join(c.opts.Home, s.cfg.Dir)
	for _, name := range []string{"00010101T000000.000000Z.log", "99991231T235959.999999Z.log"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "full"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		say(t, s.Stdout(), fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", 90)))
		exited(t, s, "pause")
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) > 3+1+2 {
		t.Errorf("%q, %v", names, err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, current)); err != nil || !strings.Contains(string(data), "line 39 ") {
		t.Errorf("current holds %q, %v", data, err)
	}
}

func TestRotationByAge(t *testing.T) {
	c := newCollector(t, Options{})
	s := open(t, c, "web", Config{File: true, Timestamps: true, MaxAge: 50 * time.Millisecond})
	say(t, s.Stdout(), "old\n")
	exited(t, s, "")
	dir := filepath.Join(c.opts.Home, "logs/web")
	eventually(t, "the file is rotated", func() bool { return len(files(t, dir)) == 2 })
	say(t, s.Stdout(), "new\n")
	exited(t, s, "")
	if got := texts(t, content(t, c, s)); len(got) != 1 || got[0] != "out new" {
		t.Errorf("current holds %q", got)
	}
}

// A step of the wall clock makes no file old, nor young: each is as old as it is.
func TestAgeOverAStepOfTheClock(t *testing.T) {
	home, err := unix.Open(t.TempDir(), unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(home)
	f := file{home: home, dir: "web", fd: -1, put: unix.Write, cfg: &Config{File: true, Timestamps: true, MaxAge: time.Hour}}
	defer func() { f.close() }()
	wall := time.Now().UnixMicro()
	const day = 24 * 3600 * 1e6
	for i, step := range []int64{0, day, -day, 2 * day} {
		if err := f.ready(wall+step, 2); err != nil {
			t.Fatal(err)
		}
		if _, err := f.write([]byte("x\n")); err != nil {
			t.Fatal(err)
		}
		if f.size != int64(2*(i+1)) {
			t.Fatalf("after a step by %v the file was rotated", time.Duration(step)*time.Microsecond)
		}
	}
	f.born -= 3600 * 1e6
	if err := f.ready(wall-day, 2); err != nil || f.size != 0 {
		t.Errorf("an hour has passed, the clock was set back, and the file has %d bytes: %v", f.size, err)
	}
}

// eventually waits for what no event tells of.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not so after 20 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestPersonMovesOrEmptiesTheFile(t *testing.T) {
	c := newCollector(t, Options{})
	s := open(t, c, "web", Config{File: true, Timestamps: true})
	name := filepath.Join(c.opts.Home, "logs/web", current)
	say(t, s.Stdout(), "one\n")
	exited(t, s, "")
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	say(t, s.Stdout(), "two\n")
	exited(t, s, "")
	if got := texts(t, content(t, c, s)); len(got) != 1 || got[0] != "out two" {
		t.Errorf("emptied, it holds %q", got)
	}
	if err := os.Rename(name, name+".mine"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is a new file", func() bool {
		say(t, s.Stdout(), "three\n")
		exited(t, s, "")
		return exists(name)
	})
	if got := texts(t, content(t, c, s)); got[0] != "out three" {
		t.Errorf("the new file holds %q", got)
	}
}

// TestTraps has what a service with the same uid may lay in the way.
func TestTraps(t *testing.T) {
	for name, lay := range map[string]func(dir, target string) error{
		"symlink":           func(dir, target string) error { return os.Symlink(target, filepath.Join(dir, current)) },
		"FIFO":              func(dir, target string) error { return unix.Mkfifo(filepath.Join(dir, current), 0o600) },
		"directory":         func(dir, target string) error { return os.Mkdir(filepath.Join(dir, current), 0o700) },
		"directory symlink": func(dir, target string) error { os.Remove(dir); return os.Symlink(filepath.Dir(target), dir) },
	} {
		t.Run(name, func(t *testing.T) {
			var failure atomic.Value
			c := newCollector(t, Options{retry: time.Millisecond, Report: func(name string, err error) {
				if err != nil {
					failure.Store(err)
				}
			}})
			target := filepath.Join(t.TempDir(), current)
			if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(c.opts.Home, "logs/web")
			if err := os.MkdirAll(dir, 0o750); err != nil {
				t.Fatal(err)
			}
			if err := lay(dir, target); err != nil {
				t.Fatal(err)
			}
			s := open(t, c, "web", Config{File: true, Timestamps: true})
			say(t, s.Stdout(), "hello\n")
			exited(t, s, "exited")
			if data, err := os.ReadFile(target); err != nil || string(data) != "precious" {
				t.Errorf("the target holds %q, %v", data, err)
			}
			if failure.Load() == nil {
				t.Error("nothing was reported")
			}
			os.RemoveAll(filepath.Join(dir, current))
			os.Remove(dir)
			eventually(t, "the log is written", func() bool { return exists(filepath.Join(dir, current)) })
			exited(t, s, "again")
			if got := strings.Join(texts(t, content(t, c, s)), "|"); got != "out hello|--- exited|--- again" {
				t.Errorf("the log holds %s", got)
			}
		})
	}
}

func TestReconfigure(t *testing.T) {
	c := newCollector(t, Options{})
	s := open(t, c, "web", Config{File: true, Timestamps: true})
	say(t, s.Stdout(), "one\ntw")
	exited(t, s, "")
	if err := s.Reconfigure(Config{Dir: "logs/web", File: true}); err != nil {
		t.Fatal(err)
	}
	c.inbox.ask(func() {}) // it is read with what counted when it was read
	say(t, s.Stdout(), "plain")
	exited(t, s, "")
	if err := s.Reconfigure(Config{Dir: "logs/web", File: true, Timestamps: true}); err != nil {
		t.Fatal(err)
	}
	c.inbox.ask(func() {}) // it is read with what counted when it was read
	say(t, s.Stdout(), "three\n")
	exited(t, s, "exited")
	lines := strings.Split(content(t, c, s), "\n")
	if len(lines) != 6 || lines[2] != "plain" || !strings.HasSuffix(lines[3], " out three") {
		t.Errorf("the log holds %q", lines)
	}
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	c := newCollector(t, Options{})
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := count()
	for i := range 1000 {
		s := open(t, c, "web", Config{File: true, Timestamps: true})
		say(t, s.Stdout(), fmt.Sprintf("%d", i))
		s.Close()
	}
	c.inbox.ask(func() {})
	eventually(t, "all slots are gone", func() bool {
		empty := make(chan bool)
		c.inbox.Put(func() { empty <- c.memory.slots[0] == nil && len(c.tasks) == 0 })
		return <-empty
	})
	if after := count(); after > before+2 {
		t.Errorf("%d descriptors, before it were %d", after, before)
	}
	got := reassemble(t, filepath.Join(c.opts.Home, "logs/web"))
	if n := got.stream[0].Len(); n != 10+90*2+900*3 {
		t.Errorf("%d bytes are in the log", n)
	}
}
