package revision

import (
	"maps"
	"slices"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/plan/apply"
)

// applied is what one profile, or the configuration, was made, and by which revision.
type applied struct {
	revision int
	salt     string
	profile  *plan.Profile // nil: it was deleted
}

// Drift says what is not as it was applied. A profile that is in nobody's
// scope does not drift.
func (r *Revisions) Drift() (control.Drift, error) {
	d := control.Drift{Changes: []control.Drifts{}}
	wanted, closed, last, err := r.applied()
	if err != nil || last == 0 {
		return d, err
	}
	d.Revision = last
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
		if !known && closed == 0 {
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
			was[name] = *want.profile
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

// applied is what the revisions have made of each profile, the newest counting.
// closed is the revision that decided about all profiles, 0 if none did: what
// it does not know is not to be there.
func (r *Revisions) applied() (wanted map[string]applied, closed, last int, err error) {
	var numbers []int
	r.ledger.View(func(f *apply.Fold) {
		for _, k := range f.Revisions {
			if k.State.Outcome == apply.Applied {
				numbers = append(numbers, k.Begun.Revision)
			}
		}
	})
	wanted = map[string]applied{}
	for _, number := range slices.Backward(numbers) {
		doc, err := r.load(number)
		if err != nil {
			return nil, 0, 0, control.Failed("cannot tell what revision %d has applied: %v", number, err)
		}
		last = max(last, number)
		decide := func(name string, p *plan.Profile) {
			if _, known := wanted[name]; !known {
				wanted[name] = applied{revision: number, salt: doc.Salt, profile: p}
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
		if doc.Scope == plan.Profiles || doc.Scope == plan.All {
			return wanted, number, last, nil
		}
	}
	return wanted, 0, last, nil
}
