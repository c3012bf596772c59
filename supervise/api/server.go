package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/threads"
	"rlminit/wire"
)

// Bounds of what a client may take.
const (
	bodyMax         = 1 << 20
	jobMax          = 4 << 20  // a command of the longest, in JSON
	planMax         = 32 << 20 // a plan of thousands of profiles, of who may apply it
	headerMax       = 16 << 10
	headerTime      = 5 * time.Second
	bodyTime        = 10 * time.Second
	uploadTime      = time.Minute // for the next part of a body that is read as it comes
	connectionsMax  = 1024
	connectionsOver = 512 // more, for callers who have none
	connectionsOne  = 512 // of one service that may command
	connectionsEach = 32  // of one caller who may not
	connectionsRest = 512 // of all of them: a service can make others
	turnedEach      = 32  // of one caller: connections above the bounds that are told so
	turnedMax       = 128 // of all callers
)

// deadlinesPath is the path of a request that waits for no turn: what it comes too late for
// ends.
const deadlinesPath = "/v1/deadlines"

// Server is the control socket's requests, and who may make which.
type Server struct {
	mux   *http.ServeMux
	known Callers
	user  uint32 // who may command beside root
	page  uint32 // the uid of the page, which its tag tells too; 0: it has none
	low   uint32 // the tags, both included; 0: there are none
	high  uint32
	door  door
}

// Callers tells who is behind a connection.
type Callers interface {
	// Caller is the service that a uid and a tag are of, what it may ask, and whether
	// it is the one that name means. service is "" where nobody has the tag.
	Caller(uid, tag uint32, name string) (service string, may service.Control, itself bool)
	// Commander tells whether a uid and a tag are those of a service that may command. It
	// waits for nothing.
	Commander(uid, tag uint32) bool
	// ReadAll tells whether anybody may see every status.
	ReadAll() bool
	// Applies tells whether a uid that may not command may apply plans.
	Applies(uid uint32) bool
}

// NewServer is a server that answers nothing yet.
func NewServer(policy *wire.Policy, known Callers) *Server {
	return &Server{mux: http.NewServeMux(), known: known, user: policy.User.UID, page: policy.Profiles.Page, low: policy.TagLow, high: policy.TagHigh}
}

// Handle adds a request: a pattern of net/http, who may make it, and what
// answers it.
func (s *Server) Handle(pattern string, needs May, h Handler) {
	s.mux.HandleFunc(pattern, s.route(needs, h))
}

// Stream adds a request that is answered bit by bit.
func (s *Server) Stream(pattern string, needs May, h Streamer) {
	s.mux.HandleFunc(pattern, s.stream(needs, h))
}

// Upload adds a request whose body is as long as it is, and is read by its handler
// as it comes.
func (s *Server) Upload(pattern string, needs May, h Handler) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if problem := s.permit(r, needs); problem != nil {
			answerProblem(w, problem)
			return
		}
		body := &arriving{Reader: r.Body, control: http.NewResponseController(w)}
		r.Body = io.NopCloser(body)
		value, err := h(r)
		// Whoever writes hears of nothing before all is written.
		if _, cut := io.Copy(io.Discard, body); cut == nil {
			body.control.SetReadDeadline(time.Time{})
		}
		if err != nil {
			answerProblem(w, problemOf(err))
			return
		}
		answerJSON(w, http.StatusOK, "application/json", value)
	})
}

// arriving is a body of which a part must come every now and then.
type arriving struct {
	io.Reader
	control *http.ResponseController
}

func (a *arriving) Read(p []byte) (int, error) {
	a.control.SetReadDeadline(time.Now().Add(uploadTime))
	return a.Reader.Read(p)
}

// Serve answers on the listening socket fd, which PID 1 holds too. All requests
// were added before.
func (s *Server) Serve(fd int) error {
	file := os.NewFile(uintptr(fd), "control")
	listener, err := net.FileListener(file)
	file.Close()
	if err != nil {
		return fmt.Errorf("cannot use the control socket: %w", err)
	}
	if unix, ok := listener.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false)
		s.door.listener.Store(unix)
	}
	go func() {
		if err := s.http().Serve(newBounded(listener, s)); err != nil {
			slog.Error("the control socket is no longer served", "err", err)
		}
	}()
	return nil
}

