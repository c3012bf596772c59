package revision

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/plan/apply"
	"rlminit/service"
)

// setPatience is how long the answer to a Set waits for its revision. That goes on all the
// same.
const setPatience = 60 * time.Second

// Values gives profiles other variables and secrets.
type Values struct{ Revisions *Revisions }

// Set gives some profiles other variables and secrets: all of them, or none. It is a
// revision, which Rollback takes back, and which touches no process. What runs is
// restarted, if that is asked for, by an operation that begins when the revision is over.
//
//	one profile would have a fault       nothing is touched
//	the disk fails, the container ends   the revision is undone: all have the old values
//	the supervisor is replaced           its successor ends the revision, and nobody is
//	                                     restarted
//	a gateway fails with the new values  the operation stops there; all have the new values
//	                                     at their next start, until Rollback
//	the same Set again                   no revision; those are restarted that still run
//	                                     with old values
//	of one profile by its name, while    it waits for the end of other sets; beside an apply
//	another revision is under way        or a rollback it is a change by hand, and no revision
func (v Values) Set(ctx context.Context, ask control.SetProfiles, by control.Actor) (answer control.SetAnswer, err error) {
	answer = control.SetAnswer{Profiles: []string{}, Changed: []string{}, Outdated: []control.OutdatedProfile{}}
	if len(ask.Environment)+len(ask.Secrets) == 0 && !ask.Restart {
		return answer, control.BadRequest("nothing is to be set; write KEY=VALUE or --secret NAME=FILE, or --restart for what is outdated")
	}
	for name, value := range ask.Secrets {
		if fault := service.CheckSecret(name); fault != "" || len(value) > service.MaxSecret {
			return answer, control.BadRequest("the secret %q %s", name, cmp.Or(fault, fmt.Sprintf("is longer than %d bytes", service.MaxSecret)))
		}
	}
	if answer.Profiles, err = v.meant(ask); err != nil {
		return answer, err
	}
	if answer.Revision, answer.Changed, answer.Plan, err = v.begin(ctx, ask, answer.Profiles, by); err != nil || ask.DryRun {
		return answer, err
	}
	if answer.Revision != 0 {
		if err := v.await(ctx, answer.Revision); err != nil {
			return answer, err
		}
	}
	var down []string
	answer.Outdated, down, err = v.outdated(answer.Profiles)
	names := down // which must be up before another is taken down
	for _, o := range answer.Outdated {
		if !slices.Contains(down, o.Name) {
			names = append(names, o.Name)
		}
	}
	if err != nil || len(names) == 0 || !ask.Restart {
		return answer, err
	}
	how := Restart{Rolling: cmp.Or(ask.Rolling, len(names)), Steady: milliseconds(ask.SteadyMS), Actor: by}
	answer.Operation, err = v.Revisions.box.Restart(ctx, names, how)
	return answer, err
}

// single tells whether one profile is named, by its full name.
func single(ask control.SetProfiles) bool {
	return ask.Kind == "" && len(ask.Names) == 1 && !control.IsSet(ask.Names[0])
}

// meant are the profiles that are to have the values. Of one that is named nobody looks at
// the others.
func (v Values) meant(ask control.SetProfiles) ([]string, error) {
	if single(ask) {
		for _, name := range []string{ask.Names[0], strings.TrimPrefix(ask.Names[0], service.GatewayPrefix)} {
			if _, err := v.Revisions.box.Profile(name); err == nil && !plan.IsConfiguration(name) {
				return []string{name}, nil
			}
		}
	}
	return v.Revisions.box.Meant(ask.Names, ask.Kind)
}

// begin begins the revision, if anything is to be changed; 0: nothing is, or it was changed
// by hand. With a dry run it is the text of a plan, which nobody can apply.
func (v Values) begin(ctx context.Context, ask control.SetProfiles, meant []string, by control.Actor) (number int, changed []string, text string, err error) {
	r := v.Revisions
	r.beginning.Lock()
	defer r.beginning.Unlock()
	alone := single(ask)
	if alone {
		r.outwait(ctx)
	}
	busy := r.idle()
	if busy != nil && !alone {
		return 0, nil, "", busy
	}
	s, err := r.set(ask, meant)
	switch {
	case err != nil:
		return 0, nil, "", err
	case ask.DryRun:
		text, err = s.text()
		return 0, s.changed, text, err
	case len(s.doc.Steps) == 0:
		return 0, s.changed, "", nil
	case busy != nil:
		k := s.doc.Steps[0]
		return 0, s.changed, "", r.box.Put(ctx, k.Name, *k.After, Put{Quiet: true, Actor: by.UID})
	}
	begun, err := r.start(s.doc, apply.RecordedBegun{UID: by.UID, Source: s.source(), Request: rand.Text(), Single: alone, Quiet: true}, control.Gating{})
	return begun.Revision, s.changed, "", err
}

// set looks at the profiles that are meant, and decides the changes.
func (r *Revisions) set(ask control.SetProfiles, meant []string) (s *setting, err error) {
	doc := &Document{Scope: plan.Values, Quiet: true, Salt: rand.Text(), Declared: map[string]plan.Profile{}}
	s = &setting{r: r, ask: ask, doc: doc, changed: []string{}}
	var decided decided
	if single(ask) { // which drifts as by any other change by hand
		s.is, err = r.surveyOf(meant[0], doc.Salt)
	} else if s.is, err = r.survey(plan.Profiles, doc.Salt, false); err == nil {
		decided, err = r.applied()
	}
	if err != nil {
		return s, err
	}
	for _, name := range meant {
		if err := s.add(name, decided); err != nil {
			return s, err
		}
	}
	if n := len(s.faults); n > 0 {
		said := strings.Join(s.faults[:min(n, mostFaults)], "; ")
		if n > mostFaults {
			said += fmt.Sprintf("; and so on of %d more", n-mostFaults)
		}
		return s, control.BadRequest("nothing was touched: %s", said)
	}
	return s, nil
}

