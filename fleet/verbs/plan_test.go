package verbs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rlminit/fleet/agent"
)

// What is no profile.yaml is refused where it stands, with a near name; by the kinds of the
// configuration where it has the profile's kind.
func TestReadSet(t *testing.T) {
	dir := t.TempDir()
	file, set := filepath.Join(dir, "rlminit.yaml"), filepath.Join(dir, "set.yaml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "version: 1\nhome: /data\ngateways:\n  web: {command: [/bin/web]}\nfleet: {name: f}\n")
	o := &options{config: file}
	for declared, want := range map[string]string{
		`{kind: web, environment: {A: "${PORT}"}}`: `{"environment":{"A":"${PORT}"},"kind":"web","state":"running"}`,
		`{kind: web, labels: {zone: 1}}`:           `{"kind":"web","labels":{"zone":"1"},"state":"running"}`,
		`{kind: other, restart: always}`:           `{"kind":"other","restart":"always","state":"running"}`,
		`{kind: web, colour: red}`:                 `set.yaml:3: profiles.alice: unknown key "colour"; the keys here are`,
		`{kind: other, enviroment: {}}`:            `set.yaml:3: profiles.alice: unknown key "enviroment"; did you mean "environment"?`,
		`{kind: web, user: root}`:                  `profiles.alice.user: a profile may not set it`,
		`{kind: web, restart: sometimes}`:          `"sometimes" is refused`,
		`{kind: web, labels: [a]}`:                 `profiles.alice.labels: is a list`,
		`{secrets: {A: b}}`:                        `etcd keeps no secrets`,
	} {
		write(set, "version: 1\nprofiles:\n  alice: "+declared+"\n")
		all, err := readSet(set, o.kinds())
		if got := string(all["alice"]); err == nil && got != want || err != nil && (want[0] == '{' || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %s, %v", declared, got, err)
		}
	}
}

// Names that no profile can have in any box are refused before anything is declared.
func TestNamesOfNoProfile(t *testing.T) {
	set := filepath.Join(t.TempDir(), "set.yaml")
	for _, name := range []string{"all", "default", "main", "page", "fleet", "gateway-bob", "gateway-", "a/b", "../../x", "A", `"\e]52;c;eA==\a"`} {
		if err := os.WriteFile(set, []byte("version: 1\nprofiles:\n  "+name+": {kind: web}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if all, err := readSet(set, nil); err == nil {
			t.Errorf("%s: %v", name, all)
		}
	}
}

// A plan warns of a kind that neither a profile that runs nor the configuration has, and of
// labels that no member has.
func TestDoubts(t *testing.T) {
	v := agent.NewView()
	v.Take([]agent.Change{
		{Name: "m", Value: &agent.Member{Labels: map[string]string{"zone": "a", "gpu": "no"}, Capacity: 1}},
		{Name: "alice", Value: &agent.Profile{Text: `{"kind":"web"}`}},
		{Name: "alice", Value: &agent.Owner{Member: "m", Fence: 1}},
		{Name: "alice", Value: &agent.Live{Fence: 1}},
		{Name: "bob", Value: &agent.Profile{Text: `{"kind":"odd"}`}},
	})
	for declared, want := range map[string]string{
		`{"state":"running","kind":"web","labels":{"zone":"a"}}`:             "",
		`{"state":"running","kind":"wep"}`:                                   `zed: no profile of the kind wep runs in the fleet, and FILE has no such kind; did you mean "web"?`,
		`{"state":"running","kind":"odd"}`:                                   `zed: no profile of the kind odd runs in the fleet, and FILE has no such kind: each member must have it`,
		`{"kind":"odd","state":"stopped"}`:                                   "",
		`{"state":"running","kind":"web","labels":{"zone":"a","gpu":"yes"}}`: "zed: no member takes it: m: it has no label gpu=yes",
	} {
		p := fleetPlan{Changes: []change{{Name: "zed", Action: "create", New: json.RawMessage(declared)}}}
		if p.doubts(v, nil, "FILE"); strings.Join(p.Warnings, "\n") != want {
			t.Errorf("%s: %q", declared, p.Warnings)
		}
	}
}
