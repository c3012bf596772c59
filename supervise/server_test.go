package supervise

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rlminit/wire"
)

// What there is not is told from what may not be done to it: RFC 9110, 15.5.6.
func TestUnknownRequests(t *testing.T) {
	routes := (&Supervisor{}).routes()
	for _, c := range []struct {
		method, path string
		status       int
		allow, says  string
	}{
		{"DELETE", "/v1/services/web", 405, "GET", "DELETE is not for /v1/services/web; use GET"},
		{"GET", "/v1/services/web/start", 405, "POST", "use POST"},
		{"PUT", "/v1/profiles/alice", 405, "DELETE, GET, PATCH", "use DELETE, GET, PATCH"},
		{"GET", "/v2/services", 404, "", "no such path: /v2/services"},
		{"POST", "/", 404, "", "no such path: /"},
	} {
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, httptest.NewRequest(c.method, "http://rlminit"+c.path, http.NoBody))
		if w.Code != c.status || w.Header().Get("Allow") != c.allow || !strings.Contains(w.Body.String(), c.says) ||
			!strings.Contains(w.Body.String(), `"exit_code":2`) || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d, allow %q, %s", c.method, c.path, w.Code, w.Header().Get("Allow"), w.Body)
		}
	}
}

// dialled is a listener for connections that are made in this process.
type dialled chan net.Conn

func (d dialled) Accept() (net.Conn, error) {
	if c, ok := <-d; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (d dialled) Close() error   { close(d); return nil }
func (d dialled) Addr() net.Addr { return &net.UnixAddr{Name: "test", Net: "unix"} }

// A body that does not come holds its connection for a bounded time, whether
// anybody wants to read it or not; and an answer may take longer than that.
func TestBodyThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		mux.HandleFunc("/refused", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
		mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
			if problem := readBody(w, r); problem != nil {
				answerProblem(w, problem)
			}
		})
		mux.HandleFunc("/long", func(w http.ResponseWriter, r *http.Request) {
			if problem := readBody(w, r); problem != nil {
				t.Error(problem)
			}
			select {
			case <-r.Context().Done():
			case <-time.After(time.Hour):
			}
		})
		server, connections := newServer(mux), make(dialled)
		go server.Serve(connections)
		defer server.Close()
		for _, c := range []struct {
			path, answer string
			length, sent int
			within       time.Duration
		}{
			{"/refused", "403", 50, 1, bodyTime},
			{"/read", "400", 50, 1, bodyTime},
			{"/long", "200", 2, 2, time.Hour},
		} {
			ours, theirs := net.Pipe()
			connections <- theirs
			began := time.Now()
			fmt.Fprintf(ours, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", c.path, c.length, strings.Repeat("x", c.sent))
			answer, err := io.ReadAll(ours)
			if took := time.Since(began); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+c.answer) || took < c.within || took > c.within+time.Minute {
				t.Errorf("%s: %q, %v after %s", c.path, answer, err, took)
			}
			ours.Close()
		}
	})
}

// A service that makes others, each with a tag of its own, keeps nobody out who
// may command.
func TestManyTagsKeepNobodyOut(t *testing.T) {
	b := &bounded{s: newSupervisor(&wire.Policy{User: wire.Identity{UID: 1000}}), open: map[peer]int{}}
	var admitted []peer
	for tag := uint32(50000); tag < 50100; tag++ {
		for range 2 * connectionsEach {
			if p := (peer{uid: 1000, tag: tag}); b.admit(p) {
				admitted = append(admitted, p)
			}
		}
	}
	user := peer{uid: 1000}
	if len(admitted) < 2*connectionsEach || !b.admit(user) {
		t.Errorf("of services %d connections are admitted, of the service user none", len(admitted))
	}
	b.release(user)
	for _, p := range admitted {
		b.release(p)
	}
	if b.total != 0 || b.rest != 0 || len(b.open) != 0 {
		t.Errorf("%d connections are counted, %d of services, though none is open", b.total, b.rest)
	}
}
