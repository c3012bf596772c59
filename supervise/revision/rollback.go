package revision

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/plan/apply"
	"rlminit/service"
)

// Rollback begins to put back the state before the last revision, or after
// another one.
func (r *Revisions) Rollback(ask control.RollbackRequest, actor uint32) (control.Revision, error) {
	if again, ok := r.asked(ask.Request); ok {
		return again, nil
	}
	answer, err := r.beginRollback(ask, actor)
	if err != nil && ask.DryRun {
		return answer, problemOf(err)
	}
	if err != nil {
		return answer, r.refuse(err, apply.TypeRefused, apply.RecordedRefusal{UID: actor, By: ask.By})
	}
	return answer, nil
}

func (r *Revisions) beginRollback(ask control.RollbackRequest, actor uint32) (answer control.Revision, err error) {
	r.beginning.Lock()
	defer r.beginning.Unlock()
	if err := r.idle(); err != nil {
		return answer, err
	}
	v, err := r.reverse(ask.Revision, actor)
	if err != nil {
		return answer, err
	}
	v.keepSecrets = ask.KeepSecrets
	for _, name := range v.was.order {
		if err := v.add(name); err != nil {
			return answer, err
		}
	}
	return v.begin(ask)
}

// reversal is a rollback in the making.
type reversal struct {
	r     *Revisions
	actor uint32
	to    int
	// single: all that it undoes is single
	single bool

	keepSecrets bool // secrets stay as they are
	was         undoing
	scope       plan.Scope
	is          survey

	doc    *Document
	left   []string               // what became of profiles that it would take away
	faults []string               // why profiles cannot be put back
	taken  func(name string) bool // by the configuration that there will be
}

// reverse looks at what revisions have changed, and at what there is. asked is the
// revision to go back to; nil: the last one is undone.
func (r *Revisions) reverse(asked *int, actor uint32) (*reversal, error) {
	to, undone, single, err := r.between(asked)
	if err != nil {
		return nil, err
	}
	was, err := r.before(undone)
	if err == nil && asked != nil {
		err = r.asApplied(to, was.contents)
	}
	if err != nil {
		return nil, err
	}
	v := &reversal{
		r: r, actor: actor, to: to, single: single, was: was, scope: plan.Profiles, taken: r.box.Taken,
		doc: &Document{Salt: rand.Text(), Declared: map[string]plan.Profile{}},
	}
	v.left = was.left
	configures := slices.ContainsFunc(was.order, plan.IsConfiguration)
	if !slices.ContainsFunc(was.order, func(name string) bool { return !plan.IsConfiguration(name) }) {
		v.scope = plan.Configuration
	}
	v.is, err = r.survey(v.scope, v.doc.Salt, configures)
	return v, err
}

// add puts one profile, or the configuration, back: a step if it is not so already.
func (v *reversal) add(name string) error {
	f, there := v.is.found[name]
	content := v.was.contents[name]
	if content == nil && !there && v.was.made[name] {
		v.left = append(v.left, v.r.whereabouts.leave(v.doc, name))
	}
	kept := Kept{Name: name, After: content}
	is, wanted := map[string]plan.Present{}, map[string]plan.Profile{}
	if there && content != nil && content.State == service.IntentNone {
		content = &Content{Text: content.Text, State: f.Content.State, Secrets: content.Secrets, Forgotten: content.Forgotten}
	}
	if there {
		is[name] = present(f, v.doc.Salt)
		kept.Before, kept.Up = &f.Content, f.Up
	}
	if content != nil {
		if !plan.IsConfiguration(name) {
			var err error
			if content, err = v.profile(&kept, content, f, there); err != nil {
				return err
			}
		}
		kept.After = content
		wanted[name] = present(Found{Name: name, Content: *content}, v.doc.Salt).Profile
		v.doc.Declared[name] = wanted[name]
	}
	for _, c := range plan.Compare(is, wanted, nil, func(string) bool { return true }) {
		k := kept
		k.Action = c.Action
		if c.Kind == plan.KindConfiguration {
			var err error
			if v.taken, err = v.r.reconfigures(&k, &c, v.actor); err != nil {
				return err
			}
		}
		k.change = c
		v.doc.Steps = append(v.doc.Steps, k)
	}
	return nil
}

