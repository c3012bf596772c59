package live

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rlminit/control"
)

// supervisor is one as far as this package asks it: it speaks the control socket's language.
type supervisor struct {
	mu       sync.Mutex
	services map[string]string // state by name
	events   []control.Event
	streams  int // that are open
	asked    int // requests for services
	news     *sync.Cond
	fails    bool // it answers nothing but that it cannot

	dir    string
	server *http.Server
}

func newSupervisor(t *testing.T) *supervisor {
	t.Helper()
	s := &supervisor{services: map[string]string{}, dir: t.TempDir()}
	s.news = sync.NewCond(&s.mu)
	if err := os.Chmod(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.set("a", "running")
	s.begin(t)
	t.Cleanup(func() { s.server.Close() })
	return s
}

// begin has it answer, after an end again.
func (s *supervisor) begin(t *testing.T) {
	t.Helper()
	path := filepath.Join(s.dir, control.SocketName)
	_ = os.Remove(path) // of the one before
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/services", func(w http.ResponseWriter, _ *http.Request) { s.all(w) })
	mux.HandleFunc("GET /v1/services/{name}", func(w http.ResponseWriter, r *http.Request) { s.one(w, r.PathValue("name")) })
	mux.HandleFunc("GET /v1/events", s.stream)
	s.server = &http.Server{Handler: mux}
	go s.server.Serve(l)
}

// set changes a service, "": removes it, and tells.
func (s *supervisor) set(name, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.services[name]
	if s.services[name] = state; state == "" {
		delete(s.services, name)
	}
	s.events = append(s.events, control.Event{Seq: uint64(len(s.events) + 1), Boot: "b", Type: "transition", Service: name, From: from, To: state})
	s.news.Broadcast()
}

func (s *supervisor) all(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.fails {
		http.Error(w, "no", http.StatusInternalServerError)
		return
	}
	list := []control.Service{}
	for name, state := range s.services {
		list = append(list, control.Service{Name: name, State: state})
	}
	_ = json.NewEncoder(w).Encode(list)
}

func (s *supervisor) one(w http.ResponseWriter, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	state, ok := s.services[name]
	if !ok {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(control.NoSuchName(name, nil))
		return
	}
	_ = json.NewEncoder(w).Encode(control.Service{Name: name, State: state})
}

// stream sends the last event and those that come.
func (s *supervisor) stream(w http.ResponseWriter, r *http.Request) {
	defer context.AfterFunc(r.Context(), s.news.Broadcast)()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams++
	defer func() { s.streams-- }()
	for next := len(s.events) - 1; r.Context().Err() == nil && !s.fails; s.news.Wait() {
		for ; next < len(s.events); next++ {
			_ = json.NewEncoder(w).Encode(s.events[next])
		}
		_ = http.NewResponseController(w).Flush()
	}
}

func (s *supervisor) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams
}

// board is a view of all services, as NAME=STATE.
type board struct {
	key  string
	size int // of what it sends besides, in bytes
}

func (b board) Key() string { return b.key }

func (b board) Full(_ context.Context, now *State) ([]byte, error) {
	var all []string
	for _, s := range now.Services {
		all = append(all, s.Name+"="+s.State)
	}
	return []byte("full " + strings.Join(all, " ") + strings.Repeat(".", b.size)), nil
}

