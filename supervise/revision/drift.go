package revision

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"slices"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/plan/apply"
)

// applied is the state of one profile, or of the configuration, by a revision, and which.
type applied struct {
	revision int
	salt     string
	profile  *plan.Profile // nil: it was deleted
}

// Drift tells the differences from the applied state. A profile that is in nobody's
// scope does not drift.
func (r *Revisions) Drift() (control.Drift, error) {
	d := control.Drift{Changes: []control.Drifts{}}
	all, err := r.applied()
	if err != nil || all.last == 0 {
		return d, err
	}
	wanted, closed := all.wanted, all.closed
	d.Revision = all.last
	names := slices.Collect(maps.Keys(wanted))
	scope := plan.Profiles
	if closed == 0 && !slices.ContainsFunc(names, func(name string) bool { return !plan.IsConfiguration(name) }) {
		scope = plan.Configuration
	}
	s, err := r.survey(scope, "", slices.ContainsFunc(names, plan.IsConfiguration))
	if err != nil {
		return d, err
	}
	found := s.found
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		want, known := wanted[name]
		if !known && (closed == 0 || all.left[name]) {
			continue // no revision decides about it
		}
		if !known {
			want.revision = closed
		}
		is, was := map[string]plan.Present{}, map[string]plan.Profile{}
		if f, there := found[name]; there {
			is[name] = present(f, want.salt)
		}
		if want.profile != nil {
			was[name] = want.profile.Resealed(want.salt)
		}
		for _, c := range plan.Compare(is, was, nil, func(string) bool { return true }) {
			d.Changes = append(d.Changes, drifts(c, want.revision))
		}
	}
	return d, nil
}

func drifts(c plan.Change, revision int) control.Drifts {
	d := control.Drifts{Revision: revision, Name: c.Name, Action: c.Action, Reason: c.Reason, Fields: []control.DriftField{}}
	for _, f := range c.Fields {
		d.Fields = append(d.Fields, control.DriftField{Field: f.Field, Is: f.Old, Was: f.New})
	}
	return d
}

// decided is the state of each profile by the revisions in force, the newest
// counting.
type decided struct {
	wanted map[string]applied
	left   map[string]bool // what rollbacks have left that was renamed by hand
	closed int             // the revision that decided about all profiles: others are not to be there; 0: none did
	last   int             // the newest; 0: there is none
}

// applied is the applied state that was not rolled back since.
func (r *Revisions) applied() (d decided, err error) {
	var known []apply.RecordedBegun
	r.journal.View(func(f *apply.Fold) {
		for _, k := range f.Revisions {
			if k.State.Outcome == apply.Applied && !k.Begun.Single { // those are changes by hand
				known = append(known, k.Begun)
			}
		}
	})
	d = decided{wanted: map[string]applied{}, left: map[string]bool{}}
	to := math.MaxInt // those after it are rolled back
	for _, begun := range slices.Backward(known) {
		number := begun.Revision
		if d.last = max(d.last, number); number > to {
			continue
		}
		if begun.Rollback != nil {
			to = *begun.Rollback
		}
		doc, err := r.load(number)
		if errors.Is(err, fs.ErrNotExist) {
			return d, nil // it is too old to be kept, and so are those before it
		}
		if err != nil {
			return d, control.Failed("cannot tell what revision %d has applied: %v", number, err)
		}
		decide := func(name string, p *plan.Profile) {
			if _, known := d.wanted[name]; !known {
				d.wanted[name] = applied{revision: number, salt: doc.Salt, profile: p}
			}
		}
		for name, p := range doc.Declared {
			decide(name, &p)
		}
		for _, k := range doc.Steps {
			if k.After == nil {
				decide(k.Name, nil)
			}
		}
		for _, name := range doc.Gone {
			decide(name, nil)
		}
		for _, name := range doc.Left {
			d.left[name] = true
		}
		if doc.Scope == plan.Profiles || doc.Scope == plan.All {
			d.closed = number
			return d, nil
		}
	}
	return d, nil
}
