package member

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"rlminit/fleet/agent"
	"rlminit/fleet/status"
	"rlminit/metrics"
)

// note counts what has come of keep-alives and claims.
func (m *Member) note(in agent.Input) {
	switch in.Kind {
	case agent.Changed:
		m.revision = in.Revision
	case agent.Claimed:
		m.counts.Won++
	case agent.Taken:
		m.counts.Lost++
	case agent.Unsure:
		m.counts.Unsure++
	case agent.Granted, agent.Renewed:
		m.trouble = ""
		if in.Kind == agent.Renewed {
			m.counts.KeepAlives++
		}
		if in.Full {
			m.trouble = "etcd has no space left: what runs goes on, and nothing is started elsewhere; " + agent.Remedy
		}
	case agent.NotGranted:
		if m.trouble != in.Text {
			m.Log.Print(in.Text)
		}
		m.trouble = in.Text
	case agent.NotRenewed:
		m.counts.NotConfirmed++
		m.trouble = "etcd does not answer: " + in.Text
	case agent.Expired:
		m.counts.NotConfirmed++
		m.trouble = "etcd has ended the session of this member"
	}
	m.tell(in)
}

// tell says how the member is, if it is not as it was told last. How many profiles it has is
// said only when the box has answered: nothing may wait for one that does not.
func (m *Member) tell(in agent.Input) {
	text := m.trouble
	if lease, _ := m.agent.Session(); text == "" && lease != 0 {
		if in.Kind != agent.Seen {
			return
		}
		text = fmt.Sprintf("member %s of the fleet %s, profiles: %d", m.Config.Agent.Member, m.Fleet, len(m.agent.Held()))
	}
	if m.Tell != nil && text != "" && text != m.told {
		m.told = text
		m.Tell(text)
	}
}

// transfer moves data, and counts it. The counts of it are written by many.
func (m *Member) transfer(to *status.Transfers, move func() (bytes int64, err error)) error {
	begun := time.Now()
	bytes, err := move()
	m.moving.Lock()
	defer m.moving.Unlock()
	if err != nil || bytes > 0 {
		to.Add(begun, bytes, err)
	}
	return err
}

// snapshot is what the member knows now. The loop alone calls it.
func (m *Member) snapshot() status.Snapshot {
	_, until := m.agent.Session()
	s := status.Snapshot{
		Version: m.Config.Member.Version, Fleet: m.Fleet, Member: m.Config.Agent.Member,
		View: m.agent.View().Clone(), Revision: m.revision, Phases: map[agent.Phase]int{}, Deadline: until, Trouble: m.trouble,
		Etcd: m.Store.Asked(),
	}
	for _, h := range m.agent.Held() {
		s.Phases[h.Phase]++
	}
	m.moving.Lock()
	defer m.moving.Unlock()
	s.Counts = m.counts
	return s
}

// serve answers at Listen how the fleet is, until stop is called. An address that cannot be
// had is said, and nothing waits for it.
func (m *Member) serve() (stop func()) {
	if m.Listen == "" {
		return func() {}
	}
	listener, err := listen(m.Listen)
	if err != nil {
		m.Log.Printf("cannot listen at %s: %v; choose another address for listen", m.Listen, err)
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		err := metrics.Answer(listener, (&answers{member: m}).handler())
		select {
		case <-ended:
		default:
			m.Log.Printf("nothing is answered at %s any more: %v", m.Listen, err)
		}
	}()
	return func() {
		close(ended)
		listener.Close()
	}
}

// listen binds an address. A socket that an agent before has left is removed; who can enter
// its directory may connect.
func listen(at string) (net.Listener, error) {
	path, is := strings.CutPrefix(at, "unix:")
	if !is {
		return net.Listen("tcp", at)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		if conn, err := net.Dial("unix", path); err == nil {
			conn.Close()
			return nil, fmt.Errorf("somebody listens there already")
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o666)
	}
	return listener, err
}

// answers are what those are told who ask how the fleet is.
type answers struct {
	member *Member

	mu    sync.Mutex // held while the member is asked: one of many asks it
	last  status.Snapshot
	until time.Time // it is good for others
}

// Bounds of what those who ask may take of the agent's time.
const (
	fresh   = time.Second     // for how long at least what the member has said is good for others
	share   = 20              // and for so many times as long as it took
	patient = 5 * time.Second // how long an answer of the member is waited for
)

// snapshot is what the member knew a second ago or later. The agent copies its view for it,
// and decides nothing meanwhile, which may take a second with a million profiles: so that
// takes a twentieth of its time at most, however many ask. What is made of the copy takes
// nothing of it.
func (a *answers) snapshot(ctx context.Context) (status.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	begun := time.Now()
	if begun.Before(a.until) {
		return a.last, nil
	}
	answer := make(chan status.Snapshot, 1)
	select {
	case a.member.asks <- answer:
		a.last = <-answer
		a.until = time.Now().Add(max(fresh, share*time.Since(begun)))
		return a.last, nil
	case <-ctx.Done():
		return status.Snapshot{}, ctx.Err()
	}
}

func (a *answers) handler() http.Handler {
	mux := http.NewServeMux()
	answer := func(pattern string, write func(http.ResponseWriter, *http.Request, status.Snapshot)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if !named(r.Host) {
				http.Error(w, "this is not called so (a page of elsewhere could have its name point here): ask by an IP address, localhost, or the name of the host", http.StatusMisdirectedRequest)
				return
			}
			s, err := a.snapshot(r.Context())
			if err != nil {
				http.Error(w, "the agent is busy; try again", http.StatusServiceUnavailable)
				return
			}
			if s.Trouble != "" {
				w.Header().Set("Rlminit-Trouble", s.Trouble)
			}
			write(w, r, s)
		})
	}
	answer("GET /metrics", func(w http.ResponseWriter, r *http.Request, s status.Snapshot) {
		format := metrics.Accepted(r.Header.Get("Accept"))
		w.Header().Set("Content-Type", format)
		_ = status.Write(w, format, s, boottime()) // who goes away need not be told
	})
	list := func(pattern string, of func(*agent.View) any) {
		answer(pattern, func(w http.ResponseWriter, _ *http.Request, s status.Snapshot) {
			if s.Revision == 0 {
				http.Error(w, "the agent has not read the fleet yet", http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			_ = e.Encode(of(s.View)) // as above
		})
	}
	list("GET /status", func(v *agent.View) any { return status.Profiles(v) })
	list("GET /members", func(v *agent.View) any { return status.Members(v) })
	return mux
}

// named tells whether a Host header is one that no page of elsewhere can have point here
// (DNS rebinding): an address, the own machine, its name, or a name without a dot, which no
// public name server knows.
func named(host string) bool {
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host {
		return false
	}
	name := strings.ToLower(u.Hostname())
	own, _ := os.Hostname()
	_, err = netip.ParseAddr(name)
	return err == nil || name != "" && !strings.Contains(name, ".") || strings.HasSuffix(name, ".localhost") || name == strings.ToLower(own)
}
