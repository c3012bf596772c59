package supervise

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
	"rlminit/logs"
	"rlminit/rights"
	"rlminit/supervise/core"
	"rlminit/supervise/link"
	"rlminit/supervise/process"
	"rlminit/supervise/remember"
	"rlminit/supervise/serve"
	"rlminit/supervise/settings"
	"rlminit/supervise/slots"
	"rlminit/supervise/spawn"
	"rlminit/wire"
)

// place is a container as far as one supervisor after the other knows it: a
// volume, a service directory, and a tier 1 whose processes are numbers.
type place struct {
	*testing.T
	home, runtime string
	now           *supervisor
	gone          chan error    // closed when it is killed
	over          chan struct{} // when its loop has ended
	locks         []func()      // that give the volume's lock back
	full          atomic.Bool   // the journal's disk is
	slow          sync.RWMutex  // locked: nothing is written there

	mu     sync.Mutex
	held   map[string][]int
	spawns map[string]int    // by service
	ran    map[string]string // by service: the program of its latest process
	alive  map[uint64]string
	deaf   map[string]bool // services that do not end by TERM
	ended  []int32         // codes that End was sent with
	sent   []string        // of signals: "9 to 7, scope 2"
}

func newPlace(t *testing.T, yaml string, args ...string) *place {
	t.Helper()
	p := &place{
		T: t, home: tempDir(t), runtime: tempDir(t), held: map[string][]int{},
		spawns: map[string]int{}, ran: map[string]string{}, alive: map[uint64]string{}, deaf: map[string]bool{},
	}
	if err := os.Mkdir(filepath.Join(p.runtime, "services"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.configure(p.home, yaml)
	p.supervise(args...)
	t.Cleanup(func() {
		p.copied(10 * time.Second)
		p.kill()
		for _, giveBack := range p.locks {
			giveBack()
		}
	})
	return p
}

// tempDir is a directory that is removed however often it takes: what a killed
// supervisor had begun to write comes to its end, as it does on a real volume.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "place-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 1000 {
			if err = os.RemoveAll(dir); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Error(err)
	})
	return dir
}

// configure writes the configuration, with a volume.
func (p *place) configure(home, yaml string) {
	p.Helper()
	if err := os.WriteFile(filepath.Join(p.runtime, "rlminit.yaml"), []byte(yaml+"home: "+home+"\n"), 0o644); err != nil {
		p.Fatal(err)
	}
}

// supervise starts a supervisor, which has registered nothing yet.
func (p *place) supervise(args ...string) {
	p.Helper()
	bundle, err := config.ReadUntrusted(filepath.Join(p.runtime, "rlminit.yaml"))
	if err != nil {
		p.Fatal(err)
	}
	bundle.Args = args
	first, faults := config.Parse(bundle, nil)
	if len(faults) > 0 {
		p.Fatal(faults.Err())
	}
	bundle.Run = first.Decide(args, func(string) (string, bool) { return "", false })
	me := wire.Identity{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Name: "app", Home: p.home}
	s := newSupervisor(&wire.Policy{User: me, Volume: p.home})
	s.Volume.Journal.Fault = func(string) error {
		p.slow.RLock()
		defer p.slow.RUnlock()
		if p.full.Load() {
			return unix.ENOSPC
		}
		return nil
	}
	s.Spawner.Prepare = func(of spawn.Service, _ *rights.Progress) process.Prepared {
		return process.Prepared{Argv: of.Definition.Command, Path: "/bin/true"}
	}
	s.Preparer.Runtime, s.slots = p.runtime, slots.Dir{Path: filepath.Join(p.runtime, "services")}
	gone := make(chan error)
	s.Tier1.Link = link.To(func(o link.Outgoing) {
		select {
		case <-gone:
		default:
			p.take(s, o)
		}
	})
	p.mu.Lock()
	for key, fds := range p.held {
		s.Tier1.Held[key] = fds
		p.held[key] = duplicates(p.T, fds)
	}
	for id, name := range p.alive {
		s.Tier1.Number(func(uint64) uint64 { return id + 1 })
		s.Tier1.Children[name] = append(s.Tier1.Children[name], wire.Child{ID: id, Name: name, State: wire.ChildAlive, PID: int32(100 + id), StartTime: id})
	}
	p.mu.Unlock()
	fd, err := wire.Sealed("bundle", bundle.Encode())
	if err != nil {
		p.Fatal(err)
	}
	if err := s.openHandover(); err != nil {
		p.Fatal(err)
	}
	if s.Preparer.Settings, err = settings.Open(fd, s.Memory.Table, s.Preparer.Policy, s.Preparer.Runtime); err != nil {
		p.Fatal(err)
	}
	if s.Logs, err = logs.New(logs.Options{Home: p.home, Tee: -1}); err != nil {
		p.Fatal(err)
	}
	if err := s.assemble(); err != nil {
		p.Fatal(err)
	}
	over := make(chan struct{})
	p.now, p.gone, p.over = s, gone, over
	go func() {
		defer close(over)
		s.loop.Run(gone)
	}()
}

