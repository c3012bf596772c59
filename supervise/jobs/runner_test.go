package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/job"
	"rlminit/job/table"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// tier1 plays tier 1, and the rest of the supervisor.
type tier1 struct {
	mu       sync.Mutex
	last     uint64
	spawned  map[string]uint64 // by name
	ended    []uint64          // spawns that were to end
	forgot   []uint64          // that were acknowledged
	begun    []uint64          // ids that Begin gave and End did not take back
	profiles map[string]bool
	services map[string]bool
	hang     chan struct{} // Environment waits for it; nil: it does not
	dir      string        // the volume; "": it is not ours
	secrets  []string      // of each owner
}

func (h *tier1) Begin(string) (uint64, uint32, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	h.begun = append(h.begun, h.last)
	return h.last, 0, nil
}

func (h *tier1) Resume(string) uint32 { return 0 }

func (h *tier1) End(id uint64, _ uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun = slices.DeleteFunc(h.begun, func(other uint64) bool { return other == id })
}

func (h *tier1) Send(m wire.Message, _, after []int) {
	wire.CloseAll(after)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch m := m.(type) {
	case *wire.Spawn:
		h.spawned[m.Name] = m.ID
	case *wire.Deadline:
		h.ended = append(h.ended, m.ID)
	case *wire.Acknowledge:
		h.forgot = append(h.forgot, m.ID)
	}
}

func (h *tier1) Directories() error { return nil }

func (h *tier1) Canonical(name string) (Owner, error) {
	if h.services[name] {
		return Owner{Service: name}, nil
	}
	return Owner{Profile: name}, nil
}

func (h *tier1) Environment(of Owner) (control.Environment, error) {
	h.mu.Lock()
	hang, known := h.hang, of == (Owner{}) || h.profiles[of.Profile] || h.services[of.Service]
	h.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if !known {
		return control.Environment{}, control.NewProblem(control.KindNoSuchName, "there is no "+of.String())
	}
	return control.Environment{UID: 1000, Home: "/", Environment: []string{"PATH=/usr/bin:/bin"}}, nil
}

func (h *tier1) Isolation(Owner) (service.Isolation, error) { return service.Isolation{}, nil }

func (h *tier1) Limits(Owner) (service.Limits, error) { return service.Limits{}, nil }
func (h *tier1) Deadline(Owner) (int64, error)        { return 0, nil }

func (h *tier1) Walls(Owner, service.Isolation, []string, string) (walls.Walls, error) {
	return walls.Walls{}, errors.New("there are none here")
}

func (h *tier1) ProfileUsers() control.Enforced    { return control.Enforced{} }
func (h *tier1) User(Owner) (uint32, *rights.User) { return 0, nil }

func (h *tier1) StateFile() string     { return "gateway_state.json" }
func (h *tier1) Redact(Owner) []string { return nil }

func (h *tier1) LogOf(string) (pipes [2]int, done func(), err error) {
	return pipes, nil, errors.New("there is none here")
}

func (h *tier1) Remember(string, []byte) error { return nil }
func (h *tier1) Recall(string) []byte          { return nil }

func (h *tier1) Secrets(Owner) redact.Set { return redact.NewSet(h.secrets...) }

func (h *tier1) Tags() (low, high uint32) { return 0, 0 }
func (h *tier1) Tag(Owner) uint32         { return 0 }

func (h *tier1) Volume() (dir, lacks string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dir == "" {
		lacks = "it is not ours"
	}
	return h.dir, lacks
}

// has says where the volume is, which is ours from now on.
func (h *tier1) has(dir string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dir = dir
}

// disk is a journal that can hang, fail and be lost.
type disk struct {
	Journal
	boot string

	mu      sync.Mutex
	hang    chan struct{} // Append waits for it; nil: it does not
	failure error
	kinds   []string // of the records, in order
}

func newDisk(boot string) *disk { return &disk{Journal: Unrecorded(), boot: boot} }

func (d *disk) Boot() string { return d.boot }

func (d *disk) Append(kind string, body any) error {
	d.mu.Lock()
	hang := d.hang
	d.mu.Unlock()
	if hang != nil {
		<-hang
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failure != nil {
		return d.failure
	}
	d.kinds = append(d.kinds, kind)
	return d.Journal.Append(kind, body)
}

func (d *disk) written() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.kinds)
}

func (d *disk) set(hang chan struct{}, failure error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hang, d.failure = hang, failure
}

// rig is a runner with the world around it.
type rig struct {
	*testing.T
	*Runner
	host *tier1
	task *task
}

// unguarded lets a job start whatever this machine is at.
var unguarded = config.Guards{Memory: 100, MemoryPressure: 100, CPUPressure: 100, Zombies: 100000}

