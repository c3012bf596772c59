package revision

import (
	"crypto/rand"
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

// base is what a plan of a scope starts from now.
func (r *Revisions) base(s survey) plan.Base {
	b := plan.Base{Volume: r.ledger.Volume(), Digest: plan.DigestOf(s.present)}
	r.ledger.View(func(f *apply.Fold) { b.Revision = f.LastApplied() })
	return b
}

// plan makes one.
func (r *Revisions) plan(ask control.PlanRequest, actor uint32) (control.Planned, error) {
	switch {
	case ask.Unclean != "":
		problem := control.BadRequest("%s", ask.Unclean)
		problem.ExitCode = control.ExitNotClean
		return control.Planned{}, problem
	case ask.Unread != "":
		return control.Planned{}, control.BadRequest("%s", ask.Unread)
	}
	declared, reading := plan.Parse(ask.File, ask.Dir, []byte(ask.Text))
	faults := reading.Faults()
	if len(faults) > 0 {
		return control.Planned{}, control.BadRequest("%v", faults)
	}
	scope, err := scopeOf(ask.Scope, declared)
	if err != nil {
		return control.Planned{}, err
	}
	if len(ask.Salt) < 16 {
		return control.Planned{}, control.BadRequest("the salt is shorter than 16 characters")
	}
	configures := declared.Configuration != ""
	if configures {
		if err := r.mayConfigure(ask, actor); err != nil {
			return control.Planned{}, err
		}
	}
	s, err := r.survey(scope, ask.Salt, configures)
	if err != nil {
		return control.Planned{}, err
	}
	if kind, name, one := scope.Named(); one && kind == "profile" && len(s.present) == 0 && len(declared.Profiles) == 0 {
		return control.Planned{}, refused("the scope %s fits nothing: there is no %s %s, and none is declared", scope, kind, name)
	}
	wanted, files := map[string]plan.Profile{}, map[string]map[string]string{}
	nodes := map[string]plan.Wanted{}
	for _, w := range declared.Profiles {
		wanted[w.Name], files[w.Name] = w.Shape(ask.Salt, ask.Digests[w.Name]), map[string]string{}
		nodes[w.Name] = w
		for name, source := range w.Secrets {
			files[w.Name]["secrets."+name] = source.File
		}
		for at, digest := range wanted[w.Name].Sealed {
			if digest == "" {
				return control.Planned{}, control.BadRequest("%s: profiles.%s.%s: its file was not read", ask.File, w.Name, at)
			}
		}
		if len(w.Secrets) > 0 && !r.box.Secrets() {
			faults = append(faults, document.Fault{
				File: ask.File, Line: w.Node.Get("secrets").Line(), Field: "profiles." + w.Name + ".secrets",
				Text: "there is no way here to give a service secrets; write the variable into environment, where its name keeps it out of sight",
			})
		}
	}
	judge := r.box.Judge
	var effects Effects
	if configures {
		path := r.configurationIn(s)
		wanted[path] = plan.ShapeConfiguration(ask.Salt, []byte(*ask.Configuration))
		files[path] = map[string]string{plan.ConfigurationText: declared.Configuration}
		if effects, err = r.box.Preview(declared.Configuration, []byte(*ask.Configuration)); err != nil {
			return control.Planned{}, control.BadRequest("%v", err)
		}
		judge = effects.Judge
	}
	p := r.compare(scope, s, wanted, files, func(name string) bool {
		restarts, err := judge(nodes[name])
		if err != nil {
			faults = append(faults, asFaults(err)...)
		}
		return restarts
	})
	if len(faults) > 0 {
		faults.Sort()
		return control.Planned{}, control.BadRequest("%v", faults)
	}
	if err := touches(p, effects); err != nil {
		return control.Planned{}, err
	}
	p.Salt = ask.Salt
	sum := sha256.Sum256([]byte(ask.Text))
	p.Source = plan.Origin{
		File: sourceFile(ask), Digest: "sha256:" + hex.EncodeToString(sum[:]), Revision: ask.Revision, Clean: ask.Clean,
	}
	text, err := p.Encode()
	return control.Planned{Plan: string(text)}, err
}

// compare makes a plan, complete but for its source, of what is wanted.
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

// touches completes the change of the configuration, if there is one, with what it
// comes to. What needs a new container is refused: no gate could tell whether that
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

// newSalt is a salt that nobody has seen.
func newSalt() string { return rand.Text() }
