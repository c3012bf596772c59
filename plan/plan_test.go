package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"rlminit/internal/redact"
	"rlminit/service"
)

// carryOut is what an apply makes of a set, of what stands in the changes alone.
func carryOut(present map[string]Present, changes []Change) map[string]Present {
	now := maps.Clone(present)
	for _, c := range changes {
		if c.After == nil {
			delete(now, c.Name)
			continue
		}
		p := Present{Profile: Profile{State: c.After.State, Definition: c.After.Definition, Sealed: map[string]string{}}}
		for _, s := range c.After.Sealed {
			p.Sealed[s.Place] = s.Digest
		}
		if c.Action == Start || c.Action == Stop {
			// Its definition is not touched: it must be what it was.
			p.Definition, p.Sealed = now[c.Name].Definition, now[c.Name].Sealed
		}
		now[c.Name] = p
	}
	return now
}

func same(a, b map[string]Present) bool {
	return maps.EqualFunc(a, b, func(a, b Present) bool {
		a.Profile, b.Profile = alike(a.Profile, b.Profile)
		return a.State == b.State && a.fingerprint() == b.fingerprint() && a.Fault == b.Fault && a.Astray == b.Astray
	})
}

// wantedOf is a set as somebody would declare it.
func wantedOf(set map[string]Present) map[string]Profile {
	wanted := map[string]Profile{}
	for name, p := range set {
		wanted[name] = p.Profile
	}
	return wanted
}

// sets are all that two profiles can be: each absent, or in one of two states
// with one of a few definitions.
func sets() (all []map[string]Present) {
	choices := []*Profile{nil}
	for _, state := range []service.Intent{service.Running, service.Stopped} {
		for _, t := range []Tree{
			{},
			{"command": []any{"a", "b"}},
			{"environment": Tree{"A": "1"}},
			{"environment": Tree{"A": "2", "API_KEY": "aaaaaa", "URL": "http://aaaaaa"}},
			{"environment": Tree{"API_KEY": "bbbbbb", "URL": "http://aaaaaa"}, "restart": Tree{"limit": "3"}},
		} {
			p := Shape("salt", state, t, nil)
			choices = append(choices, &p)
		}
		p := Shape("salt", state, Tree{}, map[string]string{"S": "x"})
		choices = append(choices, &p)
	}
	for _, a := range choices {
		for _, b := range choices {
			set := map[string]Present{}
			if a != nil {
				set["a"] = Present{Profile: *a}
			}
			if b != nil {
				set["b"] = Present{Profile: *b}
			}
			all = append(all, set)
		}
	}
	return all
}

// For every pair of small sets: the plan applied gives the declared set, a
// second plan is empty, and the reverse plan gives the first set back.
func TestEveryPairOfSets(t *testing.T) {
	all := sets()
	restarts := func(string) bool { return true }
	for _, from := range all {
		for _, to := range all {
			changes := Compare(from, wantedOf(to), nil, restarts)
			got := carryOut(from, changes)
			if !same(got, to) {
				t.Fatalf("from %v to %v: %v gives %v", from, to, changes, got)
			}
			if again := Compare(got, wantedOf(to), nil, restarts); len(again) > 0 {
				t.Fatalf("from %v to %v: the second plan is %v", from, to, again)
			}
			back := carryOut(got, Compare(got, wantedOf(from), nil, restarts))
			if !same(back, from) {
				t.Fatalf("from %v to %v and back: %v", from, to, back)
			}
			if same(from, to) != (len(changes) == 0) || same(from, to) != (DigestOf(from) == DigestOf(to)) {
				t.Fatalf("from %v to %v: %d changes, digests %s %s", from, to, len(changes), DigestOf(from), DigestOf(to))
			}
			for _, c := range changes {
				if !c.sound() || len(c.Fields) == 0 || c.Reason == "" {
					t.Fatalf("from %v to %v: %+v", from, to, c)
				}
			}
		}
	}
	t.Logf("figure: %d pairs of sets", len(all)*len(all))
}

