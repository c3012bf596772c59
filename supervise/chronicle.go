package supervise

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/profiles"
	"rlminit/supervise/jobs"
	"rlminit/supervise/operation/history"
	"rlminit/supervise/revision"
	"rlminit/wire"
)

// chronicle is the journal of the volume, as long as the volume is ours. Its
// folds are there from the beginning; what they know comes with the journal.
type chronicle struct {
	journal   atomic.Pointer[journal.Journal] // nil: there is none
	lost      atomic.Bool                     // the volume is another's
	silent    bool                            // nothing could be written when it was opened, and that was said
	intents   *profiles.Intents
	users     *profiles.Users
	boots     *journal.Boots
	jobs      *jobs.Fold
	revisions *revision.Records
	hooks     *jobs.Hooks // told of each transition; nil: nobody is
	history   *history.History
	boot      string        // the id of this boot, once there is a journal
	ooms      atomic.Uint64 // kills for want of memory that were seen
	folds     map[string]journal.Fold

	mu    sync.Mutex
	steps []wire.BootStep
	began time.Duration // of the supervisor, as steps are told

	fault func(step string) error // a test's disk that fails; nil: it works
}

func newChronicle() *chronicle {
	c := &chronicle{intents: profiles.NewIntents(), users: profiles.NewUsers(), boots: &journal.Boots{}, jobs: jobs.NewFold(), revisions: &revision.Records{}, history: &history.History{}, began: wire.SinceBoot()}
	c.folds = map[string]journal.Fold{
		"intents": c.intents, profiles.UsersSection: c.users, "boot": c.boots, jobs.FoldName: c.jobs, revision.Section: c.revisions, history.Section: c.history,
	}
	return c
}

// earlier are the operations that the journal has, and the last id. It records
// that those which an earlier boot left under way were interrupted.
func (c *chronicle) earlier(j *journal.Journal) (all []control.Operation, last uint64) {
	var left []history.Ended
	j.View(func() { all, left, last = c.history.Since(c.boot) })
	for _, e := range left {
		j.Note(journal.Entry{Type: history.TypeEnded, Body: e})
	}
	return all, last
}

// oomSeen records that the kernel killed a service for want of memory, without
// waiting: the container may be next.
func (c *chronicle) oomSeen(service, reason string) {
	seen := c.ooms.Add(1)
	time.AfterFunc(journal.OOMOutlived, func() {
		if j := c.journal.Load(); j != nil && c.ooms.Load() == seen {
			j.Note(journal.Entry{Type: journal.TypeOOMOutlived, Body: struct{}{}})
		}
	})
	if j := c.journal.Load(); j != nil {
		j.Note(journal.Entry{Type: journal.TypeOOMSeen, Body: journal.OOMSeen{Service: service, Reason: reason}})
	}
}

// operationEnded records what became of an operation, without waiting for the
// disk: what it was to change is recorded.
func (c *chronicle) operationEnded(o control.Operation) {
	if j := c.journal.Load(); j != nil {
		j.Note(journal.Entry{Type: history.TypeEnded, Body: history.EndedOf(o)})
	}
}

// bootRecordPatience is how long a boot waits for its first record: a disk that
// does not answer keeps nothing from starting.
const bootRecordPatience = 2 * time.Second

// step notes that a step of the boot is over.
func (c *chronicle) step(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = append(c.steps, wire.BootStep{Name: name, Over: wire.SinceBoot()})
}

// firstSteps notes what came before the supervisor: this one finishes a boot.
// PID 1 began at began.
func (c *chronicle) firstSteps(began time.Duration, before []wire.BootStep) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = append(append(before, wire.BootStep{Name: "supervisor", Over: c.began}), c.steps...)
	c.began = began
}

// booted records the steps of the boot.
func (c *chronicle) booted(generation uint32, services int) {
	j := c.journal.Load()
	if j == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	body := control.Booted{Generation: int(generation), Services: services}
	for _, s := range c.steps {
		ms := float64((s.Over - c.began).Microseconds()) / 1000
		body.Steps = append(body.Steps, control.BootStep{Step: s.Name, MS: max(ms, 0)})
	}
	j.Note(journal.Entry{Type: control.TypeBooted, Body: body})
	c.steps = nil
}

// note records what happened to a service, without waiting for the disk, and has
// hooks told of it.
func (c *chronicle) note(e control.Event) {
	told := func(line []byte) {
		if c.hooks != nil {
			c.hooks.Tell(e, line)
		}
	}
	j := c.journal.Load()
	if j == nil {
		told(nil)
		return
	}
	j.Note(journal.Entry{Told: told, Type: journal.TypeTransition, Body: struct {
		Service string  `json:"service"`
		From    string  `json:"from"`
		To      string  `json:"to"`
		Cause   string  `json:"cause"`
		Actor   *uint32 `json:"actor"`
		PID     *int    `json:"pid"`
	}{e.Service, e.From, e.To, e.Cause, e.Actor, e.PID}})
}

// jobRecords is the journal as jobs record themselves in it; nil: there is none.
func (c *chronicle) jobRecords() jobs.Journal {
	j := c.journal.Load()
	if j == nil {
		return nil
	}
	return jobs.Recorded(j, c.jobs, c.boot)
}

// lose ends the journal: another container has the volume.
func (c *chronicle) lose() {
	c.lost.Store(true)
	if j := c.journal.Swap(nil); j != nil {
		go j.Close() // which may wait for a disk
	}
}

// end records that the container has stopped in order, and closes the journal.
func (c *chronicle) end() {
	j := c.journal.Load()
	if j == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootRecordPatience)
	defer cancel()
	if _, err := j.AppendReserved(ctx, journal.Entry{Type: journal.TypeBootEnded}); err != nil {
		if !c.silent {
			slog.Warn("cannot record the end of this boot", "err", err)
		}
		return
	}
	j.Close()
}

// notRecorded is the problem of a command that is refused.
func notRecorded(err error) *control.Problem {
	problem := control.Failed("cannot record it: %v; nothing was done, for it would not survive a restart", err)
	problem.Retryable = durable.Temporary(err)
	return problem
}

// stoppedOnly is the problem of a stop that was carried out all the same.
func stoppedOnly(name string, why *control.Problem) *control.Problem {
	reason, _, _ := strings.Cut(why.Detail, "; nothing was done")
	return control.Failed("%s is stopped, as with --runtime: %s; it may run again when the container is started", name, reason)
}
