package revision

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/plan/apply"
	"rlminit/profiles"
	"rlminit/service"
)

// defaultTimeout is the time for a gate where the caller gives none.
const defaultTimeout = 120 * time.Second

// Apply begins to carry a plan out, or says why not; then nothing was touched,
// and that is recorded. Asked twice by the same request, it begins once.
func (r *Revisions) Apply(ask control.ApplyRequest, actor uint32) (control.Revision, error) {
	if again, ok := r.asked(ask.Request); ok {
		return again, nil
	}
	if err := (Proposals{r}).complete(&ask); err != nil {
		return control.Revision{}, problemOf(err)
	}
	hash := ""
	if p, err := plan.Read([]byte(ask.Plan)); err == nil {
		hash = p.Hash
	}
	answer, err := r.begin(ask, hash, actor)
	if err != nil {
		return answer, r.refuse(err, apply.TypeRefused, apply.RecordedRefusal{Hash: hash, UID: actor, By: ask.By})
	}
	r.proposed.drop(hash)
	return answer, nil
}

// refuse records why nothing was touched, or planned: what says of what, and whose it was.
func (r *Revisions) refuse(err error, kind string, what apply.RecordedRefusal) error {
	problem := problemOf(err)
	what.ExitCode, what.Reason = problem.ExitCode, problem.Detail
	if reason, _, more := strings.Cut(problem.Detail, "\n"); more && kind == apply.TypePlanRefused {
		what.Reason = reason + " …"
	}
	if err := r.journal.Record(kind, what); err != nil {
		slog.Warn("cannot record what was refused", "err", err)
	}
	if kind == apply.TypeRefused {
		slog.Warn("an apply was refused", "uid", what.UID, "by", what.By, "why", problem.Detail)
	}
	return problem
}

// Plan says what would bring a declared set about, or why there is no plan, which
// is recorded.
func (r *Revisions) Plan(ask control.PlanRequest, actor uint32) (control.Planned, error) {
	planned, err := r.plan(ask, actor)
	if err != nil {
		err = r.refuse(err, apply.TypePlanRefused, apply.RecordedRefusal{Source: ask.File, UID: actor})
	}
	return planned, err
}

// asked finds the revision of a request that was made before: its answer was
// cut off.
func (r *Revisions) asked(request string) (answer control.Revision, ok bool) {
	if request == "" {
		return answer, false
	}
	version, _ := r.progress.seen()
	r.journal.View(func(f *apply.Fold) {
		i := slices.IndexFunc(f.Revisions, func(k apply.Known) bool { return k.Begun.Request == request })
		if ok = i >= 0; ok {
			answer = r.describe(f.Revisions[i], version)
		}
	})
	list := []control.Revision{answer}
	r.locate(list)
	return list[0], ok
}

// begin makes sure of everything, and begins a revision. hash is the plan's.
func (r *Revisions) begin(ask control.ApplyRequest, hash string, actor uint32) (answer control.Revision, err error) {
	p, err := plan.Verify([]byte(ask.Plan), ask.Approve)
	if err != nil {
		return answer, err
	}
	r.beginning.Lock()
	defer r.beginning.Unlock()
	if err := r.allowed(p, ask, actor); err != nil {
		return answer, err
	}
	if ask.Unread != "" {
		return answer, control.NewProblem(control.KindNotApproved, ask.Unread)
	}
	s, err := r.survey(p.Scope, p.Salt, p.Configures())
	if err != nil {
		return answer, err
	}
	if base := r.base(s); base != p.Base {
		return answer, moved(base, p.Base)
	}
	if p.Empty() {
		return control.Revision{Revision: p.Base.Revision, State: control.RevisionUnchanged, Hash: hash, UID: actor, By: ask.By, Steps: []control.RevisionStep{}}, nil
	}
	doc, err := r.document(p, ask, s)
	if err != nil {
		return answer, err
	}
	begun := apply.RecordedBegun{Hash: hash, UID: actor, By: ask.By, Source: cmp.Or(p.Source.Revision, p.Source.File), Request: ask.Request}
	return r.start(doc, begun, ask.Gating)
}

