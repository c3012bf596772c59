package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// oneOfEach has a kind with each of the keys that count once, at the beginning of a
// profile, beside a default kind that says the opposite.
const oneOfEach = `version: 1
user: "1000:1000"
gateway:
  command: [sleep, "1000000"]
  ports: 9200-9299
  initial_state: running
gateways:
  quiet: {command: [sleep, "2000000"], ports: off, initial_state: stopped, template: "${RLMINIT_HOME}/quiet"}
  loud: {command: [sleep, "3000000", "${PORT}"], ports: 9400-9409, initial_state: running}
`

// ways are the ways to make a profile of a kind, by name. Each makes one that has the name
// given.
var ways = []struct {
	name string
	made func(b *box.Box, name, kind string)
}{
	{"create", func(b *box.Box, name, kind string) { b.Must("profile", "create", name, "--kind", kind) }},
	{"apply", func(b *box.Box, name, kind string) {
		path, hash := planned(b, fmt.Sprintf("version: 1\nprofiles: {%s: {kind: %s}}\n", name, kind), "--scope", "profile/"+name)
		exits(b, control.ExitApplied, "apply", path, "--approve", hash)
	}},
	{"clone", func(b *box.Box, name, kind string) {
		b.Must("profile", "create", "of-"+name, "--kind", kind)
		b.Must("profile", "clone", "of-"+name, name)
	}},
	{"rename", func(b *box.Box, name, kind string) {
		b.Must("profile", "create", "was-"+name, "--kind", kind)
		b.Must("profile", "rename", "was-"+name, name)
	}},
	{"import", func(b *box.Box, name, kind string) {
		b.Must("profile", "create", "from-"+name, "--kind", kind)
		b.Shell(box.Service, "cd "+b.Home()+" && rlminit profile export from-"+name+" -o it.tar && rlminit profile import it.tar --as "+name)
	}},
	{"restore", func(b *box.Box, name, kind string) {
		b.Must("profile", "create", name, "--kind", kind)
		b.Must("profile", "delete", name)
		b.Must("profile", "restore", name)
	}},
	{"by hand", func(b *box.Box, name, kind string) {
		b.Shell(box.Service, fmt.Sprintf("mkdir -p %s/profiles/%s && echo 'kind: %s' >%[1]s/profiles/%[2]s/profile.yaml", b.Home(), name, kind))
		b.Must("reload")
	}},
	{"set", func(b *box.Box, name, kind string) {
		b.Must("profile", "create", name, "--kind", kind, "--env", "A=b")
		b.Must("profile", "set", name, "--unset", "A")
	}},
}

// OneDefinition: however a profile comes to be, the same kind gives the same definition and
// the same right to a port.
func OneDefinition(t *testing.T, start New) {
	b := start(t, box.Spec{Config: oneOfEach})
	b.Shell(box.Service, "mkdir -p "+b.Home()+"/quiet && echo seed >"+b.Home()+"/quiet/seed")
	for _, kind := range []string{"quiet", "loud"} {
		first, table := "", []string{}
		for i, way := range ways {
			name := fmt.Sprintf("%s%d", kind, i)
			way.made(b, name, kind)
			definition, port := shownDefinition(b, name)
			table = append(table, fmt.Sprintf("%s: port %d", way.name, port))
			if in := port >= 9400 && port <= 9409; in != (kind == "loud") || !in && port != 0 {
				t.Errorf("%s of kind %s by %s: port %d", name, kind, way.name, port)
			}
			definition = strings.NewReplacer(name, "NAME", fmt.Sprint(port), "PORT").Replace(definition)
			if i == 0 {
				first = definition
			} else if definition != first {
				t.Errorf("kind %s by %s:\n%s\nby %s:\n%s", kind, way.name, definition, ways[0].name, first)
			}
			seeded := b.As(box.Service, "test", "-e", b.Home()+"/profiles/"+name+"/seed").Code == 0
			if want := kind == "quiet" && way.name != "by hand"; seeded != want {
				t.Errorf("kind %s by %s: from the template: %v", kind, way.name, seeded)
			}
			b.Must("profile", "delete", name, "--purge")
			for _, other := range []string{"of-", "from-"} {
				b.Run("profile", "delete", other+name, "--purge")
			}
		}
		t.Log(kind, strings.Join(table, ", "))
	}
}

// shownDefinition is the definition of a profile's gateway as show has it, a field a line,
// and its port.
func shownDefinition(b *box.Box, name string) (text string, port int) {
	b.Helper()
	var shown []struct {
		Service    control.Service
		Definition []struct{ Field, Value string }
	}
	if err := json.Unmarshal([]byte(b.Must("show", name, "--json")), &shown); err != nil {
		b.Fatal(err)
	}
	var lines []string
	for _, f := range shown[0].Definition {
		lines = append(lines, f.Field+": "+f.Value)
	}
	slices.Sort(lines)
	if p := shown[0].Service.Port; p != nil {
		port = *p
	}
	return strings.Join(lines, "\n"), port
}
