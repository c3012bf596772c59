package volume

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"rlminit/control"
	"rlminit/journal"
	"rlminit/profiles"
	"rlminit/supervise/jobs"
	"rlminit/supervise/jobs/hooks"
	"rlminit/supervise/operation/history"
	"rlminit/supervise/revision"
	"rlminit/wire"
)

// Journal is the journal of the volume, as long as the volume is ours. Its folds are there
// from the beginning; what they know comes with the journal. Anybody may call it.
type Journal struct {
	Open      atomic.Pointer[journal.Journal] // nil: there is none
	lost      atomic.Bool                     // the volume is another's
	silent    bool                            // nothing could be written when it was opened, and that was said
	intents   *profiles.Intents
	users     *profiles.Users
	boots     *journal.Boots
	jobs      *jobs.Fold
	revisions *revision.Records
	Hooks     *hooks.Hooks // told of each transition; nil: nobody is
	history   *history.History
	boot      string        // the id of this boot, once there is a journal
	ooms      atomic.Uint64 // kills for want of memory that were seen
	Fatal     atomic.Bool   // the last of these ends the container
	folds     map[string]journal.Fold

	mu    sync.Mutex
	steps []wire.BootStep
	began time.Duration // of the supervisor, as steps are told

	Fault func(step string) error // a test's disk that fails; nil: it works
}

// NewJournal is one that is not open.
func NewJournal() *Journal {
	c := &Journal{intents: profiles.NewIntents(), users: profiles.NewUsers(), boots: &journal.Boots{}, jobs: jobs.NewFold(), revisions: &revision.Records{}, history: &history.History{}, began: wire.SinceBoot()}
	c.folds = map[string]journal.Fold{
		"intents": c.intents, profiles.UsersSection: c.users, "boot": c.boots, jobs.FoldName: c.jobs, revision.Section: c.revisions, history.Section: c.history,
	}
	return c
}

// earlier are the operations that the journal has, and the last id. It records
// that those which an earlier boot left under way were interrupted.
func (j *Journal) earlier(open *journal.Journal) (all []control.Operation, last uint64) {
	var left []history.Ended
	open.View(func() { all, left, last = j.history.Since(j.boot) })
	for _, e := range left {
		open.Note(journal.Entry{Type: history.TypeEnded, Body: e})
	}
	return all, last
}

// OOMSeen records that the kernel killed a service for want of memory, without
// waiting: the container may be next.
func (j *Journal) OOMSeen(service, reason string) {
	seen := j.ooms.Add(1)
	time.AfterFunc(journal.OOMOutlived, func() {
		if open := j.Open.Load(); open != nil && j.ooms.Load() == seen {
			open.Note(journal.Entry{Type: journal.TypeOOMOutlived, Body: struct{}{}})
		}
	})
	if open := j.Open.Load(); open != nil {
		open.Note(journal.Entry{Type: journal.TypeOOMSeen, Body: journal.OOMSeen{Service: service, Reason: reason}})
	}
}

// OperationEnded records what became of an operation, without waiting for the
// disk: what it was to change is recorded.
func (j *Journal) OperationEnded(o control.Operation) {
	if open := j.Open.Load(); open != nil {
		open.Note(journal.Entry{Type: history.TypeEnded, Body: history.EndedOf(o)})
	}
}

// bootRecordPatience is how long a boot waits for its first record: a disk that
// does not answer keeps nothing from starting.
const bootRecordPatience = 2 * time.Second

// Step notes that a step of the boot is over.
func (j *Journal) Step(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.steps = append(j.steps, wire.BootStep{Name: name, Over: wire.SinceBoot()})
}

// FirstSteps notes what came before the supervisor: this one finishes a boot.
// PID 1 began at began.
func (j *Journal) FirstSteps(began time.Duration, before []wire.BootStep) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.steps = append(append(before, wire.BootStep{Name: "supervisor", Over: j.began}), j.steps...)
	j.began = began
}

// Booted records the steps of the boot.
func (j *Journal) Booted(generation uint32, services int) {
	open := j.Open.Load()
	if open == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	body := control.Booted{Generation: int(generation), Services: services}
	for _, s := range j.steps {
		ms := float64((s.Over - j.began).Microseconds()) / 1000
		body.Steps = append(body.Steps, control.BootStep{Step: s.Name, MS: max(ms, 0)})
	}
	open.Note(journal.Entry{Type: control.TypeBooted, Body: body})
	j.steps = nil
}

// Note records what happened to a service, without waiting for the disk, and has
// hooks told of it.
func (j *Journal) Note(e control.Event) {
	open, told := j.Open.Load(), func([]byte) {}
	if j.Hooks != nil {
		told = j.Hooks.Recorded
	}
	if open == nil {
		if j.Hooks != nil {
			j.Hooks.Happened(e)
		}
		return
	}
	open.Note(journal.Entry{Told: told, Type: journal.TypeTransition, Body: struct {
		Service string  `json:"service"`
		Profile string  `json:"profile,omitempty"`
		From    string  `json:"from"`
		To      string  `json:"to"`
		Cause   string  `json:"cause"`
		Actor   *uint32 `json:"actor"`
		PID     *int    `json:"pid"`
	}{e.Service, e.Profile, e.From, e.To, e.Cause, e.Actor, e.PID}})
}

// JobRecords is the journal as jobs record themselves in it; nil: there is none.
func (j *Journal) JobRecords() jobs.Journal {
	open := j.Open.Load()
	if open == nil {
		return nil
	}
	return jobs.Recorded(open, j.jobs, j.boot)
}

// lose ends the journal: another container has the volume.
func (j *Journal) lose() {
	j.lost.Store(true)
	if open := j.Open.Swap(nil); open != nil {
		go open.Close() // which may wait for a disk
	}
}

// End records that the container has stopped in order, and closes the journal.
func (j *Journal) End() {
	open := j.Open.Load()
	if open == nil {
		return
	}
	if j.Fatal.Load() { // the next boot is to find that
		open.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootRecordPatience)
	defer cancel()
	if _, err := open.AppendReserved(ctx, journal.Entry{Type: journal.TypeBootEnded}); err != nil {
		if !j.silent {
			slog.Warn("cannot record the end of this boot", "err", err)
		}
		return
	}
	open.Close()
}