// http is the server of net/http, complete.
func (s *Server) http() *http.Server {
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { answerUnknown(w, r, s.mux) })
	server := newServer(s.mux)
	server.ConnContext = withPeer
	return server
}

// requestTurn is how long a request keeps others from being looked at: one that
// is not answered by then waits for something.
const requestTurn = 20 * time.Millisecond

// newServer is a server that no caller can hold up.
func newServer(h http.Handler) *http.Server {
	h = answering(h)
	turns := threads.NewTurns()
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// For the body, also of a request that is refused before it is read:
			// net/http reads on before it sends the answer. See readBody.
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
			if r.URL.Path != deadlinesPath {
				defer turns.Take(requestTurn)()
			}
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

// bounded is a listener that has those told who are above the bounds, and closes at once
// what is above the bounds of that, so that no caller can keep the others out.
type bounded struct {
	net.Listener
	s *Server

	mu     sync.Mutex
	total  int          // that are served
	rest   int          // of them, of those who may not command
	turned int          // that are turned away
	open   map[peer]int // by party
	away   map[peer]int
}

// party is who is counted: a service, whatever uids its processes have, or a uid.
func (p peer) party() peer {
	if p.tag != 0 {
		p.uid = 0
	}
	return p
}

func newBounded(l net.Listener, s *Server) *bounded {
	return &bounded{Listener: l, s: s, open: map[peer]int{}, away: map[peer]int{}}
}

// admission is how a connection is counted.
type admission struct {
	peer     peer
	commands bool // it is of a caller who may command
	turned   bool // it is above the bounds: its request is answered with that
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		b.s.door.taken.Add(1)
		p, pid, err := b.s.peerOf(conn)
		if err == nil {
			if a, ok := b.admit(p); ok {
				return &counted{UnixConn: conn.(*net.UnixConn), peer: p, pid: pid, turned: a.turned, release: func() { b.release(a) }}, nil
			}
		}
		conn.Close()
	}
}

func (b *bounded) admit(p peer) (a admission, ok bool) {
	root := p.uid == 0
	a = admission{commands: b.s.commander(p)}
	p = p.party()
	a.peer = p
	b.mu.Lock()
	defer b.mu.Unlock()
	// Each party may have one, however many the others hold.
	switch has := b.open[p]; {
	case root:
	case has == 0:
		a.turned = b.total >= connectionsMax+connectionsOver
	case !a.commands:
		a.turned = has >= connectionsEach || b.rest >= connectionsRest || b.total >= connectionsMax
	default:
		a.turned = p.tag != 0 && has >= connectionsOne || b.total >= connectionsMax
	}
	switch {
	case a.turned && (b.away[p] >= turnedEach || b.turned >= turnedMax):
		return a, false
	case a.turned:
		b.turned++
		b.away[p]++
		return a, true
	case !a.commands:
		b.rest++
	}
	b.total++
	b.open[p]++
	return a, true
}

// commander tells whether p is one who may command: by its uid, as far as the kernel knows,
// or as a service with control: true.
func (s *Server) commander(p peer) bool {
	return p.uid == 0 || p.uid == s.user && p.tag == 0 || s.known.Commander(p.uid, p.tag)
}

func (b *bounded) release(a admission) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.open
	switch {
	case a.turned:
		b.turned--
		of = b.away
	case !a.commands:
		b.rest--
		fallthrough
	default:
		b.total--
	}
	if of[a.peer]--; of[a.peer] == 0 {
		delete(of, a.peer)
	}
}

// counted is a connection that knows its peer, and says once when it is closed.
type counted struct {
	*net.UnixConn
	peer    peer
	pid     int32       // who connected; 0: a process that we do not see
	turned  bool        // it is above the bounds
	ours    atomic.Bool // what is written is a handler's: see refusal.go
	once    sync.Once
	release func()
	passed  passed
}

func (c *counted) Close() error {
	err := c.UnixConn.Close()
	c.passed.closeAll()
	c.once.Do(c.release)
	return err
}

// Handler answers a request with a value to be sent as JSON, or a problem. A
// nil value is 204.
type Handler func(*http.Request) (any, error)

// Named is a handler of requests whose path has a name at key, and which need no more.
func Named[T any](key string, get func(string) (T, error)) Handler {
	return func(r *http.Request) (any, error) { return get(r.PathValue(key)) }
}

