package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/service"
)

func listDependenciesVerb(t *terminal) *cobra.Command {
	reverse := false
	cmd := &cobra.Command{
		Use:   "list-dependencies [NAME…]",
		Short: "show dependencies of services as a tree",
		Long: `Shows as a tree what each service requires, wants or starts after; with
--reverse what requires it, wants it or starts after it. Without NAME it begins
with the services that no other one starts after (with --reverse: that start
after none).

With --json: an array of objects with service, profile, state, requires, wants
and after, of the named services, or of all.`,
		Example: `  rlminit list-dependencies alice
  rlminit list-dependencies --reverse database`,
		ValidArgsFunction: completeServices,
		RunE: t.asking(func(cmd *cobra.Command, names []string, client *control.Client) error {
			all, err := client.Dependencies(cmd.Context())
			if err != nil {
				return err
			}
			f := newForest(all, reverse)
			worst := 0
			var roots []string
			for _, name := range once(names) {
				if full, known := f.find(name); known {
					roots = append(roots, full)
				} else {
					worst = max(worst, t.report(control.NoSuchName(name, f.names())))
				}
			}
			if len(names) == 0 {
				roots = f.roots()
			}
			if t.json {
				return printDependencies(t, all, roots, len(names) > 0, worst)
			}
			for _, root := range roots {
				f.print(t, root, "", "", "", nil)
			}
			return status(worst)
		}),
	}
	cmd.Flags().BoolVar(&reverse, "reverse", false, "show what depends on a service")
	return formatted(t, forPrograms(t, cmd, "write a JSON array"))
}

func printDependencies(t *terminal, all []control.Dependencies, roots []string, named bool, worst int) error {
	chosen := []control.Dependencies{}
	for _, d := range all {
		if !named || slices.Contains(roots, d.Service) {
			chosen = append(chosen, d)
		}
	}
	return cmp.Or(t.printJSON(chosen), status(worst))
}

// edge leads to a service that another one comes after, or the reverse.
type edge struct {
	to, kind string // kind: requires, wants, after
}

// forest is the graph of dependencies, to be shown as trees.
type forest struct {
	all   map[string]control.Dependencies
	order []string
	edges map[string][]edge
	into  map[string]int // how many edges lead to it
	shown map[string]bool
}

func newForest(all []control.Dependencies, reverse bool) *forest {
	f := &forest{all: map[string]control.Dependencies{}, edges: map[string][]edge{}, into: map[string]int{}, shown: map[string]bool{}}
	for _, d := range all {
		f.all[d.Service] = d
		f.order = append(f.order, d.Service)
	}
	for _, d := range all {
		seen := map[string]bool{}
		for _, list := range []struct {
			kind  string
			names []string
		}{{"requires", d.Requires}, {"wants", d.Wants}, {"after", d.After}} {
			for _, name := range list.names {
				if seen[name] {
					continue // the strongest edge is shown
				}
				seen[name] = true
				from, to := d.Service, name
				if reverse {
					from, to = to, from
				}
				f.edges[from] = append(f.edges[from], edge{to, list.kind})
				f.into[to]++
			}
		}
	}
	return f
}

// find returns the service of a name as a person writes it.
func (f *forest) find(name string) (string, bool) {
	for _, full := range []string{name, service.GatewayPrefix + name} {
		if _, ok := f.all[full]; ok {
			return full, true
		}
	}
	return "", false
}

func (f *forest) names() []string {
	var names []string
	for _, name := range f.order {
		names = append(names, strings.TrimPrefix(name, service.GatewayPrefix))
	}
	return names
}

// roots are the services that no edge leads to; where all are on a circle, all.
func (f *forest) roots() []string {
	var roots []string
	for _, name := range f.order {
		if f.into[name] == 0 {
			roots = append(roots, name)
		}
	}
	if roots == nil {
		return f.order
	}
	return roots
}

// print shows a service and what is below it, that only the first time: where many
// paths lead to one, its tree would be there as many times.
func (f *forest) print(t *terminal, name, lead, below, kind string, path []string) {
	d, known := f.all[name]
	line := lead + t.paint("", strings.TrimPrefix(name, service.GatewayPrefix))
	switch {
	case !known:
		line += " " + t.paint(red, "(no such service)")
	default:
		line += " " + t.paint(stateColour(d.State), d.State)
	}
	if kind != "" {
		line += " " + t.paint(faint, "("+kind+")")
	}
	if slices.Contains(path, name) {
		t.printf("%s %s\n", line, t.paint(red, "(a circle)"))
		return
	}
	if f.shown[name] && len(f.edges[name]) > 0 {
		t.printf("%s %s\n", line, t.paint(faint, "(as above)"))
		return
	}
	f.shown[name] = true
	t.printf("%s\n", line)
	path = append(path[:len(path):len(path)], name)
	for i, e := range f.edges[name] {
		branch, next := "├─ ", "│  "
		if i == len(f.edges[name])-1 {
			branch, next = "└─ ", "   "
		}
		f.print(t, e.to, below+branch, below+next, e.kind, path)
	}
}
