package verbs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/fleet/agent"
	"rlminit/fleet/store"
	"rlminit/plan"
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
}

// readSet reads a declared set: for each name, its declaration as JSON.
func readSet(path string) (map[string][]byte, error) {
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
		if len(w.Secrets) > 0 {
			return nil, fmt.Errorf("%s:%d: profiles.%s.secrets: etcd keeps no secrets; give them to the kind in each container", path, w.Node.Line(), w.Name)
		}
		one := map[string]any{}
		maps.Copy(one, w.Definition)
		if w.State != "" {
			one["state"] = w.State
		}
		if all[w.Name], err = json.Marshal(one); err != nil {
			return nil, err
		}
	}
	return all, nil
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

// planned connects, and compares a file with what is declared.
func (o *options) planned(ctx context.Context, file string) (*store.Store, fleetPlan, error) {
	set, err := readSet(file)
	if err != nil {
		return nil, fleetPlan{}, exit(control.ExitUsage, "%w", err)
	}
	st, s, err := o.open(ctx)
	if err != nil {
		return nil, fleetPlan{}, err
	}
	v, err := read(ctx, st)
	if err != nil {
		return nil, fleetPlan{}, errors.Join(exit(control.ExitNoAnswer, "%w", err), st.Close())
	}
	p, err := compare(s.Store.Fleet, st.Cluster(), set, v)
	return st, p, err
}

func planVerb(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "plan FILE",
		Short: "show what an apply of a declared set would change",
		Long: `Shows what an apply of a declared set would change, and the hash that approves it. The
set is that of rlminit plan: version: 1, profiles: {NAME: {kind: …, environment: …}}.
labels: {KEY: VALUE} besides says which members may run a profile. Exit code 14 says
that something would change.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, p, err := o.planned(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer st.Close()
			if err := o.write(cmd.OutOrStdout(), p, func(t *tabwriter.Writer) { p.table(t, args[0]) }); err != nil {
				return err
			}
			if len(p.Changes) > 0 {
				return exitError{code: control.ExitPending}
			}
			return nil
		},
	}
}

func (p fleetPlan) table(w io.Writer, file string) {
	marks := map[string]string{"create": "+", "update": "~", "delete": "-"}
	for _, c := range p.Changes {
		fmt.Fprintf(w, "%s %s\n", marks[c.Action], c.Name)
		if c.Action == "delete" {
			fmt.Fprintln(w, "    stopped, and not declared any more; its data stays")
			continue
		}
		before, after := map[string]any{}, map[string]any{}
		_ = json.Unmarshal(c.Old, &before) // of what is created there is none
		_ = json.Unmarshal(c.New, &after)
		both := maps.Clone(before)
		maps.Copy(both, after)
		for _, key := range slices.Sorted(maps.Keys(both)) {
			if was, is := shown(before, key), shown(after, key); was != is {
				fmt.Fprintf(w, "    %s: %s -> %s\n", key, was, is)
			}
		}
	}
	fmt.Fprintf(w, "%d to change, %d as declared\n", len(p.Changes), p.Unchanged)
	if len(p.Changes) > 0 {
		fmt.Fprintf(w, "approve with: rlminit fleet apply %s --approve %s\n", file, p.Hash)
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