// WithBody is a handler of requests that have a body, which is decoded strictly.
func WithBody[Body any](h func(*http.Request, Body) (any, error)) Handler {
	return func(r *http.Request) (any, error) {
		var body Body
		if err := Decode(r, &body); err != nil {
			return nil, err
		}
		return h(r, body)
	}
}

// May says what a peer must be allowed to do. Root and the service user may do all of it;
// a service what control in its definition says, as levels has it.
type May int

const (
	MayStatus  May = iota // also: a service, of itself; with access.read: all, anyone
	MaySee                // it shows no secret, and changes nothing
	MayOperate            // it starts, stops or cancels what there is
	MayCommand            // all else
	MayReview             // as MaySee; also: whom apply.allow names
	MayApply              // what was planned is approved, or withdrawn; also: whom apply.allow names
	MayPlan               // likewise, and no service but one that may do anything
)

// levels are what a service must be allowed.
var levels = map[May]service.Control{
	MayStatus: service.ControlRead, MaySee: service.ControlRead, MayOperate: service.ControlOperate, MayCommand: service.ControlAll,
	MayReview: service.ControlRead, MayApply: service.ControlApprove, MayPlan: service.ControlAll,
}

// Answer is a value with the operation that it is of, for the header.
type Answer struct {
	Value     any
	Operation uint64 // 0: none
}

// route wraps a handler: who may call it, and how its answer is sent.
func (s *Server) route(needs May, h Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if problem := s.admit(w, r, needs); problem != nil {
			answerProblem(w, problem)
			return
		}
		value, err := h(r)
		if answer, ok := value.(Answer); ok {
			if value = answer.Value; answer.Operation > 0 && err == nil {
				w.Header().Set(control.OperationHeader, strconv.FormatUint(answer.Operation, 10))
			}
		}
		switch {
		case err != nil:
			answerProblem(w, problemOf(err))
		case value == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			if all, ok := value.([]control.Service); ok {
				answerServices(w, all)
				return
			}
			answerJSON(w, http.StatusOK, "application/json", value)
		}
	}
}

// Streamer writes an answer bit by bit. An error before the first byte is
// answered as one.
type Streamer func(w http.ResponseWriter, r *http.Request) error

// stream wraps a streamer: who may call it, and what becomes of an error.
func (s *Server) stream(needs May, h Streamer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if problem := s.admit(w, r, needs); problem != nil {
			answerProblem(w, problem)
		} else if err := h(w, r); err != nil {
			answerProblem(w, problemOf(err))
		}
	}
}

// problemOf is an error as a problem.
func problemOf(err error) *control.Problem {
	var problem *control.Problem
	if errors.As(err, &problem) {
		return problem
	}
	problem = control.Failed("%v", err)
	for _, short := range []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ENOSPC, unix.EDQUOT, unix.EBUSY} {
		problem.Retryable = problem.Retryable || errors.Is(err, short)
	}
	return problem
}

// admit lets a request in, with its body, or says why not.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, needs May) *control.Problem {
	if problem := s.permit(r, needs); problem != nil {
		return problem
	}
	limit := int64(bodyMax)
	if r.URL.Path == "/v1/jobs" {
		limit = jobMax
	}
	if needs == MayApply || needs == MayPlan {
		limit = planMax
	}
	return readBody(w, r, limit)
}

// permit tells whether the peer of a request may do what needs says.
func (s *Server) permit(r *http.Request, needs May) *control.Problem {
	p := r.Context().Value(peerKey{}).(peer)
	if p.uid == 0 && p.tag == 0 {
		return nil
	}
	if p.tag != 0 || s.page != 0 && p.uid == s.page {
		name, may, itself := s.known.Caller(p.uid, p.tag, r.PathValue("name"))
		*r = *r.WithContext(context.WithValue(r.Context(), callerKey{}, caller{name, may}))
		if may.Allows(levels[needs]) || needs == MayStatus && itself {
			return nil
		}
		return control.TaggedCaller(cmp.Or(name, fmt.Sprintf("a process with group %d", p.tag)), string(may))
	}
	if p.uid == s.user || needs == MayStatus && s.known.ReadAll() || needs >= MayReview && s.known.Applies(p.uid) {
		return nil
	}
	return control.WrongUser(p.uid, s.user)
}

// callerKey is the key of the service that makes a request in its context.
type callerKey struct{}

// caller is a service that makes a request, and what it may ask.
type caller struct {
	name string
	may  service.Control
}

