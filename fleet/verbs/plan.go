package verbs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"rlminit/config"
	"rlminit/control"
	"rlminit/fleet/agent"
	"rlminit/fleet/status"
	"rlminit/fleet/store"
	"rlminit/internal/document"
	"rlminit/plan"
	"rlminit/service"
)

// change is what a set changes of one declaration.
type change struct {
	Name     string          `json:"name"`
	Action   string          `json:"action"` // create, update, delete
	Old      json.RawMessage `json:"old,omitempty"`
	New      json.RawMessage `json:"new,omitempty"`
	Revision int64           `json:"revision"` // of Old in etcd; 0: there is none
}

// fleetPlan is `fleet plan --json`.
type fleetPlan struct {
	Fleet     string   `json:"fleet"`
	Cluster   string   `json:"cluster"`
	Changes   []change `json:"changes"`
	Unchanged int      `json:"unchanged"`
	Hash      string   `json:"hash"` // of all that stands above
	Warnings  []string `json:"warnings,omitempty"`

	untaken []string // of these, that no member takes one
}

// readSet reads a declared set: for each name, its declaration as JSON. kinds has the kinds
// by which a profile.yaml is judged; nil: there are none here.
func readSet(path string, kinds *config.Config) (map[string][]byte, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the declared set: %w", err)
	}
	set, reading := plan.Parse(path, filepath.Dir(absolute), text)
	if err := reading.Faults().Err(); err != nil {
		return nil, err
	}
	if set.Configuration != "" {
		return nil, fmt.Errorf("%s: configuration: a fleet has none; give each container its own", path)
	}
	all := map[string][]byte{}
	for _, w := range set.Profiles {
		if err := store.CheckName(w.Name); err != nil {
			return nil, fmt.Errorf("%s:%d: profiles.%s: %w", path, w.Node.Line(), document.Quote(w.Name), err)
		}
		if len(w.Secrets) > 0 {
			return nil, fmt.Errorf("%s:%d: profiles.%s.secrets: etcd keeps no secrets; give them to the kind in each container", path, w.Node.Line(), w.Name)
		}
		one, with := map[string]any{"state": w.State}, map[string]string{}
		maps.Copy(one, w.Definition)
		if labels(with)(w.Node.Get("labels")); len(with) > 0 {
			one["labels"] = with // a number is a text there
		}
		text, failed := json.Marshal(one)
		all[w.Name], err = text, errors.Join(err, failed, check(w, kinds, config.KindIn(text)))
	}
	return all, errors.Join(err, reading.Faults().Err())
}

// check finds what is no profile.yaml, beside the keys that are the set's own. Where its
// kind is not known here that is keys that no kind has: these are faults of the set's reading.
func check(w plan.Wanted, kinds *config.Config, kind string) error {
	own := append(slices.Clone(plan.Keys), "labels")
	if kinds != nil && kinds.Gateway.KindNamed(kind) != nil {
		_, faults := kinds.DeclaredDefinition(config.Profile{Name: w.Name}, w.Node, own)
		return faults.Err()
	}
	fields := service.OverrideFields()
	for _, key := range append(slices.Collect(maps.Keys(fields)), own...) {
		fields[key] = func(document.Node) {}
	}
	fields.Read(w.Node)
	return nil
}

// compare makes a plan of what differs.
func compare(fleet, cluster string, set map[string][]byte, v *agent.View) (fleetPlan, error) {
	p := fleetPlan{Fleet: fleet, Cluster: cluster, Changes: []change{}}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		have, declared := v.Profiles[name]
		c := change{Name: name, Action: "create", New: set[name], Revision: have.Revision}
		switch {
		case declared && bytes.Equal([]byte(have.Text), set[name]):
			p.Unchanged++
			continue
		case declared:
			c.Action, c.Old = "update", json.RawMessage(have.Text)
		}
		p.Changes = append(p.Changes, c)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Profiles)) {
		if set[name] == nil {
			have := v.Profiles[name]
			p.Changes = append(p.Changes, change{Name: name, Action: "delete", Old: json.RawMessage(have.Text), Revision: have.Revision})
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return p, fmt.Errorf("cannot make a plan: a declaration in etcd is not JSON: %w", err)
	}
	p.Hash = fmt.Sprintf("sha256:%x", sha256.Sum256(text))
	return p, nil
}