// document is the file of a revision that carries out a plan.
func (r *Revisions) document(p *plan.Plan, ask control.ApplyRequest, s survey) (doc *Document, err error) {
	doc = &Document{Plan: ask.Plan, Scope: p.Scope, Salt: p.Salt, Declared: map[string]plan.Profile{}}
	for _, name := range p.Unchanged {
		doc.Declared[name] = s.present[name].Profile
	}
	taken, ports := r.box.Taken, r.box.Ports // of the configuration that there will be
	for _, c := range p.Changes {
		k := Kept{Name: c.Name, Action: c.Action, change: c}
		if f, ok := s.found[c.Name]; ok {
			if f.Unread != "" { // a rollback's needs are not known
				return nil, control.Conflict("nothing was touched: %s: %s", c.Name, f.Unread)
			}
			k.Before, k.Up = &f.Content, f.Up
		}
		if c.Kind == plan.KindConfiguration {
			effects, err := configure(r.box, doc, &k, c, p.Salt, ask.Secrets[c.Name])
			if err != nil {
				return nil, err
			}
			taken, ports = effects.Taken, effects.Ports
		} else if c.After != nil {
			if k.After, err = unsealed(c, p.Salt, ask.Secrets[c.Name], k.Before); err != nil {
				return nil, err
			}
			sealed := map[string]string{}
			for _, s := range c.After.Sealed {
				sealed[s.Place] = s.Digest
			}
			doc.Declared[c.Name] = plan.Profile{State: c.After.State, Definition: c.After.Definition, Sealed: sealed}
		}
		doc.Steps = append(doc.Steps, k)
	}
	if taken := takenOf(doc, taken); len(taken) > 0 {
		return nil, control.NewProblem(control.KindMoved, "the plan does not fit what there is: "+strings.Join(taken, "; ")+"; then make it again with rlminit plan")
	}
	if err := ports(kindsOf(p.Changes)); err != nil {
		return nil, err
	}
	return doc, nil
}

// kindsOf are the kinds of the profiles that a plan creates, by name.
func kindsOf(changes []plan.Change) map[string]string {
	kinds := map[string]string{}
	for _, c := range changes {
		if c.Kind != plan.KindConfiguration && c.Action == plan.Create && c.After != nil {
			kinds[c.Name], _ = c.After.Definition["kind"].(string)
		}
	}
	return kinds
}

// configure completes the step that changes the configuration. It must touch
// the approved services.
func configure(box Box, doc *Document, k *Kept, c plan.Change, salt string, values map[string]string) (effects Effects, err error) {
	text, ok := values[plan.ConfigurationText]
	if !ok || plan.Digest(salt, plan.ConfigurationText, text) != c.After.Sealed[0].Digest {
		return effects, control.NewProblem(control.KindNotApproved, fmt.Sprintf("%s is not the configuration that was approved; make the plan again", c.After.Sealed[0].File))
	}
	if effects, err = box.Preview(c.After.Sealed[0].File, []byte(text)); err != nil {
		return effects, err
	}
	if !slices.Equal(effects.Services, c.Services) {
		return effects, control.NewProblem(control.KindMoved, "the plan does not fit what there is: the configuration touches other services by now; make it again with rlminit plan")
	}
	k.After = &Content{Text: []byte(text)}
	k.Services = box.Running(c.Services)
	doc.Declared[c.Name] = plan.ShapeConfiguration(salt, k.After.Text)
	return effects, nil
}

// takenOf names the steps that can make no profile, for services have their names.
func takenOf(doc *Document, taken func(name string) bool) (why []string) {
	for _, k := range doc.Steps {
		if k.After != nil && !plan.IsConfiguration(k.Name) && taken(k.Name) {
			why = append(why, fmt.Sprintf("there can be no profile %s, for the configuration has a service %s: give that another name, or take it out, and rlminit reload", k.Name, k.Name))
		}
	}
	return why
}

// allowed judges everything of a plan but its starting point.
func (r *Revisions) allowed(p *plan.Plan, ask control.ApplyRequest, actor uint32) error {
	settings := r.settings()
	switch {
	case p.Configures() && actor != 0:
		return refused("uid %d may not apply this: the configuration is root's", actor)
	case settings.Allow != nil && !p.MayApply(settings.Allow, actor):
		return refused("uid %d may not apply this: no rule of apply.allow covers all of its changes", actor)
	case settings.Allow == nil && actor != 0 && actor != settings.User && actor != settings.Page:
		return refused("uid %d may not apply plans", actor)
	case p.Allow != nil && !p.MayApply(p.Allow, actor):
		return refused("uid %d may not apply this: it was not allowed when the plan was made", actor)
	case r.now().After(p.Expires):
		return control.NewProblem(control.KindExpired, fmt.Sprintf(
			"the plan is too old: it was good until %s; make it again with rlminit plan", p.Expires.Format(time.RFC3339)))
	case len(p.Deletes()) > 0 && !ask.AllowDelete:
		return control.NewProblem(control.KindDeletion, fmt.Sprintf(
			"the plan deletes %s; write --allow-delete if that is meant", strings.Join(p.Deletes(), ", ")))
	}
	return r.idle()
}

// idle is a problem while a revision is under way.
func (r *Revisions) idle() (err error) {
	r.journal.View(func(f *apply.Fold) {
		if k := f.Open(); k != nil {
			err = control.NewProblem(control.KindMoved, fmt.Sprintf("revision %d is being applied; wait for its end: rlminit revisions", k.Begun.Revision))
		}
	})
	return err
}