// Limited tells whether a request is of a service that may not do everything, and so is
// shown no secret.
func Limited(r *http.Request) bool {
	c, is := r.Context().Value(callerKey{}).(caller)
	return is && c.may != service.ControlAll
}

// Approver is who approves by a request, as it says: of a service with its name before
// that.
func Approver(r *http.Request, by string) string {
	if c, is := r.Context().Value(callerKey{}).(caller); is {
		return c.name + ": " + by
	}
	return by
}

// Actor is the uid of who made a request.
func Actor(r *http.Request) uint32 { return By(r).UID }

// By is who made a request.
func By(r *http.Request) control.Actor {
	by := control.Actor{UID: r.Context().Value(peerKey{}).(peer).uid}
	if c, ok := r.Context().Value(connectionKey{}).(*counted); ok {
		by.PID = c.pid
	}
	return by
}

// readBody reads all of a request's body, in bounded time and memory. Then the
// deadline is taken back: net/http takes one that passes for the end of the
// connection, and an answer may be long in coming.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) *control.Problem {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return control.TooLarge(limit)
	}
	if err != nil {
		return control.BadRequest("cannot read the request: %v", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// Decode reads a JSON body strictly. An absent body leaves v as it is.
func Decode(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		return control.BadRequest("cannot read the request: %v", err)
	case !utf8.Valid(body): // which would be another text when it is decoded
		return control.BadRequest("cannot understand the request: it is not UTF-8, as JSON is")
	}
	if half := loneSurrogate(body); half != "" { // so would this
		return control.BadRequest("cannot understand the request: %s is half of a character; write both halves, or the character itself", half)
	}
	in := json.NewDecoder(bytes.NewReader(body))
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

// loneSurrogate is the first escape in a JSON text that is one half of a pair and has
// no other half beside it; "": there is none.
func loneSurrogate(text []byte) string {
	unit := func(at int) (rune, bool) {
		if at+6 > len(text) || text[at] != '\\' || text[at+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(text[at+2:at+6]), 16, 16)
		return rune(n), err == nil
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if first, ok := unit(i); ok && utf16.IsSurrogate(first) {
			second, _ := unit(i + 6)
			if utf16.DecodeRune(first, second) == utf8.RuneError {
				return string(text[i : i+6])
			}
			i += 6
		}
		i++ // what follows on a backslash begins nothing
	}
	return ""
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
	var content bytes.Buffer
	if err := json.NewEncoder(&content).Encode(value); err != nil {
		slog.Error("cannot encode an answer", "err", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(bodyTime))
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(content.Len()))
	w.WriteHeader(status)
	w.Write(content.Bytes())
}

// piece is how much of all services is laid out before it goes out, in bytes.
const piece = 32 << 10

// answerServices is answerJSON for all services, which may be thousands: they go out
// piece by piece, for a supervisor that is asked often would keep room for the whole
// text, twice.
func answerServices(w http.ResponseWriter, all []control.Service) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(bodyTime))
	w.Header().Set("Content-Type", "application/json")
	var content bytes.Buffer
	content.WriteByte('[')
	encoder := json.NewEncoder(&content)
	for i := range all {
		if i > 0 {
			content.WriteByte(',')
		}
		if err := encoder.Encode(&all[i]); err != nil {
			slog.Error("cannot encode an answer", "err", err)
			panic(http.ErrAbortHandler) // who asked sees that it is cut short
		}
		content.Truncate(content.Len() - 1) // an end of line
		if content.Len() >= piece {
			w.Write(content.Bytes())
			content.Reset()
		}
	}
	content.WriteString("]\n")
	w.Write(content.Bytes())
}

// answerUnknown tells a path that there is not from a method that it has not.
func answerUnknown(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	var allowed []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost} {
		if _, pattern := mux.Handler(&http.Request{Method: method, Host: r.Host, URL: r.URL}); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		answerProblem(w, noSuchPath(r.URL.Path))
		return
	}
	methods := strings.Join(allowed, ", ")
	w.Header().Set("Allow", methods)
	answerProblem(w, control.NewProblem(control.KindWrongMethod, fmt.Sprintf("%s is not for %s; use %s", r.Method, r.URL.Path, methods)))
}

func noSuchPath(at string) *control.Problem {
	return control.NewProblem(control.KindNoSuchPath, "no such path: "+at)
}
