package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/plan/apply"
)

// Revisions is every revision of one volume. Its methods may be called by many
// at once.
type Revisions struct {
	box         Box
	journal     Recorder
	whereabouts whereabouts
	archive     Archive
	settings    func() Settings
	now         func() time.Time

	beginning sync.Mutex // held from the look at what there is until a revision has begun

	retries retries

	progress progress
	proposed proposals
}

// New is the revisions that the journal has.
func New(box Box, journal Recorder, archive Archive, settings func() Settings) *Revisions {
	r := &Revisions{
		box: box, journal: journal, archive: archive, whereabouts: whereabouts{journal}, settings: settings, now: time.Now,
		proposed: proposals{archive: archive},
		retries:  retries{stopped: make(chan struct{})},
		progress: progress{version: 1, changed: make(chan struct{}), held: map[int]string{}},
	}
	r.retries.revisions = r
	return r
}

// Rewind finishes, before anything is started, what another start of the
// container left behind: see APPLY.md. It returns when that is done.
func (r *Revisions) Rewind() {
	if r.retries.unfinished() != 0 {
		r.retries.reopen()
	}
	if c := r.takeOver(); c != nil {
		c.cold = true
		c.run(apply.Event{Kind: apply.BootAgain})
	}
}

// Resume goes on with the revision that a predecessor of this start of the container left, and with
// what Rewind could not put back.
func (r *Revisions) Resume() {
	if c := r.takeOver(); c != nil {
		slog.Info("going on with a revision", "revision", c.doc.Revision)
		go c.run(apply.Event{Kind: apply.Go})
	}
	r.retries.begin()
}

// takeOver is a carrier of the revision that has not ended, or nil.
func (r *Revisions) takeOver() *carrier {
	var open *apply.Known
	r.journal.View(func(f *apply.Fold) {
		if k := f.Open(); k != nil {
			copied := *k // with steps of its own: the fold goes on
			copied.State.Steps = slices.Clone(k.State.Steps)
			open = &copied
		}
	})
	if open == nil {
		return nil
	}
	doc, err := r.load(open.Begun.Revision)
	if err != nil || len(doc.Steps) != len(open.State.Steps) {
		// Nothing can be put back without its former content.
		slog.Error("cannot finish a revision: what it was to change cannot be read; look at rlminit revisions", "revision", open.Begun.Revision, "err", err)
		if err := r.journal.Record(apply.TypeEnded, apply.RecordedEnd{Revision: open.Begun.Revision, Outcome: apply.Partly}); err != nil {
			slog.Error("cannot record the end of a revision", "err", err)
		}
		return nil
	}
	return r.carry(doc, open.Begun, open.State.Restart(open.Begun.Rolling))
}

func (r *Revisions) load(number int) (*Document, error) {
	b, err := r.archive.Load(number)
	if err != nil {
		return nil, err
	}
	doc := &Document{}
	if err := json.Unmarshal(b, doc); err != nil {
		return nil, fmt.Errorf("cannot read revision %d: %w", number, err)
	}
	return doc, nil
}

// List is every revision that is remembered, the oldest first.
func (r *Revisions) List() []control.Revision {
	version, _ := r.progress.seen()
	list := []control.Revision{}
	r.journal.View(func(f *apply.Fold) {
		for _, k := range f.Revisions {
			list = append(list, r.describe(k, version))
		}
	})
	r.locate(list)
	return list
}

// newest are the revisions whose contents are kept.
func (r *Revisions) newest() (numbers map[int]bool) {
	r.journal.View(func(f *apply.Fold) { numbers = f.Newest(kept) })
	return numbers
}

// locate says where the contents of revisions lie.
func (r *Revisions) locate(list []control.Revision) {
	newest := r.newest()
	for i := range list {
		if newest[list[i].Revision] {
			list[i].StatePath = r.archive.Path(list[i].Revision)
		}
	}
}

// Get is one of them, when it is newer than a version or has ended, or ctx has.
func (r *Revisions) Get(ctx context.Context, number int, after uint64) (control.Revision, error) {
	for {
		version, changed := r.progress.seen()
		var found *control.Revision
		r.journal.View(func(f *apply.Fold) {
			if k := f.Find(number); k != nil {
				d := r.describe(*k, version)
				found = &d
			}
		})
		if found == nil {
			return control.Revision{}, control.NewProblem(control.KindNoSuchName, fmt.Sprintf("no revision %d; rlminit revisions lists them", number))
		}
		if found.Over() || version != after || ctx.Err() != nil {
			list := []control.Revision{*found}
			r.locate(list)
			return list[0], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// describe is a revision as it is shown.
func (r *Revisions) describe(k apply.Known, version uint64) control.Revision {
	at, _ := time.Parse(time.RFC3339Nano, k.At)
	v := control.Revision{
		Revision: k.Begun.Revision, State: stateOf(k.State), At: at, UID: k.Begun.UID, By: k.Begun.By, Source: k.Begun.Source,
		Hash: k.Begun.Hash, Rollback: k.Begun.Rollback, Cause: string(k.State.Turned), Reason: k.State.Reason,
		ExitCode: exitOf(k.State), Single: k.Begun.Single, Version: version, Left: k.Begun.Left, Steps: []control.RevisionStep{},
	}
	if ended, err := time.Parse(time.RFC3339Nano, k.Ended); err == nil {
		v.Ended = &ended
	}
	if !v.Over() {
		v.Held = r.progress.heldUp()
	}
	for i, p := range k.Begun.Steps {
		s := k.State.Steps[i]
		state := string(s.Place)
		if s.Place == apply.Waiting {
			state = "waiting"
		}
		v.Steps = append(v.Steps, control.RevisionStep{Name: p.Name, Action: p.Action, State: state, Reason: s.Reason, Note: p.Note, Secrets: p.Secrets})
	}
	return v
}

func stateOf(s apply.State) string {
	switch s.Outcome {
	case apply.Applied:
		return control.RevisionApplied
	case apply.RolledBack:
		return control.RevisionRolledBack
	case apply.Partly:
		return control.RevisionPartly
	}
	if s.Turned != apply.NoCause {
		return control.RevisionRollingBack
	}
	return control.RevisionRunning
}

func exitOf(s apply.State) int {
	switch {
	case s.Outcome == apply.Applied:
		return control.ExitApplied
	case s.Outcome == apply.Partly:
		return control.ExitPartly
	case s.Outcome == apply.RolledBack && s.Turned == apply.TimedOut:
		return control.ExitTimedOut
	case s.Outcome == apply.RolledBack:
		return control.ExitUnhealthy
	}
	return control.ExitDone
}

// problemOf is an error of package plan as a problem with its own exit code.
func problemOf(err error) *control.Problem {
	var problem *control.Problem
	switch {
	case errors.As(err, &problem):
		return problem
	case errors.Is(err, plan.ErrAltered), errors.Is(err, plan.ErrApproval):
		return control.NewProblem(control.KindNotApproved, err.Error())
	}
	return control.Failed("%v", err)
}