// newRig has one with a volume of which journal is; nil: it is not ours.
func newRig(t *testing.T, journal, memory Journal) *rig { return heirRig(t, journal, memory, nil) }

// heirRig has one with what tier 1 holds of a predecessor's jobs.
func heirRig(t *testing.T, journal, memory Journal, held map[string][]int) *rig {
	host := &tier1{spawned: map[string]uint64{}, profiles: map[string]bool{"alice": true}, services: map[string]bool{"tick": true}}
	g := &rig{T: t, host: host, Runner: New(host, func() Settings { return Settings{AtOnce: 4, PerProfile: 4, Queue: 100, Guards: unguarded} })}
	if journal != nil {
		host.dir = t.TempDir()
	}
	g.journal.Load().Journal = memory
	g.Start(journal, held, false)
	return g
}

// until waits for what the runner and its helpers do by themselves.
func (g *rig) until(what string, is func() bool) {
	g.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		ok := false
		g.loop.Ask(func() {
			g.host.mu.Lock()
			defer g.host.mu.Unlock()
			ok = is()
		})
		if ok {
			return
		}
		if time.Now().After(end) {
			g.Fatal("never: " + what)
		}
		time.Sleep(time.Millisecond)
	}
}

func (g *rig) spawn() uint64 { return g.host.spawned[g.task.spec.name()] }

// stagesHere are the stages of a job, and how one comes there.
var stagesHere = []job.Stage{job.Submitting, job.Queued, job.Preparing, job.Starting, job.Alive, job.Sweeping, job.Recording}

// bring submits a job and has it come as far as a stage. The function that it
// returns ends what holds it there.
func (g *rig) bring(d *disk, stage job.Stage, profile, key string) (release func()) {
	g.Helper()
	hang := make(chan struct{})
	release = sync.OnceFunc(func() { close(hang) })
	g.Cleanup(release)
	request := control.RunJob{Command: []string{"true"}, Profile: profile, TimeoutMS: 3_600_000, MaxOutput: 1000, Detach: true}
	request.Key = key
	g.task = newTask("", "run", nil, request)
	if stage == job.Submitting {
		d.set(hang, nil)
	}
	if stage > job.Queued {
		g.Open()
	}
	if stage == job.Preparing {
		g.host.mu.Lock()
		g.host.hang = hang
		g.host.mu.Unlock()
	}
	go g.submit(g.task)
	if stage > job.Preparing {
		g.until("it is spawned", func() bool { return g.task.state.Stage == job.Starting && g.spawn() != 0 })
	}
	if stage > job.Starting {
		g.Hear(&wire.Spawned{ID: g.task.run.id, PID: 1 << 30})
	}
	switch stage {
	case job.Sweeping:
		g.Hear(&wire.Exited{ID: g.task.run.id, Exit: wire.Exit{At: 1, Leftovers: 1}})
	case job.Recording:
		d.set(nil, os.ErrInvalid)
		g.Hear(&wire.Exited{ID: g.task.run.id, Exit: wire.Exit{At: 1}})
		g.until("it was tried", func() bool { return g.task.outcome.told })
	}
	g.until("it is at its stage", func() bool { return g.task.spec.ID != "" && g.task.state.Stage == stage })
	return release
}

// obey ends what is to end, as tier 1 does.
func (g *rig) obey() {
	g.host.mu.Lock()
	ids := slices.Compact(slices.Sorted(slices.Values(g.host.ended)))
	g.host.ended = nil
	g.host.mu.Unlock()
	for _, id := range ids {
		g.Hear(&wire.Spawned{ID: id, PID: 1 << 30})
		g.Hear(&wire.Exited{ID: id, Exit: wire.Exit{At: 1, Code: -1, Signal: 15}})
		g.Hear(&wire.Cleared{ID: id})
	}
}

// over waits until the job is, and nothing of it is left.
func (g *rig) over() *control.JobResult {
	g.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		g.obey()
		left := 0
		g.loop.Ask(func() { left = len(g.tasks.byID) })
		g.host.mu.Lock()
		begun := len(g.host.begun)
		g.host.mu.Unlock()
		if left == 0 && begun == 0 {
			break
		}
		if time.Now().After(end) {
			g.Fatalf("%d jobs and %d spawns are left", left, begun)
		}
		time.Sleep(time.Millisecond)
	}
	<-g.task.outcome.done
	return g.task.outcome.result
}

