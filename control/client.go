package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	// patience is how long a client waits for a supervisor that is just being
	// replaced. PID 1 holds the listener, so that is a matter of milliseconds
	// unless the new one crashes too. One that comes up, takes requests and answers none is
	// given longer: silenceRounds.
	patience = 2 * time.Second

	// crowded is how long a client without a time of its own asks again while too many
	// requests are answered.
	crowded = 30 * time.Second

	// answerLimit bounds an answer that is held in memory: 10,000 services
	// take less than a tenth of it.
	answerLimit = 64 << 20
)

// Client asks the rlminit of one runtime directory: it has a method for each request.
// It holds no connection, and may be used by several goroutines at once.
type Client struct{ line }

// line is the way of a request to the supervisor, and of its answer back, also while
// one supervisor follows on another.
type line struct {
	place
	Notice func(line string) // told what an answer waits for that takes its time; may be nil

	http  *http.Client
	wait  time.Duration
	round time.Duration    // of a silence
	ticks <-chan time.Time // its rounds, in a test; nil: a clock's
}

// Open finds the runtime directory and returns a client for it: the directory that
// RLMINIT_RUNTIME_DIR names, or else the first of /run/rlminit and
// /dev/shm/rlminit-UID that holds a socket. Each call returns an error if the directory
// belongs to neither root nor the caller, or if nobody answers there.
func Open() *Client {
	uid, named := os.Geteuid(), os.Getenv("RLMINIT_RUNTIME_DIR")
	c := At(findRuntimeDir(RuntimeDirs(named, uid), uid))
	c.named = named != ""
	return c
}

// At returns a client for the rlminit whose runtime directory is dir.
func At(dir string) *Client {
	c := &Client{line{place: place{dir: dir, proc: "/proc", shared: sharedDir, configs: configFiles()}, wait: patience, round: silenceRound}}
	c.http = &http.Client{
		// A redirect would be a fault of the server's; none is ever sent.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DisableKeepAlives:  true,
			DisableCompression: true,
			DialContext:        c.dial,
		},
	}
	return c
}

// Kept is a client of the same rlminit that keeps its connection between requests. While it
// makes one at a time, no other caller's requests are counted before its own.
func (c *Client) Kept() *Client {
	kept := &Client{c.line}
	kept.http = &http.Client{
		CheckRedirect: c.http.CheckRedirect,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true, DialContext: kept.dial},
	}
	return kept
}

// dial connects to the control socket, if that is one to be trusted.
func (l *line) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", l.Socket())
	if err != nil {
		return nil, err
	}
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err == nil {
		err = trustedListener(raw, l.Socket(), os.Geteuid())
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	if file, ok := ctx.Value(descriptorKey{}).(*os.File); ok {
		return &passing{UnixConn: conn.(*net.UnixConn), file: file}, nil
	}
	return conn, nil
}

// request is one call before it is sent.
type request struct {
	method string
	path   string
	query  url.Values
	body   any  // nil: none
	repeat bool // sending it twice does no more than sending it once
	what   string

	descriptor *os.File  // goes along with it; nil: none
	upload     io.Reader // in place of body; nil: none
}

// get is a request that changes nothing.
func get(path, what string) request {
	return request{method: http.MethodGet, path: path, repeat: true, what: what}
}

// post is one that may do something each time that it is sent.
func post(path string, body any, what string) request {
	return request{method: http.MethodPost, path: path, body: body, what: what}
}

// same is a request that acts once, however often it is sent.
func same(path string, body any, what string) request {
	r := post(path, body, what)
	r.repeat = true
	return r
}

// misnamed finds a name that no path can hold, for a server would clean it
// away: an empty one, and those that mean a directory.
func (r request) misnamed() (name string, ok bool) {
	for part := range strings.SplitSeq(r.path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return part, true
		}
	}
	return "", false
}