// For every pair of small sets with a configuration: the same, by the text whose
// digest was approved; and no value that nobody is to read is shown.
func TestEveryPairOfConfigurations(t *testing.T) {
	const path = "/etc/rlminit/rlminit.yaml"
	texts := map[string]string{} // by digest
	var all []map[string]Present
	for _, text := range []string{
		"version: 1\n", "version: 1\n# said\n", "version: 1\nservices: {web: {command: [a, --token, s3cret]}}\n",
		"version: 1\nservices: {web: {command: [a], environment: {API_KEY: s3cret, A: \"1\"}}}\n", "{no yaml",
	} {
		c := Present{Profile: ShapeConfiguration("salt", []byte(text)), Kept: true}
		texts[c.Sealed[ConfigurationText]] = text
		for _, alice := range []*Profile{nil, {State: service.Running, Definition: Tree{}}} {
			set := map[string]Present{path: c}
			if alice != nil {
				set["alice"] = Present{Profile: *alice}
			}
			all = append(all, set)
		}
	}
	carry := func(from map[string]Present, changes []Change) map[string]Present {
		got := carryOut(from, changes)
		for _, c := range changes {
			if c.Kind == KindConfiguration {
				got[path] = Present{Profile: ShapeConfiguration("salt", []byte(texts[c.After.Sealed[0].Digest])), Kept: true}
			}
		}
		return got
	}
	for _, from := range all {
		for _, to := range all {
			changes := Compare(from, wantedOf(to), map[string]map[string]string{path: {ConfigurationText: "/f"}}, func(string) bool { return true })
			got := carry(from, changes)
			if !same(got, to) || len(Compare(got, wantedOf(to), nil, nil)) > 0 {
				t.Fatalf("from %v to %v: %+v gives %v", from, to, changes, got)
			}
			if back := carry(got, Compare(got, wantedOf(from), nil, func(string) bool { return true })); !same(back, from) {
				t.Fatalf("from %v to %v and back: %v", from, to, back)
			}
			if same(from, to) != (len(changes) == 0) || same(from, to) != (DigestOf(from) == DigestOf(to)) {
				t.Fatalf("from %v to %v: %d changes", from, to, len(changes))
			}
			b, err := canonical(changes)
			if err != nil || strings.Contains(string(b), "s3cret") {
				t.Fatalf("%v %s", err, b)
			}
			for _, c := range changes {
				if !c.sound() || len(c.Fields) == 0 || c.Reason == "" {
					t.Fatalf("from %v to %v: %+v", from, to, c)
				}
			}
		}
	}
	// What is not declared is left alone.
	if changes := Compare(all[1], map[string]Profile{"alice": all[1]["alice"].Profile}, nil, nil); len(changes) != 0 {
		t.Errorf("undeclared: %+v", changes)
	}
}

// A scope on one service is refused what is another's, and the configuration is
// nobody's but root's.
func TestConfigurationIsRoots(t *testing.T) {
	c := Change{Kind: KindConfiguration, Name: "/etc/c.yaml", Fields: []Field{{Field: "services.web.command"}, {Field: "services.webb.command"}, {Field: "gateway.stop"}}}
	if got := c.OutsideService("service/web"); !reflect.DeepEqual(got, []string{"services.webb.command", "gateway.stop"}) || c.OutsideService(All) != nil {
		t.Errorf("%v", got)
	}
	p := &Plan{Changes: []Change{c}}
	if p.MayApply([]Rule{{UID: 1000, Scope: "all"}}, 1000) || !p.MayApply(nil, 0) {
		t.Error("somebody else may")
	}
	for text, want := range map[string]Scope{
		"version: 1\nprofiles: {}\n": Profiles, "version: 1\nconfiguration: c.yaml\n": Configuration, "version: 1\nconfiguration: c.yaml\nprofiles: {}\n": All,
	} {
		d := parse(t, text)
		if d.Scope() != want || d.Lacks(want) != "" || len(d.Outside(want)) != 0 {
			t.Errorf("%q is about %s", text, d.Scope())
		}
	}
	d := parse(t, "version: 1\nconfiguration: c.yaml\n")
	if d.Configuration != "/etc/agents/c.yaml" || d.Lacks(All) != "profiles" || d.Outside(Profiles) == nil || d.Lacks("service/web") != "" {
		t.Errorf("%+v", d)
	}
}