func moved(is, was plan.Base) error {
	why := "profiles were changed since"
	switch {
	case is.Volume != was.Volume:
		why = "it was made for another volume"
	case is.Revision != was.Revision:
		why = fmt.Sprintf("it starts from revision %d, and %d was applied since", was.Revision, is.Revision)
	}
	return control.NewProblem(control.KindMoved, "the plan does not fit what there is: "+why+"; make it again with rlminit plan")
}

// unsealed is a profile's target, its secrets put back. Each must have the
// digest that was approved.
func unsealed(c plan.Change, salt string, values map[string]string, before *Content) (*Content, error) {
	if c.Action == plan.Start || c.Action == plan.Stop {
		after := *before
		after.State = c.After.State
		return &after, nil
	}
	known := map[string]string{}
	for _, s := range c.After.Sealed {
		value, ok := values[s.Place]
		switch {
		case !ok:
			return nil, control.NewProblem(control.KindNotApproved, fmt.Sprintf("the value of %s of %s did not come with the plan", s.Place, c.Name))
		case plan.Digest(salt, s.Place, value) != s.Digest:
			return nil, control.NewProblem(control.KindNotApproved, fmt.Sprintf("%s of %s has another value than the one that was approved; make the plan again", s.Place, c.Name))
		}
		known[s.Place] = value
	}
	t, secrets, err := plan.Unseal(c.After.Definition, known)
	if err != nil {
		return nil, control.NewProblem(control.KindNotApproved, fmt.Sprintf("%s: %v", c.Name, err))
	}
	text, err := plan.Text(t)
	if err != nil {
		return nil, err
	}
	return &Content{Text: text, State: c.After.State, Secrets: secrets}, nil
}

// waveOf is when a change is carried out: APPLY.md.
func waveOf(c plan.Change) int {
	switch {
	case c.Kind == plan.KindConfiguration:
		return 0
	case c.Action == plan.Delete:
		return 4
	case c.Effect == plan.Stops:
		return 3
	case c.Effect == plan.Restarts:
		return 2
	}
	return 1
}

// start writes a revision down and begins it. The caller holds r.beginning.
func (r *Revisions) start(doc *Document, begun apply.RecordedBegun, g control.Gating) (control.Revision, error) {
	r.journal.View(func(f *apply.Fold) { begun.Revision = f.Last() + 1 })
	doc.Revision = begun.Revision
	waves := make([]int, len(doc.Steps))
	for i := range doc.Steps {
		k := &doc.Steps[i]
		c := k.change
		waves[i] = waveOf(c)
		switch {
		case k.From != "": // and to there it goes back
			k.Trash, k.Note = k.From, "out of the trash, where it was "+k.From
		case c.Action == plan.Create:
			k.Trash = profiles.RevisionEntry(c.Name, begun.Revision)
		case c.Action == plan.Delete:
			k.Trash = profiles.RevisionEntry(c.Name, begun.Revision)
			k.Note = "in the trash as " + k.Trash
		}
		begun.Steps = append(begun.Steps, apply.Planned{Name: c.Name, Action: c.Action, Wave: waves[i], Note: k.Note, Secrets: k.Secrets})
	}
	begun.Rolling, begun.SteadyMS, begun.TimeoutMS, begun.DeadlineMS = max(g.Rolling, 1), g.SteadyMS, g.TimeoutMS, g.DeadlineMS
	if begun.TimeoutMS <= 0 {
		begun.TimeoutMS = defaultTimeout.Milliseconds()
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return control.Revision{}, control.Failed("cannot write the revision: %v", err)
	}
	if err = r.archive.Save(begun.Revision, b); err == nil {
		err = r.journal.Record(apply.TypeBegun, begun)
	}
	if err != nil {
		problem := control.Failed("nothing was touched: %v", err)
		problem.Retryable = temporary(err)
		return control.Revision{}, problem
	}
	slog.Info("a revision begins", "revision", begun.Revision, "uid", begun.UID, "by", begun.By, "changes", len(doc.Steps))
	r.archive.Keep(r.newest())
	c := r.carry(doc, begun, apply.New(waves, begun.Rolling))
	go c.run(apply.Event{Kind: apply.Go})
	answer, ok := r.asked(begun.Request)
	if !ok {
		answer = control.Revision{Revision: begun.Revision, State: control.RevisionRunning, Steps: []control.RevisionStep{}}
	}
	return answer, nil
}

// sameState tells whether two contents want the same to run, as far as both say it.
func sameState(a, b *Content) bool {
	return a.State == b.State || a.State == service.IntentNone || b.State == service.IntentNone
}

// sameContent tells whether two contents say the same.
func sameContent(a, b *Content) bool {
	if a == nil || b == nil {
		return a == b
	}
	return sameState(a, b) && bytes.Equal(a.Text, b.Text) && maps.Equal(a.Secrets, b.Secrets)
}
