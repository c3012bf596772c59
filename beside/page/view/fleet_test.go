package view

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"rlminit/beside/page/gate"
	"rlminit/beside/page/live"
	"rlminit/control"
)

// fleetPages are pages of a container whose agent is to answer there; "": it has none.
func fleetPages(t *testing.T, at string) *Pages {
	t.Helper()
	nobody := live.NewSupervisor(control.At(t.TempDir()))
	hub := live.New(nobody, t.TempDir())
	go hub.Run(t.Context())
	p, err := New(nobody, hub, Read, at)
	if err != nil {
		t.Fatal(err)
	}
	p.Behind(gate.New(gate.Settings{Listen: "unix:/page.sock"}, p.Refused))
	return p
}

func (p *Pages) get(path string) (int, string) {
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// agentAt answers as the agent of a fleet does, with lists that a test may change.
func agentAt(t *testing.T, listener net.Listener, lists map[string]string) {
	mux := http.NewServeMux()
	for _, path := range []string{"/status", "/members"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			if lists["trouble"] != "" {
				w.Header().Set("Rlminit-Trouble", lists["trouble"])
			}
			fmt.Fprint(w, lists[path])
		})
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux}}
	server.Start()
	t.Cleanup(server.Close)
}

const (
	someProfiles = `[{"name": "alice", "state": "running", "owner": "m0", "fence": 17},
{"name": "bob", "state": "waiting", "why": "no member takes it"},
{"name": "carol", "state": "stopped"},
{"name": "dave", "state": "starting", "owner": "m1", "fence": 18, "move_to": "m0", "failed": 2, "why": "it could not be started at m1 (2 in a row): exit code 3"},
{"name": "erin", "state": "waiting", "next": "m1", "why": "the next to claim it is m1"}]`
	someMembers = `[{"name": "m0", "state": "live", "profiles": 1, "weight": 2, "capacity": 50, "labels": {"zone": "a", "disk": "fast"}, "version": "1.2.3"},
{"name": "m1", "state": "gone", "profiles": 1, "weight": 1}]`
)

// ids are the rows, in their order.
func ids(html string) (all []string) {
	for _, m := range regexp.MustCompile(`<tr id="f-([^"]*)"`).FindAllStringSubmatch(html, -1) {
		all = append(all, m[1])
	}
	return all
}

// The page of the fleet has members and profiles, the ill ones first, and a filter.
func TestFleet(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		at := "127.0.0.1:0"
		if network == "unix" {
			at = filepath.Join(t.TempDir(), "fleet.sock")
		}
		l, err := net.Listen(network, at)
		if err != nil {
			t.Fatal(err)
		}
		lists := map[string]string{"/status": someProfiles, "/members": someMembers}
		agentAt(t, l, lists)
		if at = l.Addr().String(); network == "unix" {
			at = "unix:" + at
		}
		p := fleetPages(t, at)
		code, html := p.get("/fleet")
		if got := fmt.Sprint(ids(html)); code != 200 || got != "[bob dave erin alice carol]" {
			t.Errorf("%d, %s: %s", code, got, html)
		}
		for _, want := range []string{"disk=fast zone=a ", ">50<", ">any<", "m1 → m0", "exit code 3", "2 ill", `aria-current="page">Fleet</a>`, `data-live="live?view=fleet"`, `<tr data-tone="ill"><th scope="row">m1</th>`} {
			if !strings.Contains(html, want) {
				t.Errorf("there is no %s in %s", want, html)
			}
		}
		for query, want := range map[string]string{"state=ill": "[bob dave]", "q=M0": "[dave alice]", "q=m0&state=running": "[alice]", "q=nobody": "[]"} {
			if _, html := p.get("/fleet?" + query); fmt.Sprint(ids(html)) != want {
				t.Errorf("%s: %v, not %s", query, ids(html), want)
			}
		}
		if _, html := p.get("/nowhere"); !strings.Contains(html, `<a href="fleet">Fleet</a>`) {
			t.Errorf("the navigation has no fleet: %s", html)
		}
		lists["trouble"] = "cannot renew <b>"
		if _, html := p.get("/fleet"); !strings.Contains(html, "how the fleet was: cannot renew &lt;b&gt;") {
			t.Errorf("it is not said that etcd is lost: %s", html)
		}
	}
}

