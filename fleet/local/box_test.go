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
	has := map[string]control.Deadline{"late": {AtNS: 20, Fence: "5"}, "other": {AtNS: 20, Fence: "6"}, "over": {AtNS: 9, Fence: "5"}}
	refused := []control.Unmoved{{Name: "late"}, {Name: "other"}, {Name: "over"}, {Name: "none"}}
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
	b := &Box{Client: at(t, mux)}
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