// What is wanted and is not so, what cannot be run, and what cannot be deleted.
func TestOddProfiles(t *testing.T) {
	restarts := func(string) bool { return false }
	running := Shape("s", service.Running, Tree{}, nil)
	stopped := Shape("s", service.Stopped, Tree{}, nil)
	for _, row := range []struct {
		name           string
		is             Present
		wanted         *Profile
		action, effect string
		reason         string
	}{
		{"failed", Present{Profile: running, Astray: "failed: exit 1"}, &running, Start, Starts, "it is declared running, and is failed: exit 1"},
		{"left running", Present{Profile: stopped, Astray: "running"}, &stopped, Stop, Stops, "it is declared stopped, and is running"},
		{"broken", Present{Profile: running, Fault: "no mapping"}, &running, Update, Starts, "it cannot be run: no mapping"},
		{"broken, gone", Present{Profile: running, Fault: "no mapping"}, nil, Delete, NoEffect, "it is not declared"},
		{"the home directory", Present{Profile: running, Kept: true}, nil, "", "", ""},
		{"the home directory, declared", Present{Profile: running, Kept: true}, &stopped, Stop, Stops, "it is declared stopped"},
	} {
		wanted := map[string]Profile{}
		if row.wanted != nil {
			wanted["a"] = *row.wanted
		}
		changes := Compare(map[string]Present{"a": row.is}, wanted, nil, restarts)
		if row.action == "" && len(changes) == 0 {
			continue
		}
		if len(changes) != 1 || changes[0].Action != row.action || changes[0].Effect != row.effect || changes[0].Reason != row.reason {
			t.Errorf("%s: %+v", row.name, changes)
		}
	}
}

const declared = `version: 1
profiles:
  alice:
    state: running
    environment: {A: "1", URL: "http://127.0.0.1:${PORT}", API_TOKEN: hunter2}
    restart: {limit: 3}
    secrets: {CERT: {file: cert.pem}, INLINE: s3cret}
  bob: {state: stopped}
  carol:
`