// profile completes a step that puts back a profile: where its directory comes from, and
// which secrets it is to have.
func (v *reversal) profile(kept *Kept, content *Content, f Found, there bool) (*Content, error) {
	why, err := v.r.takes(kept, there, v.was.origins[kept.Name])
	if err != nil {
		return nil, err
	}
	if why != "" {
		v.faults = append(v.faults, why)
	}
	now := kept.Was
	if there {
		now = &f.Content
	}
	if v.keepSecrets {
		as := &Content{Text: content.Text, State: content.State}
		if now != nil {
			as.Secrets = now.Secrets
		}
		return as, nil
	}
	if why := forgotten(kept.Name, content); why != "" {
		v.faults = append(v.faults, why)
	}
	if there {
		kept.Secrets = broughtBack(content, now)
	} else {
		kept.Secrets = broughtBack(content, nil)
	}
	return content, nil
}

// begin begins the rollback, or tells its changes, or why it may not be.
func (v *reversal) begin(ask control.RollbackRequest) (answer control.Revision, err error) {
	faults := append(v.faults, takenOf(v.doc, v.taken)...)
	p := &plan.Plan{Changes: v.doc.changes()}
	for _, name := range v.doc.Gone {
		p.Changes = append(p.Changes, plan.Change{Kind: plan.KindProfile, Name: name})
	}
	answer = control.Revision{Revision: v.to, State: control.RevisionUnchanged, UID: v.actor, By: ask.By, Steps: []control.RevisionStep{}}
	settings := v.r.settings()
	switch {
	case len(faults) > 0:
		return answer, control.NewProblem(control.KindMoved, "nothing was touched: "+strings.Join(faults, "; "))
	case settings.Allow != nil && !p.MayApply(settings.Allow, v.actor):
		return answer, refused("uid %d may not roll this back: no rule of apply.allow covers all of its changes", v.actor)
	case ask.DryRun:
		answer.State, answer.Left = control.RevisionPlanned, v.left
		answer.Plan, err = v.text()
		return answer, err
	case len(p.Deletes()) > 0 && !ask.AllowDelete:
		return answer, control.NewProblem(control.KindDeletion, fmt.Sprintf(
			"nothing was touched: the rollback deletes %s; write --allow-delete if that is meant", strings.Join(p.Deletes(), ", ")))
	case len(p.Changes) == 0:
		return answer, nil
	}
	return v.r.start(v.doc, apply.RecordedBegun{
		UID: v.actor, By: ask.By, Source: v.source(), Request: ask.Request, Rollback: &v.to, Left: v.left, Single: v.single,
	}, ask.Gating)
}

func (v *reversal) source() string { return fmt.Sprintf("rollback to %d", v.to) }

