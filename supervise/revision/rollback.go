package revision

import (
	"fmt"
	"slices"
	"strings"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/plan/apply"
)

// Rollback begins to put back what was before the last revision, or after
// another one.
func (r *Revisions) Rollback(ask control.RollbackRequest, actor uint32) (control.Revision, error) {
	if again, ok := r.asked(ask.Request); ok {
		return again, nil
	}
	answer, err := r.beginRollback(ask, actor)
	if err != nil {
		return answer, r.refuse(err, "", ask.By, actor)
	}
	return answer, nil
}

func (r *Revisions) beginRollback(ask control.RollbackRequest, actor uint32) (answer control.Revision, err error) {
	r.beginning.Lock()
	defer r.beginning.Unlock()
	if err := r.idle(); err != nil {
		return answer, err
	}
	to, undone, err := r.between(ask.Revision)
	if err != nil {
		return answer, err
	}
	was, err := r.before(undone)
	contents, order, places := was.contents, was.order, was.places
	if err == nil && ask.Revision != nil {
		err = r.asApplied(to, contents)
	}
	if err != nil {
		return answer, err
	}
	salt := newSalt()
	scope := plan.Profiles
	if !slices.ContainsFunc(order, func(name string) bool { return !plan.IsConfiguration(name) }) {
		scope = plan.Configuration
	}
	s, err := r.survey(scope, salt, slices.ContainsFunc(order, plan.IsConfiguration))
	if err != nil {
		return answer, err
	}
	doc := &Document{Salt: salt, Declared: map[string]plan.Profile{}}
	var changes []plan.Change
	var left []string    // what became of profiles that it would take away
	var faults []string  // why profiles cannot be put back
	taken := r.box.Taken // by the configuration that there will be
	for _, name := range order {
		f, there := s.found[name]
		is, wanted := map[string]plan.Present{}, map[string]plan.Profile{}
		if there {
			is[name] = present(f, salt)
		}
		content := contents[name]
		if content == nil && !there && was.made[name] {
			left = append(left, r.whereabouts.leave(doc, name))
		}
		kept := Kept{Name: name, After: content}
		if content != nil && !plan.IsConfiguration(name) {
			why, err := r.takes(&kept, there, places[name])
			if err != nil {
				return answer, err
			}
			if why != "" {
				faults = append(faults, why)
			}
		}
		if content != nil {
			wanted[name] = present(Found{Name: name, Content: *content}, salt).Profile
			doc.Declared[name] = wanted[name]
		}
		for _, c := range plan.Compare(is, wanted, nil, func(string) bool { return true }) {
			k := kept
			k.Action = c.Action
			if there {
				k.Before, k.Up = &f.Content, f.Up
			}
			if c.Kind == plan.KindConfiguration {
				if taken, err = r.reconfigures(&k, &c, actor); err != nil {
					return answer, err
				}
			}
			changes, doc.Steps = append(changes, c), append(doc.Steps, k)
		}
	}
	faults = append(faults, takenOf(doc, taken)...)
	p := &plan.Plan{Changes: slices.Clone(changes)}
	for _, name := range doc.Gone {
		p.Changes = append(p.Changes, plan.Change{Kind: plan.KindProfile, Name: name})
	}
	settings := r.settings()
	switch {
	case len(faults) > 0:
		return answer, control.NewProblem(control.KindMoved, "nothing was touched: "+strings.Join(faults, "; "))
	case settings.Allow != nil && !p.MayApply(settings.Allow, actor):
		return answer, refused("uid %d may not roll this back: no rule of apply.allow covers all of its changes", actor)
	case len(p.Changes) == 0:
		return control.Revision{Revision: to, State: control.RevisionUnchanged, UID: actor, By: ask.By, Steps: []control.RevisionStep{}}, nil
	}
	begun := apply.RecordedBegun{UID: actor, By: ask.By, Source: fmt.Sprintf("rollback to %d", to), Request: ask.Request, Rollback: &to, Left: left}
	return r.start(doc, begun, changes, ask.Gating)
}

