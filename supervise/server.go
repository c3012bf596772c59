package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"rlminit/control"
)

// Bounds of what a client may take.
const (
	bodyMax         = 1 << 20
	headerMax       = 16 << 10
	headerTime      = 5 * time.Second
	bodyTime        = 10 * time.Second
	connectionsMax  = 1024
	connectionsEach = 32  // of one caller who may not command
	connectionsRest = 512 // of all of them: a service can make others
)

// serve answers on the control socket that PID 1 holds.
func (s *Supervisor) serve(fd int) error {
	file := os.NewFile(uintptr(fd), "control")
	listener, err := net.FileListener(file)
	file.Close()
	if err != nil {
		return fmt.Errorf("cannot use the control socket: %w", err)
	}
	if unix, ok := listener.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false)
	}
	server := newServer(s.routes())
	server.ConnContext = withPeer
	go func() {
		if err := server.Serve(&bounded{Listener: listener, s: s, open: map[peer]int{}}); err != nil {
			slog.Error("the control socket is no longer served", "err", err)
		}
	}()
	return nil
}

// newServer is a server that no caller can hold up.
func newServer(h http.Handler) *http.Server {
	h = answering(h)
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// For the body, also of a request that is refused before it is read:
			// net/http reads on before it sends the answer. See readBody.
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
			h.ServeHTTP(w, r)
		}),
		ConnState: answered,
		// OPTIONS * is answered as any other path that there is not.
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            headerTime,
		IdleTimeout:                  30 * time.Second,
		MaxHeaderBytes:               headerMax,
		ErrorLog:                     slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
}

// bounded is a listener that closes at once what is above the bounds, so that
// no caller can keep the others out.
type bounded struct {
	net.Listener
	s *Supervisor

	mu    sync.Mutex
	total int
	rest  int // of those who may not command
	open  map[peer]int
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		p, err := b.s.peerOf(conn)
		if err == nil && b.admit(p) {
			return &counted{UnixConn: conn.(*net.UnixConn), peer: p, release: func() { b.release(p) }}, nil
		}
		conn.Close()
	}
}

func (b *bounded) admit(p peer) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.uid != 0 && b.total >= connectionsMax {
		return false
	}
	if !b.commander(p) {
		if b.open[p] >= connectionsEach || b.rest >= connectionsRest {
			return false
		}
		b.rest++
	}
	b.total++
	b.open[p]++
	return true
}

// commander tells whether p is one who may command, as far as the kernel knows.
func (b *bounded) commander(p peer) bool {
	return p.uid == 0 || p.uid == b.s.policy.User.UID && p.tag == 0
}

func (b *bounded) release(p peer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total--
	if !b.commander(p) {
		b.rest--
	}
	if b.open[p]--; b.open[p] == 0 {
		delete(b.open, p)
	}
}

// counted is a connection that knows its peer, and says once when it is closed.
type counted struct {
	*net.UnixConn
	peer    peer
	ours    atomic.Bool // what is written is a handler's: see refusal.go
	once    sync.Once
	release func()
}

func (c *counted) Close() error {
	err := c.UnixConn.Close()
	c.once.Do(c.release)
	return err
}

// handler answers a request with a value to be sent as JSON, or a problem. A
// nil value is 204.
type handler func(*http.Request) (any, error)

// may says what a peer must be allowed to do.
type may int

const (
	mayStatus  may = iota // also: a service, of itself; with access.read: all, anyone
	mayCommand            // root and the service user
)

// route wraps a handler: who may call it, and how its answer is sent.
func (s *Supervisor) route(needs may, h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if problem := s.permit(r, needs); problem != nil {
			answerProblem(w, problem)
			return
		}
		if problem := readBody(w, r); problem != nil {
			answerProblem(w, problem)
			return
		}
		value, err := h(r)
		var problem *control.Problem
		switch {
		case errors.As(err, &problem):
			answerProblem(w, problem)
		case err != nil:
			answerProblem(w, control.Failed("%v", err))
		case value == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			answerJSON(w, http.StatusOK, "application/json", value)
		}
	}
}

// permit tells whether the peer of a request may do what needs says.
func (s *Supervisor) permit(r *http.Request, needs may) *control.Problem {
	p := r.Context().Value(peerKey{}).(peer)
	if p.uid == 0 && p.tag == 0 {
		return nil
	}
	if p.tag != 0 {
		name := fmt.Sprintf("a process with group %d", p.tag)
		allowed := false
		s.ask(func() {
			if u := s.tags[p.tag]; u != nil {
				name = u.name
				own := r.PathValue("name") != "" && s.find(r.PathValue("name")) == u
				allowed = u.ours && u.definition.Control || needs == mayStatus && own
			}
		})
		if allowed {
			return nil
		}
		return control.TaggedCaller(name)
	}
	if p.uid == s.policy.User.UID || needs == mayStatus && s.config().ReadAll {
		return nil
	}
	return control.WrongUser(p.uid, s.policy.User.UID)
}

// readBody reads all of a request's body, in bounded time and memory. Then the
// deadline is taken back: net/http takes one that passes for the end of the
// connection, and an answer may be long in coming.
func readBody(w http.ResponseWriter, r *http.Request) *control.Problem {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	if err == nil {
		http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return control.TooLarge(bodyMax)
	}
	if err != nil {
		return control.BadRequest("cannot read the request: %v", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// decode reads a JSON body strictly. An absent body leaves v as it is.
func decode(r *http.Request, v any) error {
	in := json.NewDecoder(r.Body)
	in.DisallowUnknownFields()
	if err := in.Decode(v); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return control.BadRequest("cannot understand the request: %v", err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return control.BadRequest("cannot understand the request: more than one JSON value")
	}
	return nil
}

// askedFor reads a yes or no of a request's query; absent is no.
func askedFor(r *http.Request, what string) (bool, error) {
	value := r.URL.Query().Get(what)
	if value == "" {
		return false, nil
	}
	yes, err := strconv.ParseBool(value)
	if err != nil {
		return false, control.BadRequest("%s=%s: write true or false", what, value)
	}
	return yes, nil
}

func answerProblem(w http.ResponseWriter, p *control.Problem) {
	answerJSON(w, p.Status, "application/problem+json", p)
}

func answerJSON(w http.ResponseWriter, status int, kind string, value any) {
	content, err := json.Marshal(value)
	if err != nil {
		slog.Error("cannot encode an answer", "err", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(bodyTime))
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	w.Write(append(content, '\n'))
}