// The volume is lost while a job is at any stage: it ends, whoever waits is told,
// and nothing more is written.
func TestVolumeIsLost(t *testing.T) {
	for _, stage := range stagesHere {
		t.Run(stageName(stage), func(t *testing.T) {
			t.Parallel()
			d := newDisk("here")
			g := newRig(t, d, Unrecorded())
			release := g.bring(d, stage, "", "")
			d.set(nil, errors.New("the volume is another's"))
			written := len(d.written())
			g.Use(nil)
			release()
			result := g.over()
			switch {
			case stage == job.Recording: // which was told before
				if result.State != "succeeded" {
					t.Errorf("%+v", result)
				}
			case stage == job.Submitting:
				if result.State == "succeeded" {
					t.Errorf("%+v", result)
				}
			case result.State != "interrupted" && stage != job.Sweeping, result.Error == nil && stage != job.Sweeping:
				t.Errorf("%+v", result)
			}
			if after := d.written(); len(after) != written {
				t.Errorf("written afterwards: %v", after[written:])
			}
			g.shown("1", result)
			next := newTask("", "run", nil, control.RunJob{Command: []string{"true"}, TimeoutMS: 1000, MaxOutput: 1000, Detach: true})
			if _, err := g.submit(next); err != nil || next.spec.ID != "m2" {
				t.Errorf("the next job is %q: %v", next.spec.ID, err)
			}
		})
	}
}

// The supervisor is replaced as the volume changes hands: a job that was recorded where
// nothing is any more ends, and one that was recorded here goes on.
func TestVolumeChangesWithTheSupervisor(t *testing.T) {
	for id, volume := range map[string]bool{"m3": true, "3": false, "m4": false, "4": true} {
		t.Run(fmt.Sprint(id, volume), func(t *testing.T) {
			left := newTask(id, "run", nil, control.RunJob{Command: []string{"true"}, TimeoutMS: 3_600_000, MaxOutput: 1000, Detach: true})
			if err := left.held.write(&left.spec); err != nil {
				t.Fatal(err)
			}
			var journal Journal
			if volume {
				journal = newDisk("here")
			}
			g := heirRig(t, journal, Unrecorded(), map[string][]int{left.spec.name(): {left.held.spec}})
			g.Open()
			if (id[0] == 'm') != volume {
				g.until("it runs", func() bool { return g.host.spawned[left.spec.name()] != 0 })
				return
			}
			g.until("it is over", func() bool { return len(g.tasks.byID) == 0 })
			if j, err := (requests{g.Runner}).show(id); err != nil || j.State != "interrupted" || j.Result == nil || j.Result.Error == nil {
				t.Errorf("%+v, %v", j, err)
			}
		})
	}
}

// A job whose spawn was under way when the supervisor was replaced has begun then, and not
// with the machine.
func TestAJobThatWasOnItsWayHasJustBegun(t *testing.T) {
	g := newRig(t, nil, Unrecorded())
	left := newTask("m1", "run", nil, control.RunJob{Command: []string{"true"}, TimeoutMS: 3_600_000, MaxOutput: 1000, Detach: true})
	for started, most := range map[uint64]time.Duration{0: time.Minute, uint64((wire.SinceBoot() - time.Hour) / wire.Tick): 2 * time.Hour} {
		g.loop.Ask(func() {
			g.tasks.add(left)
			g.resume(left, wire.Child{ID: 7, Name: left.spec.name(), State: wire.ChildPending, StartTime: started}, true)
		})
		if since := wire.SinceBoot() - time.Duration(left.run.begun); since < 0 || since > most {
			t.Errorf("started at %d ticks, it has begun %s ago", started, since)
		}
	}
}

func stageName(s job.Stage) string {
	return [...]string{"submitting", "queued", "preparing", "starting", "alive", "sweeping", "recording"}[s]
}

// shown makes sure that whoever asks for a job by its number is told how it has ended.
func (g *rig) shown(id string, result *control.JobResult) {
	g.Helper()
	a := requests{g.Runner}
	j, err := a.show(id)
	told, err2 := a.wait(g.Context(), id, time.Second)
	if err != nil || err2 != nil || j.State != result.State || told.State != result.State {
		g.Errorf("shown as %+v, %v; waited for: %+v, %v", j, err, told, err2)
	}
}