// reconfigures completes a step that puts back a configuration, and tells which names
// its services have.
func (r *Revisions) reconfigures(k *Kept, c *plan.Change, actor uint32) (taken func(name string) bool, err error) {
	if actor != 0 {
		return nil, refused("uid %d may not roll this back: the configuration is root's", actor)
	}
	if err := r.box.Replaceable(); err != nil {
		return nil, refused("%v", err)
	}
	effects, err := r.box.Preview(k.Name, k.After.Text)
	if err != nil {
		return nil, control.Conflict("the configuration from before is no longer one: %v", err)
	}
	if len(effects.Container) > 0 {
		return nil, refused("a rollback cannot bring this about: %s", strings.Join(effects.Container, "; "))
	}
	c.Touches(effects.Services)
	k.Services = r.box.Running(effects.Services)
	return effects.Taken, nil
}

// asApplied makes of contents, which are those before the revisions that are
// undone, those after the revision to: they differ where somebody has changed
// something by hand in between.
func (r *Revisions) asApplied(to int, contents map[string]*Content) error {
	var numbers []int
	r.ledger.View(func(f *apply.Fold) {
		for _, k := range f.Revisions {
			if k.State.Outcome == apply.Applied && k.Begun.Revision <= to {
				numbers = append(numbers, k.Begun.Revision)
			}
		}
	})
	known := map[string]bool{}
	for _, number := range slices.Backward(numbers) {
		if len(known) == len(contents) {
			return nil
		}
		doc, err := r.load(number)
		if err != nil {
			return control.Failed("cannot tell how it was after revision %d: %v", to, err)
		}
		for _, k := range doc.Steps {
			if _, meant := contents[k.Name]; meant && !known[k.Name] {
				known[k.Name], contents[k.Name] = true, k.After
			}
		}
		for _, name := range doc.Gone {
			if _, meant := contents[name]; meant && !known[name] {
				known[name], contents[name] = true, nil
			}
		}
	}
	return nil
}

// between is the revision to go back to, and those after it, the newest first.
func (r *Revisions) between(asked *int) (to int, undone []int, err error) {
	r.ledger.View(func(f *apply.Fold) {
		var applied []int
		for _, k := range f.Revisions {
			if k.State.Outcome == apply.Applied || k.State.Outcome == apply.Partly {
				applied = append(applied, k.Begun.Revision)
			}
		}
		if len(applied) == 0 {
			err = control.Conflict("nothing was applied yet, so there is nothing to roll back")
			return
		}
		if asked == nil {
			undone = applied[len(applied)-1:]
			if len(applied) > 1 {
				to = applied[len(applied)-2]
			}
			return
		}
		if to = *asked; to != 0 && !slices.Contains(applied, to) {
			err = control.NewProblem(control.KindNoSuchName, fmt.Sprintf("no revision %d was applied; rlminit revisions lists them", to))
			return
		}
		for _, n := range slices.Backward(applied) {
			if n > to {
				undone = append(undone, n)
			}
		}
	})
	return to, undone, err
}

// undoing is what some revisions have changed, as it was before the first of them.
type undoing struct {
	contents map[string]*Content // nil: there was none
	order    []string            // their names
	places   map[string]place    // where the directories are that they had
	made     map[string]bool     // whether they have left a profile there
}

// before is what the revisions have changed, which come newest first.
func (r *Revisions) before(undone []int) (was undoing, err error) {
	was = undoing{contents: map[string]*Content{}, made: map[string]bool{}}
	var docs []*Document
	for _, number := range undone {
		doc, err := r.load(number)
		if err != nil {
			return was, control.Failed("cannot roll revision %d back: %v", number, err)
		}
		for _, name := range doc.Gone {
			was.contents[name] = nil
			was.order = append(was.order, name)
		}
		for _, k := range doc.Steps {
			was.contents[k.Name] = k.Before
			was.order = append(was.order, k.Name)
		}
		docs = append(docs, doc)
	}
	for _, doc := range slices.Backward(docs) {
		came := r.came(doc)
		for i, k := range doc.Steps {
			if came[i] == apply.Passed {
				was.made[k.Name] = k.After != nil
			}
		}
		for _, name := range doc.Gone {
			was.made[name] = false
		}
	}
	if was.places, err = r.placed(docs); err != nil {
		return was, err
	}
	slices.Sort(was.order)
	was.order = slices.Compact(was.order)
	return was, nil
}
