package laws

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
)

// settleWithin is how long a box may take to look like its model: a service that has just
// been started is pending for a moment, on a busy machine for longer.
const settleWithin = 20 * time.Second

// agree waits until all that can be asked says what the model says, which is then the
// world's.
func (w *world) agree(m model, said string) {
	why := ""
	for until := time.Now().Add(settleWithin); ; time.Sleep(5 * time.Millisecond) {
		if why = w.differs(m); why == "" {
			break
		}
		if time.Now().After(until) {
			w.fail("%s\n%s\nshould be:\n%s", said, why, m)
		}
	}
	w.take(m)
}

// either is agree with a, or with b, the state before: services that a would change may
// have been restarted then.
func (w *world) either(a, b model, said string) {
	b.each(func(name string, p *profile) {
		if after, stays := a.profiles[name]; b.profiles[name] == *p && (!stays || after != *p) {
			delete(w.pids, name)
		}
	})
	first, second := "", ""
	for until := time.Now().Add(settleWithin); ; time.Sleep(5 * time.Millisecond) {
		if first = w.differs(a); first == "" {
			w.take(a)
			return
		}
		if second = w.differs(b); second == "" {
			w.take(b)
			return
		}
		if time.Now().After(until) {
			w.fail("%s\nneither done: %s\nshould be:\n%s\nnor undone: %s", said, first, a, second)
		}
	}
}

// take makes m the world's, with the processes that there are.
func (w *world) take(m model) {
	seen, _ := w.status()
	w.model, w.pids = m, map[string]pid{}
	m.each(func(name string, p *profile) {
		if is, there := seen[name]; there && is.PID != nil {
			w.pids[name] = pid{p.run, *is.PID}
		}
	})
}

// status is what status --json says, by the names of profiles and services.
func (w *world) status() (map[string]control.Service, error) {
	r := w.exec(box.Service, "", "rlminit", "status", "--json")
	var list []control.Service
	if err := json.Unmarshal([]byte(r.Out), &list); r.Code != 0 || err != nil {
		return nil, fmt.Errorf("status --json: %v %s", err, r)
	}
	seen := map[string]control.Service{}
	for _, s := range list {
		name := s.Name
		if s.Profile != nil {
			name = *s.Profile
		}
		seen[name] = s
	}
	return seen, nil
}

// differs says in what the box is not as the model has it; "": in nothing.
func (w *world) differs(m model) string {
	seen, err := w.status()
	if err != nil {
		return err.Error()
	}
	all := []string{"nightly"}
	why := ""
	m.each(func(name string, p *profile) {
		all = append(all, name)
		is, there := seen[name]
		if !there {
			why = name + " is not there"
		} else if said := w.unlike(name, p, is); said != "" {
			why = fmt.Sprintf("%s: %s: %s", name, said, box.Describe(is))
		}
	})
	for name := range seen {
		if !slices.Contains(all, name) {
			why = name + " is there"
		}
	}
	for _, ask := range []func(model) string{w.well, w.trashed, w.secrets, w.defined} {
		if why == "" {
			why = ask(m)
		}
	}
	return why
}

// unlike says in what a service is not as the model has it.
func (w *world) unlike(name string, p *profile, is control.Service) string {
	before, ran := w.pids[name]
	switch {
	case is.Verdict != p.verdict():
		return "its verdict should be " + p.verdict()
	case is.Desired != state(p.desired):
		return "its desired state should be " + state(p.desired)
	case (is.PID != nil) != (p.started != nil):
		return "it runs, or does not"
	case is.Outdated != p.outdated():
		return fmt.Sprintf("outdated should be %t", p.outdated())
	case is.Profile != nil && *is.Kind != p.kind:
		return "its kind should be " + p.kind
	case is.Profile != nil && !p.refused && (is.Port != nil) != ported[p.kind]:
		return fmt.Sprintf("that it has a port should be %t", ported[p.kind])
	case is.Restarts != 0 && is.Flapping:
		return "it flaps"
	case is.PID != nil && ran && (*is.PID == before.number) != (p.run == before.run):
		return fmt.Sprintf("it was %d; restarted should be %t", before.number, p.run != before.run)
	}
	return ""
}

