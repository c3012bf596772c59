package supervise

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"rlminit/control"
)

var everyKind = flag.Bool("everykind", false, "explore kinds in every graph, and not in a fifth of them")

const (
	withWeb    = "version: 1\nuser: app\ngateway: {command: [default]}\ngateways: {web: {command: [%s]}}\n"
	withoutWeb = "version: 1\nuser: app\ngateway: {command: [default]}\n"
)

// graph is who requires whom of three profiles: bit 3*i+j for i requires j.
type graph int

func (g graph) requires(i, j int) bool { return i != j && g&(1<<(3*i+j)) != 0 }

// reaches tells whom i comes to over requires.
func (g graph) reaches(i int, seen map[int]bool) map[int]bool {
	for j := range 3 {
		if g.requires(i, j) && !seen[j] {
			seen[j] = true
			g.reaches(j, seen)
		}
	}
	return seen
}

// expected is the state that a profile comes to, of which failed have no kind: it waits
// for those, and for whoever waits for itself.
func (g graph) expected(i int, failed [3]bool) string {
	if failed[i] {
		return "failed"
	}
	on := g.reaches(i, map[int]bool{})
	for j := range on {
		if failed[j] || g.reaches(j, map[int]bool{})[j] {
			return "waiting"
		}
	}
	return "running"
}

// Three profiles require each other in every way there is, each of a kind that is there or
// is not. None is ever run as another kind than its own, whatever is missing; who waits
// for one that is missing waits; and when the kind is back all is as if it had never gone.
func TestKindsInEveryGraph(t *testing.T) {
	p := newPlace(t, fmt.Sprintf(withWeb, "web"))
	p.open()
	p.now.Registry.TakeUp()
	names := [3]string{"a", "b", "c"}
	for _, name := range names {
		if _, err := p.create(`{"name": "` + name + `", "stopped": true}`); err != nil {
			t.Fatal(err)
		}
	}
	reload := func(yaml string) {
		p.configure(p.home, yaml)
		if _, err := p.now.Registry.Reload(control.Reload{}); err != nil {
			t.Fatal(err)
		}
	}
	all := func(verb string) {
		if _, _, err := p.now.backend.Operate(t.Context(), verb, "all", control.Operate{Names: names[:]}, control.Actor{}); err != nil {
			t.Fatal(err)
		}
	}
	stop := func() { // and wait: a start that comes before the end of a stop takes it back
		all("stop")
		for _, name := range names {
			p.eventually(name+" is down", func() (bool, any) {
				got, _ := p.state("gateway-" + name)
				return got == "stopped" || got == "failed", got
			})
		}
	}
	kinds := [3]string{"", "web", "gone"}
	rounds := 0
	for g := range graph(1 << 9) {
		if g&(1<<0|1<<4|1<<8) != 0 { // nobody requires itself: that is a fault of the file
			continue
		}
		for of := range 27 {
			if (int(g)+of)%5 != 0 && !*everyKind {
				continue
			}
			rounds++
			is := [3]string{kinds[of%3], kinds[of/3%3], kinds[of/9]}
			var failed, web [3]bool
			for i, name := range names {
				var text strings.Builder
				if is[i] != "" {
					text.WriteString("kind: " + is[i] + "\n")
				}
				var requires []string
				for j, other := range names {
					if g.requires(i, j) {
						requires = append(requires, "gateway-"+other)
					}
				}
				if len(requires) > 0 {
					text.WriteString("requires: [" + strings.Join(requires, ", ") + "]\n")
				}
				p.write("profiles/"+name+"/profile.yaml", text.String())
				failed[i], web[i] = is[i] == "gone", is[i] == "web"
			}
			check := func(when string, failed [3]bool) {
				for i, name := range names {
					p.eventually(fmt.Sprintf("%s: graph %09b, kinds %q: %s is %s", when, int(g), is, name, g.expected(i, failed)), func() (bool, any) {
						got, _ := p.state("gateway-" + name)
						return got == g.expected(i, failed), got
					})
					program := map[string]string{"": "default", "web": "web"}[is[i]]
					p.mu.Lock()
					if ran := p.ran["gateway-"+name]; g.expected(i, failed) == "running" && ran != program && ran != program+"2" {
						t.Fatalf("%s: graph %09b, kinds %q: %s runs as %s", when, int(g), is, name, ran)
					}
					p.mu.Unlock()
				}
			}
			reload(fmt.Sprintf(withWeb, "web"))
			all("start")
			check("at first", failed)

			// The kind goes under way: what runs goes on as it was, and what waits is failed.
			now := failed
			for i := range names {
				now[i] = failed[i] || web[i] && g.expected(i, failed) != "running"
			}
			reload(withoutWeb)
			check("the kind is gone", now)
			stop()

			// And comes back, as another command.
			reload(fmt.Sprintf(withWeb, "web2"))
			all("start")
			check("the kind is back", failed)
			stop()
		}
	}
	t.Logf("figure: %d rounds", rounds)
}
