package spawn

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/profiles"
	"rlminit/supervise/link"
	"rlminit/supervise/settings"
	"rlminit/wire"
)

// pid1 starts the processes that change owners: they answer at once, and their end is told
// of a while later, or never.
type pid1 struct {
	t     *testing.T
	files *Files
	says  func(*wire.Spawn) string
	hangs func(*wire.Spawn) bool // it neither answers nor ends
	wrong string                 // what cannot be, and was so

	mu     sync.Mutex
	alive  map[string]int
	asked  []string
	ending sync.WaitGroup
}

func newPID1(t *testing.T, says func(*wire.Spawn) string) *pid1 {
	p := &pid1{t: t, says: says, hangs: func(*wire.Spawn) bool { return false }, alive: map[string]int{}}
	tier1 := NewTier1()
	tier1.Link = link.To(p.hear)
	p.files = newFiles(tier1)
	t.Cleanup(func() {
		tier1.Link.Flush()
		p.ending.Wait()
	})
	return p
}

func (p *pid1) hear(o link.Outgoing) {
	m, is := o.Message.(*wire.Spawn)
	if !is {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, strings.Join(append([]string{m.Name}, m.Argv...), " "))
	p.alive[m.Name]++
	if p.hangs(m) {
		_, _ = unix.Dup(o.FDs[len(o.FDs)-1]) // which nobody closes
		return
	}
	if one := m.Name == wire.OwnProgram || m.Name == wire.DirectoriesProgram; one && p.alive[m.Name] > 1 {
		p.wrong = "two of " + m.Name
	}
	if _, err := unix.Write(o.FDs[len(o.FDs)-1], []byte(p.says(m))); err != nil {
		p.t.Error(err)
	}
	p.ending.Go(func() {
		time.Sleep(20 * time.Millisecond) // the next one is not to begin meanwhile
		p.mu.Lock()
		p.alive[m.Name]--
		p.mu.Unlock()
		p.files.Hear(&wire.Exited{ID: m.ID})
	})
}

func (p *pid1) started() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// absent is a volume of which nothing is known.
type absent struct{ notOurs error }

func (absent) Store() *profiles.Store { return nil }
func (absent) Absent() string         { return "" }
func (absent) Secrets(string) string  { return "" }
func (a absent) NotOurs() error       { return a.notOurs }

func (p *pid1) preparer(home string) *Preparer {
	policy := &wire.Policy{User: wire.Identity{UID: 1000, GID: 1000}}
	return &Preparer{Policy: policy, Settings: settings.Fixed(&config.Config{Home: home}, policy), Volume: absent{}, Files: p.files}
}

// Of the programs that PID 1 starts once at a time none is asked for before the end of the
// one before was told; and directories are made while others change hands, however long.
func TestOneProcessAtATime(t *testing.T) {
	p := newPID1(t, func(*wire.Spawn) string { return wire.Done + "\n1" })
	owners := profileOwners{p.preparer(t.TempDir())}
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		all.Go(func() {
			if did, err := owners.Own(name); err != nil || did.Changed != 1 {
				t.Errorf("%s: %+v, %v", name, did, err)
			}
		})
	}
	all.Wait()
	p.mu.Lock()
	p.hangs = func(m *wire.Spawn) bool { return m.Name == wire.GiveProgram }
	p.mu.Unlock()
	for range cap(p.files.giving) {
		go p.files.owner(wire.GiveProgram, 5000, 0)
	}
	for len(p.files.giving) < cap(p.files.giving) {
		time.Sleep(time.Millisecond)
	}
	for range 3 {
		if _, err := p.files.directories(); err != nil {
			t.Error(err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wrong != "" {
		t.Error(p.wrong)
	}
}

// What is said by the process that makes directories: only one that says so has done it.
func TestWhatWasMade(t *testing.T) {
	for said, want := range map[string]struct {
		made []string
		err  string
	}{
		"done\n":                       {},
		"logs\ndone\n":                 {made: []string{"logs"}},
		"logs\ncannot: no such file\n": {made: []string{"logs"}, err: "no such file"},
		"logs\n":                       {made: []string{"logs"}, err: errNotGiven.Error()},
	} {
		p := newPID1(t, func(*wire.Spawn) string { return said })
		made, err := p.files.directories()
		if !slices.Equal(made, want.made) || (err == nil) != (want.err == "") || err != nil && err.Error() != want.err {
			t.Errorf("%q: %q, %v", said, made, err)
		}
	}
}

// Whoever finds directories missing that cannot be made, one process tries it and one timer
// has it tried again.
func TestDirectoriesThatCannotBeMade(t *testing.T) {
	p := newPID1(t, func(*wire.Spawn) string { return "cannot: no\n" })
	d := NewDirectories(p.preparer(t.TempDir()))
	d.again = time.Hour
	for range 50 {
		d.Look()
		d.mu.Lock() // until it was tried
		tried := d.err
		d.mu.Unlock()
		if tried == nil {
			t.Fatal("it was not tried")
		}
	}
	for range 50 {
		if err := d.Make(); err == nil || err.Error() != "no" {
			t.Fatal(err)
		}
	}
	if asked := p.started(); len(asked) != 1 || !d.waiting.Load() {
		t.Errorf("%q were started; it is tried again: %v", asked, d.waiting.Load())
	}
}

// Nothing is made where the volume was, and is not any more, or is another container's.
func TestNoDirectoriesOnAnotherVolume(t *testing.T) {
	p := newPID1(t, func(*wire.Spawn) string { return "done\n" })
	home := filepath.Join(t.TempDir(), "home")
	for _, dir := range []string{home, home + ".new"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	prep := p.preparer(home)
	d := NewDirectories(prep)
	if err := d.Make(); err != nil || len(p.started()) != 1 {
		t.Fatal(err, p.started())
	}
	prep.Volume = absent{errors.New("it is another's")}
	if err := d.Make(); err == nil || err.Error() != "it is another's" {
		t.Error(err)
	}
	prep.Volume, d.after = absent{}, time.Time{}
	if err := errors.Join(os.Rename(home, home+".old"), os.Rename(home+".new", home)); err != nil {
		t.Fatal(err)
	}
	if err := d.Make(); err == nil || !strings.Contains(err.Error(), home+" is another directory than before") {
		t.Error(err)
	}
	if asked := p.started(); len(asked) != 1 {
		t.Errorf("%q were started", asked)
	}
}

// Who waits for a turn in vain has taken none.
func TestNoTurn(t *testing.T) {
	f := newFiles(nil)
	f.making <- struct{}{}
	for range cap(f.giving) {
		f.giving <- struct{}{}
	}
	for _, program := range []string{wire.DirectoriesProgram, wire.OwnProgram} {
		if err := f.turn(program, time.Millisecond); !errors.Is(err, errSilent) {
			t.Errorf("%s: %v", program, err)
		}
	}
	if len(f.own) != 0 || len(f.making) != 1 || len(f.giving) != cap(f.giving) {
		t.Errorf("turns that are taken: %d, %d, %d", len(f.own), len(f.making), len(f.giving))
	}
}