// planned compares a file with what is declared.
func (o *options) planned(file string, st *store.Store, v *agent.View) (fleetPlan, error) {
	kinds := o.kinds()
	set, err := readSet(file, kinds)
	if err != nil {
		return fleetPlan{}, exit(control.ExitUsage, "%w", err)
	}
	p, err := compare(o.is.Store.Fleet, st.Cluster(), set, v)
	p.doubts(v, kinds, o.config)
	return p, err
}

// kinds are those of the configuration, if it has any and can be read.
func (o *options) kinds() *config.Config {
	bundle, err := config.ReadUntrusted(o.config)
	if c, faults := config.Parse(bundle, os.LookupEnv); err == nil && len(faults) == 0 && c.Gateway != nil {
		return c
	}
	return nil
}

// doubts is what may keep those from running that would change, as far as etcd and the
// kinds here can tell: labels that no member has, and kinds that nobody has yet.
func (p *fleetPlan) doubts(v *agent.View, kinds *config.Config, file string) {
	var known []string
	if kinds != nil {
		known = kinds.Gateway.KindNames()
	}
	for name, have := range v.Profiles {
		if v.Runs(name) {
			known = append(known, config.KindCalled(config.KindIn([]byte(have.Text))))
		}
	}
	empty := agent.NewView() // no member is full, or drained
	empty.Members = v.Members
	for _, c := range p.Changes {
		var is struct {
			State  service.Intent
			Labels map[string]string
		}
		if _ = json.Unmarshal(c.New, &is); is.State != service.Running { // or it is deleted
			continue
		}
		if kind := config.KindCalled(config.KindIn(c.New)); !slices.Contains(known, kind) {
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s: no profile of the kind %s runs in the fleet, and %s has no such kind%s",
				c.Name, kind, file, cmp.Or(document.DidYouMean(kind, known), ": each member must have it")))
		}
		empty.Profiles[c.Name] = agent.Profile{Labels: is.Labels}
		if len(v.Members) > 0 && !empty.Taken(c.Name) {
			p.untaken = append(p.untaken, c.Name+": "+status.NobodyTakes(empty, c.Name))
		}
	}
	p.Warnings = append(p.Warnings, p.untaken...)
}

func planVerb(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "plan FILE",
		Short: "show what an apply of a declared set would change",
		Long: `Shows what an apply of a declared set would change, and the hash that approves it. The
set is that of rlminit plan: version: 1, profiles: {NAME: {kind: …, environment: …}}.
labels: {KEY: VALUE} besides says which members may run a profile. Kinds and labels that no
member seems to have are warned of. Exit code 14 says that something would change.`,
		Args: cobra.ExactArgs(1),
		RunE: o.asking(&patience, func(cmd *cobra.Command, args []string, st *store.Store, v *agent.View) error {
			p, err := o.planned(args[0], st, v)
			if err != nil {
				return err
			}
			if err := o.write(cmd.OutOrStdout(), p, func(t *screen) { p.table(t, args[0]) }); err != nil {
				return err
			}
			if len(p.Changes) > 0 {
				return exitError{code: control.ExitPending}
			}
			return nil
		}),
	}
}

func (p fleetPlan) table(t *screen, file string) {
	marks := map[string]string{"create": "+", "update": "~", "delete": "-"}
	for _, c := range p.Changes {
		t.printf("%s %s\n", marks[c.Action], c.Name)
		if c.Action == "delete" {
			t.println("    stopped, and not declared any more; its data stays")
			continue
		}
		before, after := map[string]any{}, map[string]any{}
		_ = json.Unmarshal(c.Old, &before) // of what is created there is none
		_ = json.Unmarshal(c.New, &after)
		both := maps.Clone(before)
		maps.Copy(both, after)
		for _, key := range slices.Sorted(maps.Keys(both)) {
			if was, is := shown(before, key), shown(after, key); was != is {
				t.printf("    %s: %s -> %s\n", key, was, is)
			}
		}
	}
	for _, text := range p.Warnings {
		t.println("warning: " + text)
	}
	t.printf("%d to change, %d as declared\n", len(p.Changes), p.Unchanged)
	if len(p.Changes) > 0 {
		t.printf("approve with: rlminit fleet apply %s --approve %s\n", file, p.Hash)
	}
}

// shown is a value for people, without what an environment may have of secrets.
func shown(all map[string]any, key string) string {
	value, ok := all[key]
	if !ok {
		return "none"
	}
	if key == "environment" {
		if m, ok := value.(map[string]any); ok {
			return fmt.Sprintf("%d variables, %.8x", len(m), sha256.Sum256([]byte(fmt.Sprint(m))))
		}
	}
	text, _ := json.Marshal(value) // it was JSON
	return string(text)
}
