package revision

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/plan"
	"rlminit/plan/apply"
)

// survey is what there is, as a plan sees it.
type survey struct {
	found   map[string]Found
	present map[string]plan.Present // in the scope
}

// survey looks at every profile in a scope, and at the configuration where that is
// to be decided about, secrets digested with a salt.
func (r *Revisions) survey(scope plan.Scope, salt string, configures bool) (s survey, err error) {
	s = survey{found: map[string]Found{}, present: map[string]plan.Present{}}
	if configures {
		f, err := r.box.Configuration()
		if err != nil {
			return s, err
		}
		s.found[f.Name], s.present[f.Name] = f, present(f, salt)
	}
	if !scope.Profiles() {
		return s, nil
	}
	list, err := r.box.Profiles()
	if err != nil {
		return s, err
	}
	for _, f := range list {
		if !scope.Profile(f.Name) {
			continue
		}
		s.found[f.Name] = f
		s.present[f.Name] = present(f, salt)
	}
	return s, nil
}

// surveyOf looks at one profile, which may be gone.
func (r *Revisions) surveyOf(name, salt string) (s survey, err error) {
	s = survey{found: map[string]Found{}, present: map[string]plan.Present{}}
	f, err := r.box.Profile(name)
	if errors.Is(err, ErrGone) {
		return s, nil
	}
	if err == nil {
		s.found[name], s.present[name] = f, present(f, salt)
	}
	return s, err
}

// present is a profile as a plan compares it.
func present(f Found, salt string) plan.Present {
	if plan.IsConfiguration(f.Name) {
		return plan.Present{Profile: plan.ShapeConfiguration(salt, f.Content.Text), Kept: f.Kept}
	}
	p := plan.Present{Fault: f.Fault, Astray: f.Astray, Kept: f.Kept}
	t, err := plan.ParseTree(f.Name+"/profile.yaml", f.Content.Text)
	if err != nil {
		t = plan.Tree{}
		if p.Fault == "" {
			p.Fault = "its profile.yaml cannot be read"
		}
	}
	p.Profile = plan.Shape(salt, f.Content.State, t, f.Content.Secrets)
	return p
}

// base is the starting point of a plan of a scope, now.
func (r *Revisions) base(s survey) plan.Base {
	b := plan.Base{Volume: r.journal.Volume(), Digest: plan.DigestOf(s.present)}
	r.journal.View(func(f *apply.Fold) { b.Revision = f.LastApplied() })
	return b
}

// plan makes one.
func (r *Revisions) plan(ask control.PlanRequest, actor uint32) (planned control.Planned, err error) {
	switch {
	case ask.Unclean != "":
		problem := control.BadRequest("%s", ask.Unclean)
		problem.ExitCode = control.ExitNotClean
		return planned, problem
	case ask.Unread != "":
		return planned, control.BadRequest("%s", ask.Unread)
	}
	declared, reading := plan.Parse(ask.File, ask.Dir, []byte(ask.Text))
	if faults := reading.Faults(); len(faults) > 0 {
		return planned, control.BadRequest("%v", faults)
	}
	scope, err := scopeOf(ask.Scope, declared)
	switch {
	case err != nil:
		return planned, err
	case len(ask.Salt) < 16:
		return planned, control.BadRequest("the salt is shorter than 16 characters")
	}
	configures := declared.Configuration != ""
	if configures {
		if err := r.mayConfigure(ask, actor); err != nil {
			return planned, err
		}
	}
	s, err := r.survey(scope, ask.Salt, configures)
	if err != nil {
		return planned, err
	}
	if kind, name, one := scope.Named(); one && kind == "profile" && len(s.present) == 0 && len(declared.Profiles) == 0 {
		return planned, refused("the scope %s fits nothing: there is no %s %s, and none is declared", scope, kind, name)
	}
	w, err := r.wants(ask, declared, s)
	if err != nil {
		return planned, err
	}
	p := r.compare(scope, s, w.profiles, w.files, w.restarts)
	if len(w.faults) > 0 {
		w.faults.Sort()
		return planned, control.BadRequest("%v", w.faults)
	}
	if err := touches(p, w.effects); err != nil {
		return planned, err
	}
	if err := w.ports(kindsOf(p.Changes)); err != nil {
		return planned, err
	}
	p.Salt = ask.Salt
	if ask.Propose {
		p.Expires = p.Created.Add(proposedFor)
	}
	sum := sha256.Sum256([]byte(ask.Text))
	p.Source = plan.Origin{
		File: sourceFile(ask), Digest: "sha256:" + hex.EncodeToString(sum[:]), Revision: ask.Revision, Clean: ask.Clean,
	}
	text, err := p.Encode()
	return control.Planned{Plan: string(text)}, err
}

// wants is the target of each name in a declared set.
type wants struct {
	profiles map[string]plan.Profile
	files    map[string]map[string]string // by name and place: where a secret is read from
	nodes    map[string]plan.Wanted
	effects  Effects // of the configuration, if one is declared
	judge    func(plan.Wanted) (restarts bool, faults error)
	ports    func(kinds map[string]string) error
	faults   document.Faults
}