// Without a fleet there is no such page, and no entry of it.
func TestNoFleet(t *testing.T) {
	p := fleetPages(t, "")
	if code, html := p.get("/fleet"); code != 404 || strings.Contains(html, `href="fleet"`) || !strings.Contains(html, "there is no fleet to show") {
		t.Errorf("%d %s", code, html)
	}
}

// An agent that is gone, that is slow, or that is none, costs a line and a bounded time.
func TestFleetWithoutAgent(t *testing.T) {
	slow, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "[")
		for r.Context().Err() == nil {
			if _, err := fmt.Fprint(w, strings.Repeat("{},", 10_000)); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<script>alert(1)</script>", http.StatusTeapot)
	}))
	defer other.Close()
	away := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer away.Close()
	for at, want := range map[string]string{
		slow.Addr().String(): "deadline exceeded", gone.Addr().String(): "connection refused", "unix:/nowhere/fleet.sock": "no such file",
		endless.Listener.Addr().String(): "more than 20000 entries", other.Listener.Addr().String(): "418 I&#39;m a teapot: &lt;script&gt;alert", away.Listener.Addr().String(): "302 Found",
	} {
		begun := time.Now()
		code, html := fleetPages(t, at).get("/fleet")
		if took := time.Since(begun); code != 200 || !strings.Contains(html, "does not answer at") || !strings.Contains(html, want) || strings.Contains(html, "<script>") || took > 10*fleetTime {
			t.Errorf("%s: after %s: %d %s", at, took, code, html)
		}
	}
}

// What is named to do harm is shown as what it is.
func TestFleetEscaped(t *testing.T) {
	const nasty = `\"><script>alert(1)</script>\u202e\u001b[2J`
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	agentAt(t, l, map[string]string{
		"/status":  `[{"name": "` + nasty + `", "state": "` + nasty + `", "owner": "` + nasty + `", "move_to": "` + nasty + `", "why": "` + nasty + `"}]`,
		"/members": `[{"name": "` + nasty + `", "state": "` + nasty + `", "labels": {"` + nasty + `": "` + nasty + `"}, "version": "` + nasty + `"}]`,
		"trouble":  "<script>alert(1)</script>",
	})
	p := fleetPages(t, l.Addr().String())
	_, html := p.get("/fleet")
	fragment, err := p.whole("fleet", "").Full(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, html := range []string{html, string(fragment)} {
		if strings.Contains(html, "<script>") || strings.Count(html, "&lt;script&gt;") < 12 || strings.Count(html, `\u202e␛[2J`) < 8 {
			t.Errorf("something is not escaped: %s", html)
		}
	}
}

// The page asks the agent again with time, and sends what is another; what is not, once a
// minute.
func TestFleetGoesOn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string]string{"/status": someProfiles, "/members": someMembers}
	agentAt(t, l, lists)
	v := fleetPages(t, l.Addr().String()).whole("fleet", "")
	changed := func(b live.Batch) string {
		t.Helper()
		text, err := v.Changed(context.Background(), nil, b)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	tick := live.Batch{Tick: true}
	if html := changed(tick); fmt.Sprint(ids(html)) != "[bob dave erin alice carol]" || !strings.Contains(html, `data-only="rows" data-ids="f-bob f-dave f-erin f-alice f-carol "`) {
		t.Errorf("the first time it is %s", html)
	}
	if html := changed(tick); html != "" {
		t.Errorf("what has not changed is sent again: %s", html)
	}
	if html := changed(live.Batch{Touched: map[string]bool{"web": true}}); html != "" {
		t.Errorf("a change of a service sends %s", html)
	}
	lists["/status"] = strings.Replace(someProfiles, `"name": "bob", "state": "waiting"`, `"name": "bob", "state": "running"`, 1)
	if html := changed(tick); fmt.Sprint(ids(html)) != "[dave erin alice bob carol]" {
		t.Errorf("a change is shown as %s", html)
	}
	v.at = v.at.Add(-again)
	if changed(tick) == "" {
		t.Error("what has not changed is not sent again after a minute")
	}
	lists["/status"] = "["
	if html := changed(tick); !strings.Contains(html, "does not answer at") || len(ids(html)) != 0 || strings.Contains(html, "data-only") {
		t.Errorf("an agent that is gone is shown as %s", html)
	}
}