// call sends a request and decodes its answer into out, which may be nil.
func (l *line) call(ctx context.Context, r request, out any) error {
	var in bytes.Buffer
	err := l.try(ctx, r, func(body io.Reader, length int64) (err error) {
		in.Reset()
		if length < 0 {
			length = 512 << 10 // it comes in pieces, and so is long
		}
		in.Grow(int(min(length, answerLimit)) + bytes.MinRead)
		_, err = in.ReadFrom(io.LimitReader(body, answerLimit))
		return err
	})
	answer := in.Bytes()
	if err != nil || out == nil {
		return err
	}
	if len(answer) == 0 { // 204
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return Failed("cannot understand the answer to %s: %v; is the rlminit that runs of another version?", r.what, err)
	}
	return nil
}

// ask is call for an answer of type T.
func ask[T any](ctx context.Context, c *Client, r request) (T, error) {
	var out, none T
	if err := c.call(ctx, r, &out); err != nil {
		return none, err
	}
	return out, nil
}

// list asks for all of a kind: where there are none, in JSON it is [] and not null.
func list[T any](ctx context.Context, c *Client, path, what string) ([]T, error) {
	all, err := ask[[]T](ctx, c, get(path, what))
	if err == nil && all == nil {
		all = []T{}
	}
	return all, err
}

