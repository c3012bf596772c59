package registry

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"rlminit/config"
	"rlminit/control"
	"rlminit/journal"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/handover"
	"rlminit/supervise/settings"
	"rlminit/supervise/slots"
	"rlminit/wire"
)

// place is a registry with a service directory and a volume; its services are
// names that end when the test says so.
type place struct {
	*testing.T
	*Registry
	home string

	mu      sync.Mutex
	units   map[string]Proposal
	ending  map[string]bool
	defined int
}

func newPlace(t *testing.T, yaml string) *place {
	t.Helper()
	p := &place{T: t, home: t.TempDir(), units: map[string]Proposal{}, ending: map[string]bool{}}
	file := filepath.Join(t.TempDir(), "rlminit.yaml")
	if err := os.WriteFile(file, []byte(yaml+"home: "+p.home+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	bundle, err := config.ReadUntrusted(file)
	if err != nil {
		t.Fatal(err)
	}
	c, faults := config.Parse(bundle, nil)
	if len(faults) > 0 {
		t.Fatal(faults.Err())
	}
	table, err := handover.OpenTable(handover.Held{}, func(string, int) {})
	if err != nil {
		t.Fatal(err)
	}
	p.Registry = New(p, p, settings.Fixed(c, &wire.Policy{}), slots.Dir{Path: t.TempDir()}, table)
	p.volume = p
	if store, err = profiles.Open(nil, nil, p.home, profiles.SettingsOf(c), func(string) {}); err != nil {
		t.Fatal(err)
	}
	intents := profiles.NewIntents()
	j, err := journal.Open(store.Ours(), journal.Options{Boot: "a1a1a1a1", Folds: map[string]journal.Fold{"intents": intents}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	store.Records.UseJournal(j, intents, profiles.NewUsers())
	p.Start(func() {})
	t.Cleanup(p.Registry.Close)
	return p
}

var store *profiles.Store

func (p *place) Store() *profiles.Store    { return store }
func (p *place) Absent() string            { return "" }
func (p *place) Unknown() error            { return nil }
func (p *place) Log(profile string) string { return "logs/" + profile }

func (p *place) Define(all []Proposal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range all {
		if p.ending[d.Name] {
			p.Errorf("%s is defined while the one before still ends", d.Name)
		}
		p.units[d.Name] = d
		p.defined++
	}
}

func (p *place) Published([]string) {}

func (p *place) Remove(name, _ string, _ *uint32, _ bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending[name] = true
}
func (p *place) Vacated(string)    {}
func (p *place) Announce([]string) {}
func (p *place) Withdraw([]string) {}
func (p *place) Together(f func()) { f() }
func (p *place) Follow([]string)   {}
func (p *place) Renew(Proposal)    {}
func (p *place) Alive() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	alive := map[string]bool{}
	for name := range p.units {
		alive[name] = true
	}
	return alive
}

func (p *place) Status(string) (control.Service, bool)                                  { return control.Service{}, false }
func (p *place) Plan(string, *service.Definition) (c control.Change)                    { return c }
func (p *place) Recorded(string)                                                        {}
func (p *place) Find(name string) (string, error)                                       { return name, nil }
func (p *place) Await(context.Context, string, bool, *control.Wait) (o control.Outcome) { return o }

// gone ends a service, as its process does.
func (p *place) gone(name string) {
	p.mu.Lock()
	delete(p.units, name)
	delete(p.ending, name)
	p.mu.Unlock()
	p.Gone(name, nil)
	p.queue.Ask(func() {})
}

func (p *place) runs(name string) (d Proposal, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, is = p.units[name]
	return d, is && !p.ending[name]
}

func (p *place) isEnding(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ending[name]
}

func (p *place) eventually(what string, is func() bool) {
	p.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			p.Fatalf("not within 20s: %s", what)
		}
	}
}

const gateways = "version: 1\nuser: app\ngateway: {command: [agent]}\n"

func (p *place) made(name string) {
	p.Helper()
	if _, err := p.Profiles.Create(p.Context(), control.CreateProfile{Name: name}, control.Actor{}); err != nil {
		p.Fatal(err)
	}
}

// A profile that is made when the directory of the one before is gone, but its
// deletion not quite over, is registered and not refused.
func TestCreatedAtTheEndOfADeletion(t *testing.T) {
	p := newPlace(t, gateways)
	ended, other := p.Profiles.beginDeletion("gateway-alice", deleted, nil)
	if other != nil {
		t.Fatal("somebody else deletes it")
	}
	<-ended
	answer := make(chan error, 1)
	go func() {
		_, err := p.Profiles.Create(t.Context(), control.CreateProfile{Name: "alice"}, control.Actor{})
		answer <- err
	}()
	p.eventually("the profile is on the volume", func() bool {
		_, err := os.Lstat(p.home + "/profiles/alice")
		return err == nil
	})
	p.Profiles.endDeletion("gateway-alice")
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
	if _, is := p.runs("gateway-alice"); !is {
		t.Error("it is not registered")
	}
}

// What was published and could not be written is no stranger's: after a full
// service directory the name of a deleted profile does not come back, and a
// changed profile stays changed.
func TestSlotThatCouldNotBeWritten(t *testing.T) {
	p := newPlace(t, gateways)
	p.made("alice")
	slot := p.slots.File("gateway-alice")
	// A definition cannot be renamed over a directory, as little as it can be
	// written where there is no room.
	aside := filepath.Join(slot, ".aside")
	staged := filepath.Join(slot, "."+slots.DefinitionFile)
	if err := errors.Join(os.Rename(filepath.Join(slot, slots.DefinitionFile), aside), os.MkdirAll(filepath.Join(slot, slots.DefinitionFile, "x"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Profiles.Edit("alice", control.ReplaceProfile{Text: "environment: {A: b}\n"}, control.Actor{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(slot, slots.DefinitionFile)), os.Rename(aside, filepath.Join(slot, slots.DefinitionFile))); err != nil {
		t.Fatal(err)
	}
	os.RemoveAll(staged)
	p.Notice("gateway-alice")
	if d, is := p.runs("gateway-alice"); !is || d.Value.Environment["A"].Text != "b" || !d.Ours {
		t.Errorf("what the slot held before counts again: %+v", d)
	}
	deleted := make(chan error, 1)
	go func() {
		_, err := p.Profiles.Delete(t.Context(), "alice", control.Deletion{}, control.Actor{})
		deleted <- err
	}()
	p.eventually("its service is told to end", func() bool { return p.isEnding("gateway-alice") })
	p.gone("gateway-alice")
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	p.Rescan()
	p.queue.Ask(func() {})
	if _, is := p.runs("gateway-alice"); is {
		t.Error("a deleted profile is back")
	}
	if _, err := os.Lstat(slot); err == nil {
		t.Error("its slot is left")
	}
}

// A definition of ours is not read back, also by a successor, which has it from memory:
// only what was put over it is.
func TestOwnSlotsAreNotRead(t *testing.T) {
	p := newPlace(t, gateways)
	p.made("alice")
	file := p.slots.File("gateway-alice", slots.DefinitionFile)
	if err := os.Chmod(file, 0); err != nil { // nor would it be understood
		t.Fatal(err)
	}
	before := p.defined
	p.Rescan()
	p.Notice("gateway-alice")
	if p.defined != before {
		t.Error("it was looked at")
	}
	p.Registry = New(p, p, p.settings, p.slots, p.table)
	recalled := p.Recall("gateway-alice", "alice", true)
	d, _ := p.runs("gateway-alice")
	if recalled.Fault != "" || recalled.Fingerprint != d.Fingerprint || !recalled.Ours {
		t.Errorf("a successor has %+v", recalled)
	}
	p.Restored("gateway-alice", false)
	p.Start(p.rescan)
	if p.defined != before {
		t.Error("a successor looks at it")
	}
	if err := errors.Join(os.WriteFile(file+".new", []byte("command: [true, by, hand]\n"), 0o640), os.Rename(file+".new", file)); err != nil {
		t.Fatal(err)
	}
	p.Notice("gateway-alice")
	if d, _ := p.runs("gateway-alice"); p.defined != before+1 || d.Ours || len(d.Value.Command) != 3 {
		t.Errorf("taken up %d times: %+v", p.defined-before, d)
	}
}

// A slot whose definition can never be understood is no news until it changes.
func TestAFaultySlotIsUnderstoodOnce(t *testing.T) {
	p := newPlace(t, "version: 1\nuser: app\n")
	looked := func(text string) int {
		t.Helper()
		if _, err := p.slots.Publish("web", []byte(text)); err != nil {
			t.Fatal(err)
		}
		before := p.defined
		p.Notice("web")
		p.Notice("web")
		return p.defined - before
	}
	const faulty, good = "commnd: [true]\n", "command: [true]\nenabled: false\n"
	for i, text := range []string{faulty, good, faulty, good} {
		if n := looked(text); n != 1 {
			t.Errorf("%d, %q: it was taken up %d times", i, text, n)
		}
	}
	if d, _ := p.runs("web"); d.Fault != "" {
		t.Errorf("it is mended, and the fault is %q", d.Fault)
	}
}

func (p *place) PriorExit() string { return "unknown" }