func parse(t *testing.T, text string) *Declared {
	t.Helper()
	d, reading := Parse("agents.yaml", "/etc/agents", []byte(text))
	if err := reading.Faults().Err(); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestParse(t *testing.T) {
	d := parse(t, declared)
	if len(d.Profiles) != 3 || d.Profiles[0].State != service.Running || d.Profiles[1].State != service.Stopped || d.Profiles[2].State != service.Running {
		t.Fatalf("%+v", d.Profiles)
	}
	want := Tree{
		"environment": Tree{"A": "1", "URL": "http://127.0.0.1:${PORT}", "API_TOKEN": "hunter2"},
		"restart":     Tree{"limit": "3"},
	}
	if !reflect.DeepEqual(d.Profiles[0].Definition, want) {
		t.Errorf("%v", d.Profiles[0].Definition)
	}
	for at, want := range map[string]Source{
		"environment.API_TOKEN": {Text: "hunter2"}, "secrets.CERT": {File: "/etc/agents/cert.pem"}, "secrets.INLINE": {Text: "s3cret"}, "restart.limit": {Text: "3"},
	} {
		if got, ok := d.Source("alice", at); !ok || got != want {
			t.Errorf("%s comes from %v", at, got)
		}
	}
	for _, none := range [][2]string{{"alice", "environment.B"}, {"alice", "secrets.B"}, {"zed", "environment.A"}} {
		if got, ok := d.Source(none[0], none[1]); ok {
			t.Errorf("%v comes from %v", none, got)
		}
	}
	if got := d.Files(); !reflect.DeepEqual(got, map[string]map[string]string{"alice": {"secrets.CERT": "/etc/agents/cert.pem"}}) {
		t.Errorf("%v", got)
	}
	if got := d.Outside("profile/alice"); !reflect.DeepEqual(got, []string{"bob", "carol"}) {
		t.Errorf("outside: %v", got)
	}
	if d := parse(t, "version: 1\nprofiles: {}\n"); len(d.Profiles) != 0 {
		t.Errorf("%v", d.Profiles)
	}
}

// Every fault of a declared set is found at once, with file, line and field.
func TestDefaultKindIsTheSameUnnamed(t *testing.T) {
	const named, unnamed = "kind: default\nenvironment: {kind: default}\n", "environment: {kind: default}\n"
	want := Tree{"environment": Tree{"kind": "default"}}
	for _, text := range []string{named, unnamed} {
		there, err := ParseTree("profile.yaml", []byte(text))
		if err != nil || !reflect.DeepEqual(there, want) {
			t.Errorf("%q is %v (%v), want %v", text, there, err, want)
		}
		d := parse(t, "version: 1\nprofiles:\n  a:\n    "+strings.ReplaceAll(text, "\n", "\n    "))
		if got := d.Profiles[0].Definition; !reflect.DeepEqual(got, want) {
			t.Errorf("%q as declared is %v, want %v", text, got, want)
		}
	}
}

func TestFaults(t *testing.T) {
	const text = `version: 2
profiels: {}
profiles:
  Alice: {}
  bob: {state: up}
  carol: {secrets: {X: {path: y}, "a/b": c}}
  dave: [a]
`
	_, reading := Parse("agents.yaml", "/", []byte(text))
	got := reading.Faults().Error()
	for _, want := range []string{
		"agents.yaml:1: version:", `agents.yaml:2: unknown key "profiels"; did you mean "profiles"?`,
		`agents.yaml:4: profiles.Alice: the name "Alice" is refused`, `agents.yaml:5: profiles.bob.state: "up" is refused`,
		`agents.yaml:6: profiles.carol.secrets.X: unknown key "path"`, "names no file", "is no name for a secret", "agents.yaml:7: profiles.dave: is no mapping",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for text, want := range map[string]string{
		"":                                       "version is missing",
		"version: 1\n":                           "profiles is missing",
		"version: 1\nprofiles: {a: {}, a: {}}\n": `key "a" is here twice`,
		"version: 1\nprofiles: {}\n---\nversion: 1\n":            "a second document begins here",
		"version: 1\nprofiles: {a: {secrets: {X: {file: y}}}}\n": "is no absolute path, and what comes from standard input",
	} {
		_, reading := Parse("-", "", []byte(text))
		if got := fmt.Sprint(reading.Faults().Err()); !strings.Contains(got, want) {
			t.Errorf("%q: %s; want %q", text, got, want)
		}
	}
}

// What is written into a profile.yaml is read back as it was declared, and is
// what a profile.yaml may be.
func TestTextIsReadBack(t *testing.T) {
	for _, tree := range []Tree{
		{},
		{"command": []any{"sh", "-c", "a\nb\t\r x "}, "environment": Tree{"A": "", "B": "null", "C": "yes", "D": "1e3", "E": " x: #y ", "F": "${PORT}", "G": "ü\u0085"}},
		{"ready": Tree{"exec": []any{"true"}, "timeout": "5s"}, "log": Tree{"max_files": "3"}, "x": []any{Tree{"y": "z"}}},
		{"environment": Tree{"F": Tree{"file": "/a b"}, "a.b": "c"}},
	} {
		b, err := Text(tree)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseTree("profile.yaml", b)
		if err != nil || !reflect.DeepEqual(got, tree) {
			t.Errorf("%v became %v, %v:\n%s", tree, got, err, b)
		}
	}
}

// example is a plan with one of everything.
func example(t *testing.T) (*Plan, []byte) {
	t.Helper()
	d := parse(t, declared)
	wanted, files := map[string]Profile{}, map[string]map[string]string{}
	for _, w := range d.Profiles {
		wanted[w.Name] = w.Shape("salt", map[string]string{"secrets.CERT": Digest("salt", "secrets.CERT", "certificate")})
		files[w.Name] = map[string]string{}
		for name, s := range w.Secrets {
			files[w.Name]["secrets."+name] = s.File
		}
	}
	present := map[string]Present{
		"alice": {Profile: Shape("salt", service.Running, Tree{"environment": Tree{"A": "0", "API_TOKEN": "before1"}}, nil)},
		"zed":   {Profile: Shape("salt", service.Running, Tree{}, nil)},
	}
	p := &Plan{
		Version: Version, Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Expires: time.Date(2026, 1, 2, 4, 4, 5, 0, time.UTC),
		Scope: Profiles, Source: Origin{File: "/etc/agents/agents.yaml", Digest: "sha256:00"},
		Base: Base{Volume: "v", Revision: 3, Digest: DigestOf(present)}, Salt: "salt",
		Changes: Compare(present, wanted, files, func(string) bool { return true }), Unchanged: []string{},
	}
	p.Summary = Sum(p.Changes, len(wanted))
	text, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return p, text
}

func TestPlanHoldsNoSecret(t *testing.T) {
	p, text := example(t)
	for _, secret := range []string{"hunter2", "s3cret", "certificate", "before1"} {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("the plan holds %s: %s", secret, text)
		}
	}
	if s := p.Summary; s.Create != 2 || s.Update != 1 || s.Delete != 1 || s.Restarts != 1 || s.Profiles != 3 {
		t.Errorf("%+v", s)
	}
	values := map[string]string{}
	for _, s := range p.Changes[0].After.Sealed {
		values[s.Place] = map[string]string{"environment.API_TOKEN": "hunter2", "secrets.CERT": "certificate", "secrets.INLINE": "s3cret"}[s.Place]
		if Digest(p.Salt, s.Place, values[s.Place]) != s.Digest {
			t.Errorf("%s has another digest", s.Place)
		}
	}
	tree, secrets, err := Unseal(p.Changes[0].After.Definition, values)
	if err != nil || !reflect.DeepEqual(tree, parse(t, declared).Profiles[0].Definition) || !reflect.DeepEqual(secrets, map[string]string{"CERT": "certificate", "INLINE": "s3cret"}) {
		t.Errorf("%v %v", tree, secrets)
	}
}

// A plan that was altered in any way is refused, and only its own hash
// approves it.
func TestVerify(t *testing.T) {
	p, text := example(t)
	got, err := Verify(text, p.Hash)
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Fatalf("%v %+v", err, got)
	}
	if _, err := Verify(append(bytes.Clone(text), '\n'), strings.TrimPrefix(p.Hash, hashPrefix)); err != nil {
		t.Errorf("with a newline, and the bare hash: %v", err)
	}
	for name, approved := range map[string]string{"none": "", "another": "sha256:" + strings.Repeat("0", 64), "cut": p.Hash[:20]} {
		if _, err := Verify(text, approved); !errors.Is(err, ErrApproval) {
			t.Errorf("approved by %s: %v", name, err)
		}
	}
	rehashed := func(change func(map[string]any)) []byte {
		var all map[string]any
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
		change(all)
		b, err := canonical(all)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := split(b)
		if err != nil {
			t.Fatal(err)
		}
		all["hash"] = parts.hash()
		if b, err = canonical(all); err != nil {
			t.Fatal(err)
		}
		return b
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", " "); err != nil {
		t.Fatal(err)
	}
	for name, changed := range map[string][]byte{
		"edited":        bytes.Replace(text, []byte(`"running"`), []byte(`"stopped"`), 1),
		"cut":           text[:len(text)-1],
		"half":          text[:len(text)/2],
		"empty":         {},
		"not JSON":      []byte("plan"),
		"a doubled key": bytes.Replace(text, []byte(`{"allow"`), []byte(`{"allow":[],"allow"`), 1),
		"a new key":     rehashed(func(m map[string]any) { m["also"] = 1 }),
		"newer":         rehashed(func(m map[string]any) { m["version"] = 2 }),
		"no version":    rehashed(func(m map[string]any) { m["version"] = 0 }),
		"indented":      indented.Bytes(),
		"twice":         append(bytes.Clone(text), text...),
		"odd change":    rehashed(func(m map[string]any) { m["changes"].([]any)[0].(map[string]any)["action"] = "exec" }),
	} {
		if _, err := Verify(changed, p.Hash); !errors.Is(err, ErrAltered) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Whoever edits a plan and gives it a new hash has another plan.
	other := rehashed(func(m map[string]any) { m["base"].(map[string]any)["revision"] = 4 })
	if _, err := Verify(other, p.Hash); !errors.Is(err, ErrApproval) {
		t.Errorf("edited, with a hash of its own: %v", err)
	}
}

// Every byte of a plan counts.
func TestEveryByteCounts(t *testing.T) {
	p, text := example(t)
	for i := range text {
		changed := bytes.Clone(text)
		changed[i] ^= 1
		if _, err := Verify(changed, p.Hash); err == nil {
			t.Fatalf("byte %d of %q was changed, and nobody noticed", i, text[max(0, i-20):min(len(text), i+20)])
		}
	}
}

func TestScope(t *testing.T) {
	for s, ok := range map[string]bool{
		"all": true, "profiles": true, "profile/alice": true, "service/web": true,
		"": false, "profile": false, "profile/": false, "profile/*": false, "profile/a/b": false, "services": false, "Profile/a": false,
	} {
		if _, err := ParseScope(s); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, row := range []struct {
		rule, subject string
		covers        bool
	}{
		{"all", "profile/a", true},
		{"profiles", "profile/a", true},
		{"profiles", "service/a", false},
		{"profile/*", "profile/a", true},
		{"profile/team-*", "profile/team-a", true},
		{"profile/team-*", "profile/a", false},
		{"service/*", "profile/a", false},
	} {
		if Covers(row.rule, row.subject) != row.covers {
			t.Errorf("%v", row)
		}
	}
	p := &Plan{Changes: []Change{{Kind: KindProfile, Name: "team-a"}, {Kind: KindProfile, Name: "b"}}}
	rules := []Rule{{UID: 1000, Scope: "profile/team-*"}, {UID: 1001, Scope: "profile/*"}}
	for uid, may := range map[uint32]bool{0: true, 1000: false, 1001: true, 1002: false} {
		if p.MayApply(rules, uid) != may {
			t.Errorf("uid %d", uid)
		}
	}
}

// BenchmarkPlan is a plan of 1,000 profiles of which each has something changed.
func BenchmarkPlan(b *testing.B) {
	var text strings.Builder
	text.WriteString("version: 1\nprofiles:\n")
	present := map[string]Present{}
	for i := range 1000 {
		fmt.Fprintf(&text, "  agent-%04d: {state: running, environment: {A: \"%d\", TOKEN: t%d}}\n", i, i, i)
		present[fmt.Sprintf("agent-%04d", i)] = Present{Profile: Shape("salt", service.Running, Tree{"environment": Tree{"A": "x"}}, nil)}
	}
	for b.Loop() {
		d, reading := Parse("agents.yaml", "/", []byte(text.String()))
		if err := reading.Faults().Err(); err != nil {
			b.Fatal(err)
		}
		wanted := map[string]Profile{}
		for _, w := range d.Profiles {
			wanted[w.Name] = w.Shape("salt", nil)
		}
		p := &Plan{Version: Version, Changes: Compare(present, wanted, nil, func(string) bool { return true })}
		if _, err := p.Encode(); err != nil || len(p.Changes) != 1000 {
			b.Fatal(err, len(p.Changes))
		}
	}
}

// What the schema of a declared set takes is what is read as one.
func TestSchema(t *testing.T) {
	text, err := json.Marshal(Describe().Schema())
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SetFile, value); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(SetFile)
	if err != nil {
		t.Fatal(err)
	}
	for text, right := range map[string]bool{
		declared: true, "version: 1\nconfiguration: rlminit.yaml\n": true,
		"version: 1\nprofiles: {alice: {stat: running}}\n": false, "version: 1\nprofiles: {alice: {state: up}}\n": false,
		"version: 1\nprofiles: {alice: {secrets: {A: {path: b}}}}\n": false, "version: 2\nprofiles: {}\n": false, "configuration: [a]\n": false,
	} {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); (err == nil) != right {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Whatever is secret in a definition is masked in the plan and its fields, and an apply puts
// it back as it was declared.
func TestPlanMasksCommands(t *testing.T) {
	const text = `version: 1
profiles:
  alice:
    command: [agent, --password, hunter22, -H, "Authorization: Bearer b3arer22", --url, "http://u:ur1pass@h/", fine]
    environment: {DB_PASS: dbp4ss22, A: "x dbp4ss22", FILE: {file: /x}, OPTIONS: "--token t0ken222"}
    health: {exec: [curl, -u, "me:curlp4ss"]}
    ready: {http: "http://u:re4dyp4s@h/"}
    schedules: {night: {cron: "0 3 * * *", command: [x, --api-key=n1ghtkey]}}
    log: {redact: ["token=([a-z]+)", secrets, l1teralsecret]}
`
	hidden := []string{"hunter22", "b3arer22", "ur1pass", "dbp4ss22", "t0ken222", "curlp4ss", "re4dyp4s", "n1ghtkey", "l1teralsecret"}
	w := parse(t, text).Profiles[0]
	shape := w.Shape("salt", nil)
	changes := Compare(nil, map[string]Profile{"alice": shape}, nil, func(string) bool { return true })
	shown, err := json.Marshal(changes)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range hidden {
		if bytes.Contains(shown, []byte(secret)) {
			t.Errorf("the plan has %s: %s", secret, shown)
		}
	}
	if !bytes.Contains(shown, []byte(`agent\",\"--password\",\"***\",\"-H\",\"Authorization: Bearer ***\",\"--url\",\"http://u:***@h/\",\"fine\"`)) {
		t.Errorf("what is not secret is masked: %s", shown)
	}
	putBack(t, w, *changes[0].After)
	if again := shape.Resealed("salt"); !reflect.DeepEqual(again, shape) {
		t.Errorf("masked once more: %v", again)
	}
}

// putBack has a profile put together of a plan and its declaration, which it must be.
func putBack(t *testing.T, w Wanted, after After) {
	t.Helper()
	values := map[string]string{}
	for _, sealed := range after.Sealed {
		source, ok := (&Declared{Profiles: []Wanted{w}}).Source(w.Name, sealed.Place)
		if source.File != "" {
			continue
		}
		if values[sealed.Place] = source.Text; !ok || Digest("salt", sealed.Place, source.Text) != sealed.Digest {
			t.Errorf("%s has another digest: %q", sealed.Place, source.Text)
		}
	}
	whole, _, err := Unseal(after.Definition, values)
	if err != nil || !reflect.DeepEqual(whole, w.Definition) {
		t.Errorf("%v: put back is %v\nnot %v", err, whole, w.Definition)
	}
}

// A secret that changes is masked wherever it still stands, on both sides and in what is to be
// written, and so is what is secret in what there is alone; an apply puts it all back.
func TestPlanMasksSecretsOfBothSides(t *testing.T) {
	present := map[string]Present{"alice": {Profile: Shape("salt", service.Running, Tree{
		"environment": Tree{"TOKEN": "aaaaaa", "URL": "http://old/aaaaaa", "SAME": "x aaaaaa"}, "command": []any{"agent", "kkkkkk"},
	}, map[string]string{"KEY": "kkkkkk"})}}
	const text = `version: 1
profiles:
  alice:
    command: [agent, -v, kkkkkk]
    environment: {TOKEN: bbbbbb, URL: "http://new/aaaaaa", SAME: "x aaaaaa", GREETING: "kkkkkk iiiiii ffffff", PLAIN: fine}
    secrets: {INLINE: iiiiii, IN_FILE: {file: f}}
`
	w := parse(t, text).Profiles[0]
	shape := w.Shape("salt", map[string]string{"secrets.IN_FILE": Digest("salt", "secrets.IN_FILE", "ffffff")}, "ffffff")
	base := DigestOf(present)
	changes := Compare(present, map[string]Profile{"alice": shape}, nil, func(string) bool { return true })
	shown, err := json.Marshal(changes)
	if err != nil || len(changes) != 1 {
		t.Fatal(err, changes)
	}
	for _, secret := range []string{"aaaaaa", "bbbbbb", "kkkkkk", "iiiiii", "ffffff"} {
		if bytes.Contains(shown, []byte(secret)) {
			t.Errorf("the plan has %s: %s", secret, shown)
		}
	}
	for _, want := range []string{`"old":"http://old/***","new":"http://new/***"`, `fine`, `agent\",\"-v\",\"***`} {
		if !bytes.Contains(shown, []byte(want)) {
			t.Errorf("the plan has no %s: %s", want, shown)
		}
	}
	if bytes.Contains(shown, []byte(`"field":"environment.SAME"`)) {
		t.Errorf("what stays is a change: %s", shown)
	}
	putBack(t, w, *changes[0].After)
	if DigestOf(present) != base {
		t.Error("a comparison has changed what is compared")
	}
	now := carryOut(present, changes)
	if again := Compare(now, map[string]Profile{"alice": shape}, nil, nil); len(again) > 0 {
		t.Errorf("the second plan is %+v", again)
	}
}

// Secrets by the name of a variable are those of all services, and a list of mappings is
// looked into.
func TestPlanMasksInsideOfLists(t *testing.T) {
	c := ShapeConfiguration("salt", []byte(`version: 1
services:
  web: {environment: {API_TOKEN: abcdef12}, command: [srv, abcdef12], sidecars: [{environment: {DB_PASS: dbp4ss22}}, [--token, n3sted22]]}
hooks: [{command: [curl, -u, "u:curlp4ss", fine], environment: {A: dbp4ss22}}]
`))
	shown, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"abcdef12", "dbp4ss22", "n3sted22", "curlp4ss"} {
		if bytes.Contains(shown, []byte(secret)) {
			t.Errorf("it has %s: %s", secret, shown)
		}
	}
	if !bytes.Contains(shown, []byte(`["curl","-u","u:***","fine"]`)) || !bytes.Contains(shown, []byte(`["srv","***"]`)) {
		t.Errorf("what is not secret is masked: %s", shown)
	}
	list := Tree{"hooks": []any{Tree{"command": []any{"curl", "-u", "u:curlp4ss"}}}}
	clean, values := seal(list, redact.Set{})
	if whole, _, err := Unseal(clean, values); err != nil || !reflect.DeepEqual(whole, list) || reflect.DeepEqual(clean, list) {
		t.Errorf("%v: put back is %v", err, whole)
	}
}

// A plan never writes what is masked: where two values have the same place, nothing is put back.
func TestPlacesThatAreTwo(t *testing.T) {
	two := Tree{"environment": Tree{"A": Tree{"file": redact.Sign}, "A.file": redact.Sign}}
	if whole, _, err := Unseal(two, map[string]string{"environment.A.file": "x"}); err == nil {
		t.Errorf("put back is %v", whole)
	}
}

// A plan and a revision that an older version has written, which took secret variables out
// and left commands in clear, are read as what is written now.
func TestOlderShapes(t *testing.T) {
	now := Shape("salt", service.Running, Tree{"command": []any{"x", "--token", "abc"}, "environment": Tree{"TOKEN": "abc"}}, nil)
	old := Profile{State: service.Running, Definition: Tree{"command": []any{"x", "--token", "abc"}}, Sealed: map[string]string{"environment.TOKEN": Digest("salt", "environment.TOKEN", "abc")}}
	if old = old.Resealed("salt"); old.fingerprint() != now.fingerprint() {
		t.Errorf("%s\nis not\n%s", old.fingerprint(), now.fingerprint())
	}
	// Secrets may be in other values too, in clear: of the one that is in force, and of the one
	// that was.
	is := Shape("salt", service.Running, Tree{"environment": Tree{"TOKEN": "abcdef", "URL": "http://abcdef/", "MORE": "now abcdef"}, "command": []any{"x"}}, nil)
	was := Profile{
		State: service.Running, Definition: Tree{"environment": Tree{"URL": "http://abcdef/", "MORE": "was 0ldval"}, "command": []any{"x"}},
		Sealed: map[string]string{"environment.TOKEN": Digest("salt", "environment.TOKEN", "0ldval")},
	}
	drift := Compare(map[string]Present{"a": {Profile: is}}, map[string]Profile{"a": was.Resealed("salt")}, nil, func(string) bool { return true })
	shown, err := json.Marshal(drift)
	if err != nil || len(drift) != 1 || len(drift[0].Fields) != 2 || *drift[0].Fields[0].Old != "now ***" || *drift[0].Fields[0].New != redact.Sign || bytes.Contains(shown, []byte("0ldval")) {
		t.Errorf("%v %s", err, shown)
	}
	whole, _, err := Unseal(old.Definition, map[string]string{"environment.TOKEN": "abc", "command": `["x","--token","abc"]`})
	if want := (Tree{"command": []any{"x", "--token", "abc"}, "environment": Tree{"TOKEN": "abc"}}); err != nil || !reflect.DeepEqual(whole, want) {
		t.Errorf("%v: %v", err, whole)
	}
	if _, _, err := Unseal(now.Definition, map[string]string{"command": "x"}); err == nil {
		t.Error("a text is taken for a list")
	}
}