func (r *Revisions) wants(ask control.PlanRequest, declared *plan.Declared, s survey) (w *wants, err error) {
	w = &wants{profiles: map[string]plan.Profile{}, files: map[string]map[string]string{}, nodes: map[string]plan.Wanted{}, judge: r.box.Judge, ports: r.box.Ports}
	for _, one := range declared.Profiles {
		shape, files := one.Shape(ask.Salt, ask.Digests[one.Name], ask.Mask[one.Name]...), map[string]string{}
		for name, source := range one.Secrets {
			files["secrets."+name] = source.File
		}
		for at, digest := range shape.Sealed {
			if digest == "" {
				return nil, control.BadRequest("%s: profiles.%s.%s: its file was not read", ask.File, one.Name, at)
			}
		}
		w.profiles[one.Name], w.files[one.Name], w.nodes[one.Name] = shape, files, one
	}
	if declared.Configuration == "" {
		return w, nil
	}
	path, text := r.configurationIn(s), []byte(*ask.Configuration)
	w.profiles[path] = plan.ShapeConfiguration(ask.Salt, text)
	w.files[path] = map[string]string{plan.ConfigurationText: declared.Configuration}
	if w.effects, err = r.box.Preview(declared.Configuration, text); err != nil {
		return nil, control.BadRequest("%v", err)
	}
	w.judge, w.ports = w.effects.Judge, w.effects.Ports
	return w, nil
}

// restarts tells whether a profile's process would have to be replaced, and notes what
// is wrong with the profile.
func (w *wants) restarts(name string) bool {
	restarts, err := w.judge(w.nodes[name])
	if err != nil {
		w.faults = append(w.faults, asFaults(err)...)
	}
	return restarts
}

// compare makes a plan for the targets, complete but for its source.
func (r *Revisions) compare(scope plan.Scope, s survey, wanted map[string]plan.Profile, files map[string]map[string]string, judge plan.Effects) *plan.Plan {
	now := r.now().UTC().Truncate(time.Second)
	p := &plan.Plan{
		Version: plan.Version, Created: now, Expires: now.Add(plan.GoodFor), Scope: scope, Base: r.base(s),
		Allow: r.settings().Allow, Unchanged: []string{},
		Changes: plan.Compare(s.present, wanted, files, judge),
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.Name == name }) {
			p.Unchanged = append(p.Unchanged, name)
		}
	}
	declared := 0
	for name := range wanted {
		if !plan.IsConfiguration(name) {
			declared++
		}
	}
	p.Summary = plan.Sum(p.Changes, declared)
	return p
}

// mayConfigure says why somebody's set may not decide about the configuration.
func (r *Revisions) mayConfigure(ask control.PlanRequest, actor uint32) error {
	switch {
	case actor != 0:
		return refused("the set declares the configuration, which is root's: uid %d may not", actor)
	case ask.Configuration == nil:
		return control.BadRequest("%s: configuration: its file was not read", ask.File)
	}
	if err := r.box.Replaceable(); err != nil {
		return refused("%v", err)
	}
	return nil
}

// configurationIn is the name of the configuration that a survey has seen.
func (r *Revisions) configurationIn(s survey) string {
	for name := range s.found {
		if plan.IsConfiguration(name) {
			return name
		}
	}
	return ""
}

// touches completes the change of the configuration, if there is one, with the services it
// touches. What needs a new container is refused: no gate could tell whether that
// holds, and nothing could take it back.
func touches(p *plan.Plan, effects Effects) error {
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Kind != plan.KindConfiguration {
			continue
		}
		if fields := c.OutsideService(p.Scope); len(fields) > 0 {
			return refused("the configuration that is declared differs in %s, which is not within the scope %s", strings.Join(fields, ", "), p.Scope)
		}
		if len(effects.Container) > 0 {
			return refused("an apply cannot bring this about, nor take it back: %s", strings.Join(effects.Container, "; "))
		}
		c.Touches(effects.Services)
		c.Notes = effects.Later
	}
	p.Summary = plan.Sum(p.Changes, p.Summary.Profiles)
	return nil
}

// scopeOf is the scope of a request, which all that is declared must fit into.
func scopeOf(asked string, declared *plan.Declared) (plan.Scope, error) {
	scope := declared.Scope()
	if asked != "" {
		var err error
		if scope, err = plan.ParseScope(asked); err != nil {
			return "", control.BadRequest("%v", err)
		}
	}
	if outside := declared.Outside(scope); len(outside) > 0 {
		return "", refused("%s, which the set declares, is not within the scope %s", strings.Join(outside, ", "), scope)
	}
	if lacks := declared.Lacks(scope); lacks != "" {
		return "", refused("the scope %s fits nothing: the set declares no %s", scope, lacks)
	}
	return scope, nil
}

// refused is exit code 10: out of scope, or not allowed.
func refused(format string, args ...any) error {
	return control.NewProblem(control.KindRefused, fmt.Sprintf(format, args...))
}

func sourceFile(ask control.PlanRequest) string {
	if ask.Dir == "" {
		return "-"
	}
	return ask.File
}

func asFaults(err error) document.Faults {
	var faults document.Faults
	if errors.As(err, &faults) {
		return faults
	}
	return document.Faults{{Text: err.Error()}}
}