// well: nobody is ever pending here, and all that are asked say whether one is ill.
func (w *world) well(m model) string {
	ill := false
	m.each(func(_ string, p *profile) { ill = ill || p.verdict() == "ill" })
	for _, argv := range [][]string{{"status", "-q"}, {"health", "--level", "ready"}, {"health", "--level", "well"}} {
		if r := w.exec(box.Service, "", append([]string{"rlminit"}, argv...)...); (r.Code != 0) != ill {
			return fmt.Sprintf("%s: %s", strings.Join(argv, " "), r)
		}
	}
	return ""
}

// trashed: the trash has the entries of the model.
func (w *world) trashed(m model) string {
	r := w.exec(box.Service, "", "rlminit", "profile", "list", "--trash", "--json")
	var list []struct{ Name, Profile string }
	if err := json.Unmarshal([]byte(r.Out), &list); r.Code != 0 || err != nil {
		return fmt.Sprintf("profile list --trash: %v %s", err, r)
	}
	count := map[string]int{}
	for _, e := range list {
		count[e.Profile]++
	}
	for _, name := range names {
		if count[name] != len(m.trash[name]) {
			return fmt.Sprintf("the trash has %d of %s, not %d", count[name], name, len(m.trash[name]))
		}
	}
	return ""
}

// secrets: a profile has the secrets of the model.
func (w *world) secrets(m model) string {
	for name, p := range m.profiles {
		r := w.exec(box.Service, "", "rlminit", "profile", "secret", "list", name, "--json")
		var list []struct{ Name string }
		if err := json.Unmarshal([]byte(r.Out), &list); r.Code != 0 || err != nil {
			return fmt.Sprintf("secret list %s: %v %s", name, err, r)
		}
		if (len(list) == 1) != (p.secret != "") || len(list) > 1 {
			return fmt.Sprintf("%s has %d secrets: %s", name, len(list), r)
		}
	}
	return ""
}

// defined: profiles with the same kind and values have the same definition (L1).
func (w *world) defined(m model) string {
	type settings struct{ kind, value string }
	first := map[settings]string{}
	for name, p := range m.profiles {
		if p.refused {
			continue // it has none, or that of before
		}
		text, why := w.definition(name)
		if why != "" {
			return why
		}
		of := settings{p.kind, p.value}
		if first[of] == "" {
			first[of] = text
		} else if first[of] != text {
			return fmt.Sprintf("two definitions of %+v: %s", of, unlikeLines(first[of], text))
		}
	}
	return ""
}

// definition is a profile's definition less its name, its port and its uid.
func (w *world) definition(name string) (text, why string) {
	r := w.exec(box.Service, "", "rlminit", "show", name, "--json")
	var shown []struct {
		Service    control.Service
		Definition []struct{ Field, Value string }
	}
	if err := json.Unmarshal([]byte(r.Out), &shown); r.Code != 0 || err != nil || len(shown) != 1 {
		return "", fmt.Sprintf("show %s: %v %s", name, err, r)
	}
	var lines []string
	for _, f := range shown[0].Definition {
		if f.Field != "secrets_version" {
			lines = append(lines, f.Field+": "+f.Value)
		}
	}
	slices.Sort(lines)
	replace := []string{`"` + name + `"`, `"NAME"`, "/profiles/" + name, "/profiles/NAME", "gateway-" + name, "gateway-NAME", "NAME=" + name, "NAME=NAME"}
	if port := shown[0].Service.Port; port != nil {
		replace = append(replace, fmt.Sprint(*port), "PORT")
	}
	return strings.NewReplacer(replace...).Replace(strings.Join(lines, "\n")), ""
}

// unlikeLines are the lines that only one of two texts has.
func unlikeLines(a, b string) string {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	var only []string
	for _, l := range left {
		if !slices.Contains(right, l) {
			only = append(only, "- "+l)
		}
	}
	for _, l := range right {
		if !slices.Contains(left, l) {
			only = append(only, "+ "+l)
		}
	}
	return strings.Join(only, "\n")
}