// setsPatience is how long a set of one profile waits for other sets.
const setsPatience = 5 * time.Second

// outwait waits for the end of the set that is under way.
func (r *Revisions) outwait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, setsPatience)
	defer cancel()
	for ctx.Err() == nil {
		_, changed := r.progress.seen()
		quiet := false
		r.journal.View(func(f *apply.Fold) {
			k := f.Open()
			quiet = k != nil && k.Begun.Quiet
		})
		if !quiet {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// mostFaults is the number of profiles whose faults are told.
const mostFaults = 3

// setting is a Set in the making.
type setting struct {
	r   *Revisions
	ask control.SetProfiles
	is  survey

	doc     *Document
	changed []string
	faults  []string
}

// add has one profile changed, if it is not so already.
func (s *setting) add(name string, decided decided) error {
	f, there := s.is.found[name]
	if !there {
		return nil // it went this moment
	}
	after := Content{Text: f.Content.Text, State: f.Content.State, Secrets: maps.Clone(f.Content.Secrets)}
	if f.Unread != "" {
		s.faults = append(s.faults, name+": "+f.Unread)
		return nil
	}
	if len(s.ask.Environment) > 0 || len(s.ask.Secrets) > 0 {
		text, err := s.r.box.Other(f, s.ask.Environment)
		if err != nil {
			s.faults = append(s.faults, fmt.Sprintf("%s: %v", name, strings.ReplaceAll(err.Error(), "\n", "; ")))
			return nil
		}
		if len(s.ask.Environment) > 0 {
			after.Text = text
		}
	}
	if len(s.ask.Secrets) > 0 {
		if after.Secrets == nil {
			after.Secrets = map[string]string{}
		}
		for key, value := range s.ask.Secrets {
			if _, has := after.Secrets[key]; has || !s.ask.OnlyPresent {
				after.Secrets[key] = value
			}
		}
	}
	if bytes.Equal(f.Content.Text, after.Text) && maps.Equal(f.Content.Secrets, after.Secrets) {
		return nil
	}
	shape := present(Found{Name: name, Content: after}, s.doc.Salt).Profile
	after.State = service.IntentNone // a person may start and stop it meanwhile, and afterwards
	before := Content{Text: f.Content.Text, Secrets: f.Content.Secrets}
	is := map[string]plan.Present{name: s.is.present[name]}
	changes := plan.Compare(is, map[string]plan.Profile{name: shape}, nil, func(string) bool { return true })
	if len(changes) == 0 {
		return nil // the text alone is another: a variable that is unset was not there
	}
	c := changes[0] // of the one profile
	if !s.ask.Restart {
		c.Effect = plan.NoEffect
	}
	s.changed = append(s.changed, name)
	if was := decided.wanted[name].profile; was != nil { // its drift is still told
		shape.State = was.State
		s.doc.Declared[name] = shape
	}
	s.doc.Steps = append(s.doc.Steps, Kept{Name: name, Action: plan.Update, Before: &before, After: &after, Up: f.Up, change: c})
	return nil
}

// source are the keys that are set, without values.
func (s *setting) source() string {
	keys := slices.Sorted(maps.Keys(s.ask.Environment))
	keys = append(keys, slices.Sorted(maps.Keys(s.ask.Secrets))...)
	return "profile set " + strings.Join(keys, " ")
}

// text is the change as a plan.
func (s *setting) text() (string, error) {
	now, changes := s.r.now().UTC(), s.doc.changes()
	text, err := (&plan.Plan{
		Version: plan.Version, Created: now, Expires: now, Scope: plan.Values, Source: plan.Origin{File: s.source()},
		Base: s.r.base(s.is), Salt: s.doc.Salt, Changes: changes, Unchanged: []string{}, Summary: plan.Sum(changes, len(s.is.found)),
	}).Encode()
	if err != nil {
		return "", control.Failed("%v", err)
	}
	return string(text), nil
}

// await waits for the end of a Set's revision.
func (v Values) await(ctx context.Context, number int) error {
	ctx, cancel := context.WithTimeout(ctx, setPatience)
	defer cancel()
	for after := uint64(0); ; {
		is, err := v.Revisions.Get(ctx, number, after)
		switch {
		case err != nil:
			return err
		case is.Over() && is.State != control.RevisionApplied:
			return control.Failed("nothing was changed: %s", is.Reason)
		case is.Over():
			return nil
		case ctx.Err() != nil:
			return control.Failed("revision %d is still under way: %s; rlminit revisions tells its end", number, is.Held)
		}
		after = is.Version
	}
}

// outdated are those of some profiles that run with older values, and those that are to run
// and are not up.
func (v Values) outdated(names []string) (older []control.OutdatedProfile, down []string, err error) {
	older = []control.OutdatedProfile{}
	var all []Found
	if len(names) == 1 {
		var f Found
		if f, err = v.Revisions.box.Profile(names[0]); errors.Is(err, ErrGone) {
			return older, nil, nil
		}
		all = []Found{f}
	} else {
		all, err = v.Revisions.box.Profiles()
	}
	for _, f := range all {
		if !slices.Contains(names, f.Name) {
			continue
		}
		if f.Older != "" {
			older = append(older, control.OutdatedProfile{Name: f.Name, Why: f.Older})
		}
		if f.Down {
			down = append(down, f.Name)
		}
	}
	return older, down, err
}