// stream sends a request and hands its body to read as it comes in.
func (l *line) stream(ctx context.Context, r request, read func(io.Reader) error) error {
	response, err := l.open(ctx, r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return read(response.Body)
}

// open sends a request until somebody answers, and returns the answer with its
// body unread.
func (l *line) open(ctx context.Context, r request) (response *http.Response, err error) {
	err = l.persist(ctx, r, func(ctx context.Context) error {
		response, err = l.once(ctx, r)
		return err
	})
	return response, err
}

// try sends a request until it is answered in full. read is told how long the answer
// will be; -1: that is not known.
func (l *line) try(ctx context.Context, r request, read func(body io.Reader, length int64) error) error {
	return l.persist(ctx, r, func(ctx context.Context) error {
		response, err := l.once(ctx, r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		return read(response.Body, response.ContentLength)
	})
}

// persist repeats an attempt for as long as the supervisor may just be being
// replaced: a connection that was not made can be made again, and one that
// ended without an answer too, unless sending the request twice could do
// something twice. It ends when no supervisor has answered anything for a while.
func (l *line) persist(ctx context.Context, r request, attempt func(context.Context) error) error {
	if name, ok := r.misnamed(); ok {
		return NoSuchName(name, nil)
	}
	if err := l.Trusted(); err != nil {
		return err
	}
	defer l.notice()()
	// An answer that is read as it comes in goes on under asked.
	asked, giveUp := context.WithCancelCause(ctx)
	listening, enough := context.WithCancel(ctx)
	defer enough()
	var quiet silence
	go l.listen(listening, &quiet, giveUp)
	err := l.repeat(asked, r, &quiet, attempt)
	if err != nil {
		giveUp(nil)
	}
	return err
}

// repeat is persist once somebody listens whether a supervisor answers at all.
func (l *line) repeat(ctx context.Context, r request, quiet *silence, attempt func(context.Context) error) error {
	var absent time.Time // since when there has been no listener; zero: there is one
	var final error
	pause := 5 * time.Millisecond
	for first := time.Now(); ; {
		err := attempt(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			break
		}
		var again bool
		if again, final = l.judge(err, r); !again {
			return final
		}
		now, there := time.Now(), true
		switch _, bounded := ctx.Deadline(); {
		case busy(final):
			quiet.broken()
			if !bounded && now.Sub(first) > crowded {
				return final
			}
		case unheard(err):
			if there = false; absent.IsZero() {
				absent = now
			} else if now.Sub(absent) > l.wait {
				return final
			}
		}
		if there {
			absent = time.Time{}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if ctx.Err() != nil {
			break
		}
		pause = min(2*pause, 200*time.Millisecond)
	}
	if busy(final) {
		return final
	}
	return l.gaveUp(ctx, r)
}

// unheard tells whether nobody listens. Where the queue of the listener is full somebody does.
func unheard(err error) bool {
	dial, is := errors.AsType[*net.OpError](err)
	return is && dial.Op == "dial" && !errors.Is(err, syscall.EAGAIN)
}

// gaveUp is said when the caller's time is over, the caller cancelled, or nobody answers.
func (l *line) gaveUp(ctx context.Context, r request) error {
	if context.Cause(ctx) == errSilent {
		return l.silent(r)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		if step := l.bootStep(); step != "" {
			return NewProblem(KindTimedOut, fmt.Sprintf("no answer to %s yet: %s; services are started after it", r.what, step))
		}
		return NewProblem(KindTimedOut, fmt.Sprintf("no answer to %s on %s in time", r.what, l.Socket()))
	}
	return ctx.Err()
}

// judge tells whether a failed attempt is worth another, and what to say if
// there is none or it fails too.
func (l *line) judge(err error, r request) (again bool, final error) {
	var problem *Problem
	if errors.As(err, &problem) {
		return busy(problem) && r.upload == nil, problem // which is read once
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		switch {
		case errors.Is(err, syscall.EAGAIN): // the listener's backlog is full, connect(2)
			return true, NoAnswer("no rlminit answers on %s: too many requests are waiting", l.Socket())
		case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTDIR):
			absence := l.absence()
			_, _, expected := l.initProcess()
			return absence.ExitCode == ExitNoAnswer && expected, absence
		case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
			return false, NotPermitted("permission denied: you are uid %d and may not connect to %s; use docker exec without -u", os.Geteuid(), l.Socket())
		}
		return false, NoAnswer("no rlminit answers on %s: %v", l.Socket(), dial.Err)
	}
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch {
	case ended && r.repeat:
		return true, NoAnswer("no answer to %s on %s: each connection has ended without one; docker logs says whether the supervisor was replaced", r.what, l.Socket())
	case ended:
		return false, cutShort(r.what)
	}
	return false, NoAnswer("cannot ask for %s on %s: %v", r.what, l.Socket(), err)
}

// once sends a request once. An answer that is a problem is returned as that
// problem.
func (l *line) once(ctx context.Context, r request) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		b, err := json.Marshal(r.body)
		if err != nil {
			return nil, Failed("cannot write %s as JSON: %v", r.what, err)
		}
		body = bytes.NewReader(b)
	}
	if r.upload != nil {
		body = io.NopCloser(r.upload) // a connection that is not made may be tried again
	}
	u := url.URL{Scheme: "http", Host: "rlminit", RawQuery: r.query.Encode()}
	u.Path, u.RawPath = unescape(r.path), r.path
	if r.descriptor != nil {
		ctx = context.WithValue(ctx, descriptorKey{}, r.descriptor)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, BadRequest("cannot ask for %s: %v", r.what, err)
	}
	switch {
	case r.upload != nil:
		req.Header.Set("Content-Type", "application/x-tar")
	case body != nil:
		req.Header.Set("Content-Type", "application/json")
	}
	response, err := l.http.Do(req)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer response.Body.Close()
	return nil, readProblem(response, r)
}

// readProblem makes a problem of an answer that says no.
func readProblem(response *http.Response, r request) error {
	b, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	problem := new(Problem)
	if kind != "application/problem+json" || json.Unmarshal(b, problem) != nil || problem.Detail == "" {
		return Failed("cannot ask for %s: the rlminit that runs answered %q; is it of another version?", r.what, response.Status)
	}
	if problem.ExitCode < 1 || problem.ExitCode > 255 {
		problem.ExitCode = ExitFailed
	}
	return problem
}

// segment makes a name one element of a path, whatever is in it.
func segment(name string) string { return url.PathEscape(name) }

func unescape(path string) string {
	s, err := url.PathUnescape(path)
	if err != nil {
		return path
	}
	return s
}
