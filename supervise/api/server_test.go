package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"rlminit/control"
	"rlminit/service"
	"rlminit/wire"
)

// listening has a server answer on a socket until the test ends, and returns its path.
func listening(t *testing.T, s *Server) string {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := s.http()
	go server.Serve(newBounded(listener, s))
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

// signalled takes signals, and nothing else.
type (
	signalled struct{ noServices }

	noServices interface{ Services }
)

func (signalled) Signal(name string, _ syscall.Signal) (control.Service, error) {
	return control.Service{Name: name}, nil
}

// A signal is answered with nothing, as it always was, and with the service where
// that is asked for.
func TestAnswerOfASignal(t *testing.T) {
	s := NewServer(&wire.Policy{User: wire.Identity{UID: uint32(os.Getuid())}}, nil)
	s.addServices(signalled{})
	at := listening(t, s)
	for query, want := range map[string]int{"": 204, "?show=true": 200} {
		conn, err := net.Dial("unix", at)
		if err != nil {
			t.Fatal(err)
		}
		go io.WriteString(conn, "POST /v1/services/web/signal"+query+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 16\r\n\r\n"+`{"signal":"HUP"}`)
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		var as control.Service
		_ = json.NewDecoder(r.Body).Decode(&as) // of 204 there is none
		if r.StatusCode != want || (as.Name == "web") != (want == 200) {
			t.Errorf("%q is answered with %d, %+v", query, r.StatusCode, as)
		}
		conn.Close()
	}
}

type nothing = Services // which has a method of its own name

// everything is a server that has every request, and nothing behind it.
func everything(user uint32) *Server {
	s := NewServer(&wire.Policy{User: wire.Identity{UID: user}}, callers{})
	s.Add(struct{ nothing }{}, struct{ Profiles }{}, nil, nil)
	return s
}

// What there is not is told from what may not be done to it: RFC 9110, 15.5.6.
func TestUnknownRequests(t *testing.T) {
	routes := everything(0).http().Handler
	for _, c := range []struct {
		method, path string
		status       int
		allow, says  string
	}{
		{"DELETE", "/v1/services/web", 405, "GET", "DELETE is not for /v1/services/web; use GET"},
		{"GET", "/v1/services/web/start", 405, "POST", "use POST"},
		{"PUT", "/v1/profiles/alice", 405, "DELETE, GET", "use DELETE, GET"},
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
			if problem := readBody(w, r, bodyMax); problem != nil {
				answerProblem(w, problem)
			}
		})
		mux.HandleFunc("/long", func(w http.ResponseWriter, r *http.Request) {
			if problem := readBody(w, r, bodyMax); problem != nil {
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

// What net/http and its ServeMux answer by themselves is a problem document too,
// and what a handler sends is left alone, whatever it looks like.
func TestEveryRefusalIsAProblem(t *testing.T) {
	const looksLikeIt = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	s := everything(uint32(os.Getuid()))
	s.mux.HandleFunc("GET /v1/log", func(w http.ResponseWriter, _ *http.Request) {
		http.NewResponseController(w).Flush()
		io.WriteString(w, looksLikeIt)
	})
	at := listening(t, s)
	const log = "GET /v1/log HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, c := range []struct {
		request string
		status  int
		says    string
	}{
		{"garbage\r\n\r\n", 400, "400 Bad Request"},
		{log + "garbage\r\n\r\n", 400, "400 Bad Request"},
		{"GET /v1/health HTTP/1.1\r\n\r\n", 400, "missing required Host header"},
		{"GET /v1/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "400 Bad Request"},
		{"GET /v1/health HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 2*headerMax) + "\r\n\r\n", 431, "Too Large"},
		{"GET /v1/health HTTP/2.0\r\nHost: x\r\n\r\n", 505, "unsupported protocol version"},
		{"POST /v1/profiles HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: rot13\r\n\r\n", 501, "Unsupported transfer encoding"},
		{"POST /v1/profiles HTTP/1.1\r\nHost: x\r\nExpect: a miracle\r\nContent-Length: 0\r\n\r\n", 417, "Expectation Failed"},
		{"CONNECT rlminit:80 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404, "no such path"},
		{"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404, "no such path: *"},
		{"GET //v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404, "no such path: //v1/health"},
		{"GET /v1/../v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404, "no such path: /v1/../v1/health"},
		{"GET /v1/events?type=transition&type=transitoin HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400, `no type of record "transitoin"; did you mean "transition"?`},
		{"GET /v1/events?n=few HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400, `cannot read "few" events; write a number`},
		{"GET /v1/events?follow=maybe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400, "follow=maybe: write true or false"},
		{"POST /v1/reload HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\n{}}", 400, "more than one JSON value"},
		{"POST /v1/reload HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 15\r\n\r\n{\"names\":[\"\xff\"]}", 400, "it is not UTF-8"},
		{"POST /v1/reload HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 20\r\n\r\n{\"names\":[\"\\ud83d\"]}", 400, `\ud83d is half of a character`},
	} {
		conn, err := net.Dial("unix", at)
		if err != nil {
			t.Fatal(err)
		}
		go io.WriteString(conn, c.request)
		in := bufio.NewReader(conn)
		if strings.HasPrefix(c.request, log) {
			r, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if content, err := io.ReadAll(r.Body); string(content) != looksLikeIt {
				t.Errorf("what a handler sent became %q, %v", content, err)
			}
		}
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%q: %v", c.request, err)
		}
		var p control.Problem
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil || r.StatusCode != c.status || p.Status != c.status ||
			r.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(p.Detail, c.says) || p.ExitCode != control.ExitUsage {
			t.Errorf("%.60q: %d, %v, %+v, %v", c.request, r.StatusCode, r.Header, p, err)
		}
		conn.Close()
	}
}

// A service that makes others, each with a tag of its own, keeps nobody out who
// may command.
func TestManyTagsKeepNobodyOut(t *testing.T) {
	b := newBounded(nil, everything(1000))
	var admitted []admission
	for tag := uint32(50000); tag < 50100; tag++ {
		for range 2 * connectionsEach {
			if a, ok := b.admit(peer{uid: 1000, tag: tag}); ok {
				admitted = append(admitted, a)
			}
		}
	}
	user, ok := b.admit(peer{uid: 1000})
	if len(admitted) < 2*connectionsEach || !ok || user.turned {
		t.Errorf("of services %d connections are admitted, of the service user none", len(admitted))
	}
	b.release(user)
	for _, p := range admitted {
		b.release(p)
	}
	if b.total != 0 || b.rest != 0 || b.turned != 0 || len(b.open) != 0 || len(b.away) != 0 {
		t.Errorf("%d connections are counted, %d of services, though none is open", b.total, b.rest)
	}
}

// A service that may command is counted as one that may; of any other so many requests are
// answered at once, and some more are told that they are too many.
func TestServicesAboveTheirBound(t *testing.T) {
	const all, some = 50001, 50002
	s := NewServer(&wire.Policy{User: wire.Identity{UID: 1000}, TagLow: 50000, TagHigh: 59999}, callers{all: service.ControlAll, some: service.ControlOperate})
	b := newBounded(nil, s)
	count := func(tag uint32, n int) (served, turned int) {
		for range n {
			switch a, ok := b.admit(peer{uid: 1000, tag: tag}); {
			case a.turned && ok:
				turned++
			case ok:
				served++
			}
		}
		return served, turned
	}
	if served, turned := count(some, 300); served != connectionsEach || turned != turnedEach {
		t.Errorf("of one who may not command %d are served and %d turned away", served, turned)
	}
	rest, late := 0, 0 // of services that may not command, all together; of those that come late
	for tag := uint32(50100); tag < 50200; tag++ {
		served, _ := count(tag, connectionsEach)
		rest += served
		if served == 1 { // its first
			late++
		}
	}
	if full := connectionsRest/connectionsEach - 1; rest != connectionsRest-connectionsEach+late || late != 100-full || b.turned != turnedMax {
		t.Errorf("of all that may not command %d are served beside the first, %d of them one, and %d turned away", rest, late, b.turned)
	}
	if served, turned := count(all, 300); served != 300 || turned != 0 {
		t.Errorf("of one who may command %d are served and %d turned away", served, turned)
	}
}

// Services that hold as many connections as they can get, some with processes of several
// uids, leave one to each other service, and the rest to whoever may command.
func TestHogsOfConnections(t *testing.T) {
	s := NewServer(&wire.Policy{User: wire.Identity{UID: 1000}, TagLow: 50000, TagHigh: 59999}, callers{50001: service.ControlAll, 50002: service.ControlAll})
	b := newBounded(nil, s)
	hold := func(p peer, n int) (served int) {
		for range n {
			if a, ok := b.admit(p); ok && !a.turned {
				served++
			}
		}
		return served
	}
	figures := map[string]int{"a service that may command": hold(peer{1000, 50001}, 2000)}
	for tag := uint32(50100); tag < 50200; tag++ {
		figures["others"] += hold(peer{1000, tag}, 100) + hold(peer{2000, tag}, 100)
	}
	figures["its neighbour"] = hold(peer{1000, 50003}, 1)
	figures["its neighbour that may command"] = hold(peer{1000, 50002}, 1)
	figures["the service user"] = hold(peer{uid: 1000}, 1)
	figures["root"] = hold(peer{}, 100)
	want := map[string]int{
		"a service that may command": connectionsOne, "its neighbour": 1, "its neighbour that may command": 1, "the service user": 1, "root": 100,
	}
	for who, n := range want {
		if figures[who] != n {
			t.Errorf("%s has %d connections, want %d", who, figures[who], n)
		}
	}
	if got := figures["others"]; got < connectionsRest || got > connectionsRest+100 {
		t.Errorf("100 services that may not command have %d", got)
	}
}

// Whoever is above the bounds is told so, may ask again, and has had nothing done.
func TestTooManyAtOnce(t *testing.T) {
	s := everything(1000)
	b := newBounded(nil, s)
	for range connectionsMax {
		b.admit(peer{uid: 1000})
	}
	a, ok := b.admit(peer{uid: 1000})
	r := httptest.NewRequest("POST", "http://rlminit/v1/shutdown", http.NoBody)
	r = r.WithContext(context.WithValue(r.Context(), connectionKey{}, &counted{turned: a.turned}))
	w := httptest.NewRecorder()
	s.http().Handler.ServeHTTP(w, r)
	var p control.Problem
	err := json.NewDecoder(w.Body).Decode(&p)
	if !ok || err != nil || w.Code != 503 || w.Header().Get("Retry-After") != "1" || p.Type != "urn:rlminit:busy" || !p.Retryable {
		t.Errorf("%v, %d, %v, %+v, %v", ok, w.Code, w.Header(), p, err)
	}
}

// An escape that is half of a character would become another text in silence.
func TestLoneSurrogates(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                         "",
		`"\u00e4 \\ud800 \n \""`:     "", // an escaped backslash, and letters
		`"\ud83d\ude00"`:             "",
		`"\uD83D\uDE00\ud83d\ude00"`: "",
		`"\ud83d"`:                   `\ud83d`,
		`"\ud83d\u0061"`:             `\ud83d`,
		`"\ud83dx\ude00"`:            `\ud83d`,
		`"\ude00"`:                   `\ude00`,
		`"\ud83d\ud83d\ude00"`:       `\ud83d`,
		`"\ud83d\ude00\udE00"`:       `\udE00`,
		`"\\\ud83d"`:                 `\ud83d`,
		`"\ud8`:                      "", // cut short: no JSON
	} {
		if got := loneSurrogate([]byte(text)); got != want {
			t.Errorf("%s: %q, not %q", text, got, want)
		}
	}
}