// open takes the volume and what a predecessor left.
func (p *place) open() {
	p.now.Volume.Take()
	p.now.loop.TakeOver()
	p.now.Registry.Start(func() {})
}

// kill ends the supervisor as SIGKILL does: nothing of it reaches anybody.
func (p *place) kill() {
	p.now.Registry.Close()
	p.now.Tier1.Link.Flush()
	p.locks = append(p.locks, p.now.Volume.GiveBack) // which the kernel would do
	close(p.gone)
	<-p.over
}

// take is tier 1's part: what is spawned lives until it is signalled.
func (p *place) take(s *supervisor, o link.Outgoing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hear := func(m wire.Message) { go s.loop.Hear(m, nil) }
	switch m := o.Message.(type) {
	case *wire.Hold:
		p.held[m.Key] = duplicates(p.T, o.FDs)
	case *wire.Release:
		delete(p.held, m.Key)
	case *wire.End:
		p.ended = append(p.ended, m.Code)
	case *wire.Spawn:
		p.spawns[m.Name]++
		p.ran[m.Name] = m.Argv[0]
		p.alive[m.ID] = m.Name
		hear(&wire.Spawned{ID: m.ID, PID: int32(100 + m.ID), StartTime: m.ID})
	case *wire.Signal:
		p.sent = append(p.sent, fmt.Sprintf("%d to %d, scope %d", m.Signal, m.ID, m.Scope))
		name, lives := p.alive[m.ID]
		if sig := unix.Signal(m.Signal); lives && (sig == unix.SIGKILL || sig == unix.SIGTERM && !p.deaf[name]) {
			delete(p.alive, m.ID)
			hear(&wire.Exited{ID: m.ID, Exit: wire.Exit{Signal: m.Signal}})
		}
	}
}

// exit ends the process of a service by itself.
func (p *place) exit(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.now
	for id, of := range p.alive {
		if of == name {
			delete(p.alive, id)
			go s.loop.Hear(&wire.Exited{ID: id}, nil)
		}
	}
}

// spawned is how often a service was started.
func (p *place) spawned(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spawns[name]
}

func duplicates(t *testing.T, fds []int) (copies []int) {
	for _, fd := range fds {
		duplicate, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			t.Error(err)
		}
		copies = append(copies, duplicate)
	}
	return copies
}

func (p *place) write(rel, text string) {
	p.Helper()
	path := filepath.Join(p.home, rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.Fatal(err)
	}
}

func (p *place) read(rel string) string {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(p.home, rel))
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

// unit is a service as it is now; nil: there is none.
func (p *place) unit(name string) (u *serve.View) {
	p.now.loop.Commands.Read(func(now serve.Services) { u = now.Named(name) })
	return u
}

// remembered is what a successor would know of a service.
func (p *place) remembered(name string) remember.Service { return p.now.Memory.Services()[name] }

// copied waits until the volume shows what has happened, but for no longer than that.
func (p *place) copied(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p.now.Recorder.Flush(ctx)
}

// operate commands services as a user does.
func operate(s *supervisor, verb string, units []*serve.View, along bool, uid uint32, wait *control.Wait) []control.Outcome {
	cmd := serve.CommandOf(verb, units, control.Actor{UID: uid})
	cmd.Along = along && verb != core.VerbStop
	outcomes, _, _ := s.backend.Give(context.Background(), cmd, units, wait)
	return outcomes
}

// state is a service's state, and whether there is such a service.
func (p *place) state(name string) (state string, there bool) {
	if u := p.unit(name); u != nil {
		state, there = u.Status().State, true
	}
	for _, at := range p.now.Registry.AtRest.List() {
		if !there && at.Name == name {
			state, there = at.State, true
		}
	}
	return state, there
}

// await waits until a service is in a state; "" until there is none.
func (p *place) await(name, state string) {
	p.Helper()
	p.eventually(name+" is "+state, func() (bool, any) {
		got, there := p.state(name)
		return there == (state != "") && got == state, got
	})
}

func (p *place) eventually(what string, ask func() (yes bool, seen any)) {
	p.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		yes, seen := ask()
		if yes {
			return
		}
		if time.Now().After(deadline) {
			p.Fatalf("not within 20s: %s; last seen: %v", what, seen)
		}
	}
}

// create creates a profile as the body of a request says, by root.
func (p *place) create(body string) (control.Outcome, error) {
	var what control.CreateProfile
	if err := json.Unmarshal([]byte(body), &what); err != nil {
		p.Fatal(err)
	}
	return p.now.Registry.Profiles.Create(p.Context(), what, control.Actor{})
}