// text is the rollback as a plan, which nobody can apply: it has expired.
func (v *reversal) text() (string, error) {
	now, changes := v.r.now().UTC(), v.doc.changes()
	text, err := (&plan.Plan{
		Version: plan.Version, Created: now, Expires: now, Scope: v.scope, Source: plan.Origin{File: v.source()},
		Base: v.r.base(v.is), Salt: v.doc.Salt, Changes: changes, Unchanged: []string{}, Summary: plan.Sum(changes, len(v.was.order)),
	}).Encode()
	if err != nil {
		return "", control.Failed("%v", err)
	}
	return string(text), nil
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
	r.journal.View(func(f *apply.Fold) {
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
		if names, faded := r.faded(number); faded {
			for _, name := range names {
				known[name] = true
			}
			continue
		}
		doc, err := r.load(number)
		if err != nil {
			return control.Failed("cannot tell how it was after revision %d: %v", to, err)
		}
		for _, k := range doc.Steps {
			if _, meant := contents[k.Name]; meant && !known[k.Name] {
				known[k.Name], contents[k.Name] = true, stated(k.After, contents[k.Name])
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

// stated is a content with the state of another one where it says none.
func stated(c, other *Content) *Content {
	if c == nil || other == nil || c.State != service.IntentNone {
		return c
	}
	return &Content{Text: c.Text, State: other.State, Secrets: c.Secrets, Forgotten: c.Forgotten}
}

// between is the revision to go back to, and those after it, the newest first. single: all
// of these are.
func (r *Revisions) between(asked *int) (to int, undone []int, single bool, err error) {
	single = true
	r.journal.View(func(f *apply.Fold) {
		var applied []int
		var last, newest int // of those that are not single
		for _, k := range f.Revisions {
			number := k.Begun.Revision
			in := k.State.Outcome == apply.Applied || k.State.Outcome == apply.Partly
			if in {
				applied = append(applied, number)
			}
			if !k.Begun.Single {
				if last = number; in {
					newest = number
				}
			}
		}
		switch {
		case len(applied) == 0:
			err = control.Conflict("nothing was applied yet, so there is nothing to roll back")
			return
		case asked == nil && newest == 0:
			err = control.Conflict("nothing but values of single profiles was changed; write the revision to go back to: %s; rlminit revisions lists them", numbered(applied))
			return
		case asked == nil && last != newest:
			err = control.NewProblem(control.KindExists, fmt.Sprintf(
				"nothing was touched: the last revision, %d, was rolled back already; write the revision to go back to: %s; rlminit revisions lists them",
				last, numbered(applied)))
			return
		case asked == nil:
			undone, single = []int{newest}, false
			if i := slices.Index(applied, newest); i > 0 {
				to = applied[i-1]
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
				single = single && f.Find(n).Begun.Single
			}
		}
	})
	return to, undone, single && len(undone) > 0, err
}

// mostNumbered is how many revisions a line names.
const mostNumbered = 10

// numbered is the newest of some revisions, for people, and the beginning.
func numbered(applied []int) string {
	names := []string{}
	for _, n := range slices.Backward(applied) {
		if len(names) == mostNumbered {
			return strings.Join(names, ", ") + " and older ones"
		}
		names = append(names, fmt.Sprint(n))
	}
	return strings.Join(names, ", ") + ", and 0 for before the first"
}

// undoing is what some revisions have changed, as it was before the first of them.
type undoing struct {
	contents map[string]*Content // nil: there was none
	order    []string            // their names
	origins  map[string]origin   // where the directories are that they had
	made     map[string]bool     // whether they have left a profile there
	left     []string            // what cannot be undone, for people
}

// faded tells whether the contents of a single revision are kept no longer, so that no
// rollback takes it back, and the profile that it was of.
func (r *Revisions) faded(number int) (names []string, faded bool) {
	r.journal.View(func(f *apply.Fold) {
		k := f.Find(number)
		if faded = k != nil && k.Begun.Single && !f.Newest(kept)[number]; faded {
			for _, p := range k.Begun.Steps {
				names = append(names, p.Name)
			}
		}
	})
	return names, faded
}

// before is the state before the revisions, which come newest first.
func (r *Revisions) before(undone []int) (was undoing, err error) {
	was = undoing{contents: map[string]*Content{}, made: map[string]bool{}}
	var docs []*Document
	for _, number := range undone {
		if names, faded := r.faded(number); faded {
			was.left = append(was.left, fmt.Sprintf("%s keeps the values that revision %d gave it: those of before are kept no longer", strings.Join(names, " "), number))
			continue
		}
		doc, err := r.load(number)
		if err != nil {
			return was, control.Failed("cannot roll revision %d back: %v", number, err)
		}
		for _, name := range doc.Gone {
			was.contents[name] = nil
			was.order = append(was.order, name)
		}
		for _, k := range doc.Steps {
			was.contents[k.Name] = stated(k.Before, was.contents[k.Name])
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
	if was.origins, err = r.origins(docs); err != nil {
		return was, err
	}
	slices.Sort(was.order)
	was.order = slices.Compact(was.order)
	return was, nil
}
