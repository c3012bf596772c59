package page

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// agent answers as the agent of a fleet does, at a socket; the agent itself is tried in
// fleet/member.
type agent struct {
	mu   sync.Mutex
	list string
}

func (a *agent) say(list string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = list
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.URL.Path == "/status" {
		fmt.Fprint(w, a.list)
		return
	}
	fmt.Fprint(w, `[{"name": "m0", "state": "live", "profiles": 2, "weight": 1, "capacity": 50, "labels": {"zone": "a"}}, {"name": "m1", "state": "gone", "profiles": 1, "weight": 1}]`)
}

// The page of the fleet has no complaint of the browser's, fits on a phone, keeps what the
// filter says, and changes by itself.
func TestFleet(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "rlminit-page-fleet-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "fleet.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o755, socket: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	const others = `{"name": "bob", "state": "waiting", "why": "no member takes it"}, {"name": "carol", "state": "stopped"}`
	a := &agent{list: `[{"name": "alice", "state": "running", "owner": "m0", "fence": 17}, ` + others + `]`}
	server := &http.Server{Handler: a}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	s := start(t, "read", "fleet: {name: f, listen: \"unix:"+socket+"\"}\n")
	b := s.enter(t)
	b.run(`document.querySelector("nav a[href='fleet']").click()`)
	b.awaitTrue(`document.querySelector("#f-bob")`)
	for _, scheme := range []string{"dark", "light"} {
		b.as(1280, 900, scheme)
		b.checkRules("/fleet, " + scheme)
	}
	b.as(360, 740, "light")
	if wide := b.text("document.documentElement.scrollWidth"); wide != "360" {
		t.Errorf("it is %s wide on a phone", wide)
	}
	const rows = `[...document.querySelectorAll("#rows tr")].filter((r) => !r.hidden).map((r) => r.id).join(" ")`
	if order := b.text(rows); order != "f-bob f-alice f-carol" {
		t.Errorf("the order is %s", order)
	}
	b.run(`document.querySelector("#state").value = "ill"; document.querySelector("#state").dispatchEvent(new Event("change"))`)
	b.awaitTrue(`document.querySelector("#fits").textContent === "1 profile fits"`)
	a.say(`[{"name": "alice", "state": "starting", "owner": "m1", "fence": 18, "failed": 1, "why": "it could not be started"}, {"name": "dave", "state": "running", "owner": "m0"}, ` + others + `]`)
	b.awaitTrue(rows + ` === "f-alice f-bob" && document.querySelector("#fits").textContent === "2 profiles fit"`)
	a.say(`[` + others + `]`)
	b.awaitTrue(`!document.querySelector("#f-alice") && !document.querySelector("#f-dave")`)
	l.Close()
	b.awaitTrue(`document.querySelector("#fleet").textContent.includes("does not answer at unix:")`)
	b.quiet()
}