// The volume becomes ours while a job is at any stage: it ends, and nobody writes of it
// there; what the owner before us left gets its outcome, and is not kept from being run
// again by a job that has its key and ends.
func TestVolumeIsTaken(t *testing.T) {
	for _, stage := range stagesHere {
		t.Run(stageName(stage), func(t *testing.T) {
			t.Parallel()
			memory := newDisk("")
			g := newRig(t, nil, memory)
			release := g.bring(memory, stage, "", "K")
			first := g.task
			d := newDisk("here")
			again, _ := json.Marshal(control.RunJob{Key: "K", Command: []string{"true"}, TimeoutMS: 1000, MaxOutput: 1000, Detach: true, Retry: true})
			for _, s := range []table.Submitted{{Job: "6", Kind: "run"}, {Job: "7", Kind: "run", Key: "K", Again: again}} {
				if err := d.Append(table.TypeSubmitted, s); err != nil {
					t.Fatal(err)
				}
			}
			g.host.has(t.TempDir())
			g.Use(d)
			g.until("what was left is interrupted", func() bool { return slices.Contains(d.written(), table.TypeFailed) })
			memory.set(nil, nil)
			release()
			g.Open()
			g.until("the second runs again", func() bool { return g.host.spawned["job/7"] != 0 })
			g.loop.Ask(func() { g.step(g.tasks.byID["7"], job.Event{Kind: job.Cancel}) })
			result := g.over()
			switch {
			case first.spec.ID != "m1":
				t.Errorf("it is job %s", first.spec.ID)
			case stage == job.Recording || stage == job.Sweeping: // how it has ended was decided before
				if result.State != "succeeded" {
					t.Errorf("%+v", result)
				}
			case result.State != "interrupted" || result.Error == nil:
				t.Errorf("%+v", result)
			}
			g.shown("m1", result)
			states := map[string]job.Status{}
			d.View(func(h *table.Table) {
				for id, e := range h.Jobs {
					states[id] = e.State
				}
			})
			if states["6"] != job.Interrupted || states["7"] != job.Cancelled || len(states) != 2 {
				t.Errorf("recorded: %v", states)
			}
			next := newTask("", "run", nil, control.RunJob{Command: []string{"true"}, TimeoutMS: 1000, MaxOutput: 1000, Detach: true})
			if _, err := g.submit(next); err != nil || next.spec.ID != "8" {
				t.Errorf("the next job is %q: %v", next.spec.ID, err)
			}
			if list := (requests{g.Runner}).list(); len(list) != 4 || !strings.HasPrefix(list[3].Job, job.InMemory) {
				t.Errorf("listed: %+v", list)
			}
		})
	}
}

// A profile is deleted, or is to be renamed, while a job of it is at any stage.
func TestProfileGoes(t *testing.T) {
	for _, stage := range stagesHere {
		t.Run(stageName(stage), func(t *testing.T) {
			t.Parallel()
			d := newDisk("here")
			g := newRig(t, d, Unrecorded())
			release := g.bring(d, stage, "alice", "")
			over := stage == job.Recording
			reopen, err := g.Reserve("alice", "renamed")
			if (err == nil) != over || err != nil && !strings.Contains(err.Error(), "it has job 1; end that first") {
				t.Errorf("rename: %v", err)
			}
			if err == nil {
				reopen()
			}
			d.set(nil, nil)
			gone := make(chan func(), 1)
			go func() { gone <- g.Vacate("alice", "its profile was deleted") }()
			next := func() error {
				_, err := g.submit(newTask("", "run", nil, control.RunJob{Command: []string{"true"}, Profile: "alice", TimeoutMS: 1000, MaxOutput: 1000, Detach: true}))
				return err
			}
			g.until("nothing begins", func() bool { return g.doors.shut["alice"] == 1 })
			if err := next(); err == nil || !strings.Contains(err.Error(), "is being deleted or renamed") {
				t.Errorf("begun meanwhile: %v", err)
			}
			release()
			result := g.over()
			if result.State != "cancelled" && !over && stage != job.Sweeping {
				t.Errorf("%+v", result)
			}
			(<-gone)()
			if err := next(); err != nil {
				t.Errorf("begun afterwards: %v", err)
			}
		})
	}
}

// late is a journal whose notes are seen when it is flushed.
type late struct {
	Journal
	mu    sync.Mutex
	notes []func()
}

func (l *late) Note(kind string, body any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, func() { l.Journal.Note(kind, body) })
}

func (l *late) Flush(context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, note := range l.notes {
		note()
	}
	l.notes = nil
}

// Who is told the number of a job that was refused finds it.
func TestRefusedJobIsFound(t *testing.T) {
	g := newRig(t, &late{Journal: Unrecorded()}, Unrecorded())
	var told *control.Problem
	g.loop.Ask(func() {
		errors.As(g.turnAway(newTask("", "run", nil, control.RunJob{Command: []string{"true"}}), control.Refused("not here")), &told)
	})
	if told == nil || told.Job == "" {
		t.Fatalf("%+v", told)
	}
	if j, err := (requests{g.Runner}).show(told.Job); err != nil || j.State != string(job.RefusedAs) {
		t.Errorf("%+v, %v", j, err)
	}
	if _, err := (requests{g.Runner}).show("4711"); err == nil {
		t.Error("there is one that nobody has asked for")
	}
}
