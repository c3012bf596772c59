package local

import (
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"testing"

	"rlminit/control"
	"rlminit/fleet/agent"
)

// TestExtendOvertaken: a deadline that is refused since a later one has come through
// before it is not lost; one of another fence is, and one that is over.
func TestExtendOvertaken(t *testing.T) {
	has := map[string]control.Deadline{"gateway-late": {AtNS: 20, Fence: "5"}, "gateway-other": {AtNS: 20, Fence: "6"}, "gateway-over": {AtNS: 9, Fence: "5"}}
	refused := []control.Unmoved{{Name: "gateway-late"}, {Name: "gateway-other"}, {Name: "gateway-over"}, {Name: "gateway-none"}}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	mux.HandleFunc("POST /v1/deadlines", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, control.Prolonged{Refused: refused})
	})
	mux.HandleFunc("GET /v1/services/{name}", func(w http.ResponseWriter, r *http.Request) {
		d, ok := has[r.PathValue("name")]
		if !ok {
			answer(w, control.Service{})
			return
		}
		answer(w, control.Service{Deadline: &d})
	})
	client := at(t, mux)
	b := &Box{Client: client, Deadlines: client.Kept()}
	var all []agent.Deadline
	for _, name := range []string{"late", "other", "over", "none", "fine"} {
		all = append(all, agent.Deadline{Name: name, Fence: 5, At: 10})
	}
	lost, err := b.Extend(t.Context(), all)
	if err != nil || !slices.Equal(lost, []string{"other", "over", "none"}) {
		t.Errorf("lost: %q, %v", lost, err)
	}
}

// at has a handler answer at a control socket.
func at(t *testing.T, h http.Handler) *control.Client {
	t.Helper()
	client := control.At(t.TempDir()) // short enough for a socket
	l, err := net.Listen("unix", client.Socket())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return client
}

// TestStopWhileStopping: a box whose container is stopping refuses a stop, and ends the
// gateway by itself. Only once nothing is left of it is it stopped.
func TestStopWhileStopping(t *testing.T) {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	refused := control.Conflict("cannot stop anything: the container is stopping")
	mux.HandleFunc("POST /v1/services/{name}/stop", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, []control.Outcome{{Problem: refused}})
	})
	pid, asked := 7, 0
	left := []control.Service{{State: "running", PID: &pid}, {State: "stopping", PID: &pid}, {State: "backoff"}, {State: "stopped"}}
	mux.HandleFunc("GET /v1/services/{name}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, left[min(asked, len(left)-1)])
		asked++
	})
	b := &Box{Client: at(t, mux)}
	if err := b.Stop(t.Context(), "p"); err != nil || asked != len(left) {
		t.Errorf("after it was looked at %d times: %v", asked, err)
	}
}

// TestWhatIsNotTheFleets: a service and a profile that belong to no fleet are said to have
// their names, and neither is stopped, started or changed.
func TestWhatIsNotTheFleets(t *testing.T) {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", map[bool]string{true: "application/json", false: "application/problem+json"}[status == 200])
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	local, claimed := "local", "claimed"
	mux.HandleFunc("POST /v1/deadlines", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, control.Prolonged{}) })
	mux.HandleFunc("GET /v1/services", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, []control.Service{
			{Name: "plain", State: "running"},
			{Name: "gateway-odd", State: "running"},
			{Name: "gateway-local", Profile: &local, State: "running"},
			{Name: "gateway-claimed", Profile: &claimed, State: "running", Deadline: &control.Deadline{Fence: "3"}},
		})
	})
	refused := control.Refused("it belongs to no fleet")
	mux.HandleFunc("POST /v1/services/{name}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		var body control.Operate
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || !body.Claimed {
			t.Errorf("%s of %s is not for claimed profiles alone: %v", r.PathValue("verb"), r.PathValue("name"), err)
		}
		answer(w, refused.Status, refused)
	})
	mux.HandleFunc("GET /v1/profiles/{name}", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, control.Profile{Name: "local"}) })
	mux.HandleFunc("GET /v1/services/{name}/definition", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, control.Definition{}) })
	client := at(t, mux)
	b := &Box{Client: client, Deadlines: client.Kept()}
	runs, err := b.Seen(t.Context())
	var foreign []string
	for _, r := range runs {
		if r.Foreign {
			foreign = append(foreign, r.Name)
		}
	}
	if err != nil || !slices.Equal(foreign, []string{"local", "odd", "plain"}) {
		t.Errorf("foreign: %q, %v", foreign, err)
	}
	if made, err := b.Prepare(t.Context(), "local", agent.Profile{Text: `{"kind":"web"}`}); made || err == nil {
		t.Errorf("a local profile is prepared: %v, %v", made, err)
	}
	if err := b.Start(t.Context(), "plain", 1, 1); !Refused(err) {
		t.Errorf("a start: %v", err)
	}
	if err := b.Stop(t.Context(), "plain"); err != nil {
		t.Errorf("nothing of the fleet is left, and yet: %v", err)
	}
}