func (b board) Changed(_ context.Context, now *State, batch Batch) ([]byte, error) {
	var all []string
	for name := range batch.Touched {
		s, _ := now.Service(name)
		all = append(all, name+"="+s.State)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return []byte(strings.Join(all, " ") + strings.Repeat(".", b.size)), nil
}

func hubOf(t *testing.T, s *supervisor) *Hub {
	t.Helper()
	h := New(NewSupervisor(control.At(s.dir)), t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); h.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return h
}

func openTab(t *testing.T, h *Hub, v View, seen *Position) *Tab {
	t.Helper()
	tab, err := h.Open(v, seen)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// hears waits until a tab is sent something with a text in it.
func hears(t *testing.T, tab *Tab, text string) Message {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case m := <-tab.Messages():
			tab.Sent(m)
			if strings.Contains(string(m.Data), text) {
				return m
			}
		case <-tab.Gone():
			t.Fatalf("the tab was let go before it heard %q", text)
		case <-deadline:
			t.Fatalf("the tab does not hear %q", text)
		}
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// Any number of tabs have one stream, and no tab has none.
func TestOneStream(t *testing.T) {
	s := newSupervisor(t)
	h := hubOf(t, s)
	if s.open() != 0 {
		t.Error("there is a stream before there is a tab")
	}
	var tabs []*Tab
	for i := range 20 {
		tabs = append(tabs, openTab(t, h, board{key: fmt.Sprint(i % 3)}, nil))
	}
	for _, tab := range tabs {
		hears(t, tab, "full a=running")
	}
	s.set("b", "failed")
	for _, tab := range tabs {
		hears(t, tab, "b=failed")
	}
	s.set("b", "")
	for _, tab := range tabs {
		hears(t, tab, "b=")
	}
	if n := s.open(); n != 1 {
		t.Errorf("there are %d streams", n)
	}
	for _, tab := range tabs {
		tab.Close()
	}
	eventually(t, "the stream is over", func() bool { return s.open() == 0 })
	if tabs, streaming := h.Tabs(); tabs != 0 || streaming {
		t.Errorf("there are %d tabs, and a stream: %v", tabs, streaming)
	}
	again := openTab(t, h, board{key: "again"}, nil)
	hears(t, again, "full a=running")
}

// Who comes back is sent what has happened since, and nothing if that is nothing; who was
// away for too long, or before another boot, everything.
func TestComeBack(t *testing.T) {
	s := newSupervisor(t)
	h := hubOf(t, s)
	stays := openTab(t, h, board{key: "x"}, nil)
	hears(t, stays, "full a=running")
	s.set("a", "stopping")
	seen, ok := ParsePosition(hears(t, stays, "a=stopping").ID)
	if !ok || seen.Seq != 2 || seen.Boot != "b" {
		t.Fatalf("the position is %v", seen)
	}
	s.set("b", "running")
	hears(t, stays, "b=running")
	back := openTab(t, h, board{key: "x"}, &seen)
	if m := hears(t, back, ""); string(m.Data) != "b=running" {
		t.Errorf("who comes back is sent %q", m.Data)
	}
	up, _ := ParsePosition("b.3")
	current := openTab(t, h, board{key: "x"}, &up)
	s.set("c", "running")
	if m := hears(t, current, ""); string(m.Data) != "c=running" {
		t.Errorf("who has missed nothing is sent %q", m.Data)
	}
	for _, old := range []Position{{"other", 2}, {"b", 99}, {"b", 0}} {
		if m := hears(t, openTab(t, h, board{key: "x"}, &old), ""); !strings.HasPrefix(string(m.Data), "full ") {
			t.Errorf("who comes from %v is sent %q", old, m.Data)
		}
	}
}

// A supervisor that ends and is back: tabs are told, and then sent everything.
func TestSupervisorIsReplaced(t *testing.T) {
	s := newSupervisor(t)
	h := hubOf(t, s)
	tab := openTab(t, h, board{key: "x"}, nil)
	hears(t, tab, "full a=running")
	s.server.Close()
	s.set("a", "failed")
	for m := hears(t, tab, ""); m.Event != Link || string(m.Data) == `""`; m = hears(t, tab, "") {
	}
	s.begin(t)
	hears(t, tab, "full a=failed")
	s.set("a", "running")
	hears(t, tab, "a=running")
}

// A supervisor that answers nothing for a while is asked now and then, however often its
// stream ends.
func TestSupervisorFails(t *testing.T) {
	s := newSupervisor(t)
	h := hubOf(t, s)
	tab := openTab(t, h, board{key: "x"}, nil)
	hears(t, tab, "full a=running")
	s.mu.Lock()
	s.fails, s.asked = true, 0
	s.news.Broadcast()
	s.mu.Unlock()
	began := time.Now()
	eventually(t, "some time has passed", func() bool { return time.Since(began) > 4*time.Second })
	s.mu.Lock()
	asked := s.asked
	s.fails = false
	s.mu.Unlock()
	if most := int(time.Since(began)/time.Second) + 3; asked > most {
		t.Errorf("it was asked %d times in %s", asked, time.Since(began))
	}
	s.set("a", "failed")
	hears(t, tab, "a=failed")
}

// A tab that does not read is let go, by the number of messages or by their bytes, and the
// others hear everything.
func TestSlowTab(t *testing.T) {
	for name, size := range map[string]int{"many": 0, "large": bytesMost / 8} {
		t.Run(name, func(t *testing.T) {
			s := newSupervisor(t)
			h := hubOf(t, s)
			v := board{key: "x", size: size}
			slow, quick := openTab(t, h, v, nil), openTab(t, h, v, nil)
			hears(t, quick, "full a=running")
			for i := range 2 * waitingMost {
				state := fmt.Sprintf("s%d", i)
				s.set("a", state)
				hears(t, quick, "a="+state)
				select {
				case <-slow.Gone():
					if i < 4 {
						t.Errorf("it was let go after %d messages", i)
					}
					slow.Close() // as its server does
					eventually(t, "one tab is left", func() bool { n, _ := h.Tabs(); return n == 1 })
					return
				default:
				}
			}
			t.Error("a tab that does not read is still there")
		})
	}
}

// There is a limit to tabs and to what they show.
func TestLimits(t *testing.T) {
	h := hubOf(t, newSupervisor(t))
	for i := range viewsMost {
		openTab(t, h, board{key: fmt.Sprint(i)}, nil)
	}
	if _, err := h.Open(board{key: "one more"}, nil); err != ErrFull {
		t.Errorf("one more view: %v", err)
	}
	for range tabsMost - viewsMost {
		openTab(t, h, board{key: "0"}, nil)
	}
	if _, err := h.Open(board{key: "0"}, nil); err != ErrFull {
		t.Errorf("one more tab: %v", err)
	}
}

// After the end nobody is let in, and nobody waits.
func TestEnd(t *testing.T) {
	s := newSupervisor(t)
	h := New(NewSupervisor(control.At(s.dir)), t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); h.Run(ctx) }()
	tab := openTab(t, h, board{key: "x"}, nil)
	hears(t, tab, "full")
	cancel()
	<-ended
	<-tab.Gone()
	tab.Close()
	if _, err := h.Open(board{key: "x"}, nil); err == nil {
		t.Error("a tab is let in after the end")
	}
	eventually(t, "the stream is over", func() bool { return s.open() == 0 })
}

// The figures that a tab is sent have three digits: what nobody reads is no change.
func TestRound(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 999: 999, 1234: 1230, 5_637_144: 5_640_000, 999_999: 1_000_000} {
		if got := round(n); got != want {
			t.Errorf("%d is rounded to %d", n, got)
		}
	}
}
