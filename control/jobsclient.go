package control

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// newKey is one that no other request has: 128 bits of chance.
func newKey() string {
	return strconv.FormatUint(rand.Uint64(), 36) + "-" + strconv.FormatUint(rand.Uint64(), 36)
}

// Run runs a command as a job and hands its output to each as it comes; nil: to
// nobody. stdin, if it is not nil, becomes the job's own. When the supervisor is
// replaced meanwhile, it goes on with the job where it was. When the context ends,
// the job does.
//
// An error is of the request: what became of the command is in the result.
func (c *Client) Run(ctx context.Context, job RunJob, stdin *os.File, each func(*JobOutput) error) (*JobResult, error) {
	r := running(job, stdin)
	r.query = url.Values{"follow": {"true"}}
	return c.follow(ctx, r, each)
}

// running begins a job, once however often it is sent.
func running(job RunJob, stdin *os.File) request {
	job.Key, job.Descriptor = cmp.Or(job.Key, newKey()), job.Descriptor || stdin != nil
	r := same("/v1/jobs", job, "the job")
	r.descriptor = stdin
	return r
}

// Attach hands a job's output, past and future, to each, and returns its result.
func (c *Client) Attach(ctx context.Context, job string, each func(*JobOutput) error) (*JobResult, error) {
	return c.follow(ctx, attachment(job, [2]int64{}), each)
}

func attachment(job string, from [2]int64) request {
	query := url.Values{"follow": {"true"}}
	query.Set("stdout", strconv.FormatInt(from[0], 10))
	query.Set("stderr", strconv.FormatInt(from[1], 10))
	r := get("/v1/jobs/"+segment(job)+"/output", "job "+job)
	r.query = query
	return r
}

// follow reads a job's stream to its end, over as many connections as it takes.
func (c *Client) follow(ctx context.Context, r request, each func(*JobOutput) error) (*JobResult, error) {
	var job string
	var from [2]int64
	var result *JobResult
	for {
		var refused error
		err := c.stream(ctx, r, func(body io.Reader) error {
			in := json.NewDecoder(bufio.NewReaderSize(body, 64<<10))
			for {
				o := new(JobOutput)
				if err := in.Decode(o); err != nil {
					return err
				}
				switch {
				case o.Job != "":
					job = o.Job
				case o.Result != nil:
					result = o.Result
				case o.Stream == "stdout":
					from[0] = o.Offset + int64(len(o.Bytes()))
				default:
					from[1] = o.Offset + int64(len(o.Bytes()))
				}
				if each != nil {
					if refused = each(o); refused != nil {
						return refused
					}
				}
				if result != nil {
					return nil
				}
			}
		})
		switch {
		case result != nil:
			return result, nil
		case refused != nil:
			return nil, refused
		case ctx.Err() != nil:
			return nil, c.gaveUp(ctx, r)
		case !isCut(err), job == "" && from != [2]int64{}: // without a job there is nothing to go on with
			return nil, err
		}
		if job != "" {
			r = attachment(job, from)
		}
	}
}

// isCut tells whether a stream ended in its midst, so that it is worth asking
// again.
func isCut(err error) bool {
	var problem *Problem
	return !errors.As(err, &problem) && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
}

// Submit has a job begun, and does not wait for it.
func (c *Client) Submit(ctx context.Context, job RunJob, stdin *os.File) (Job, error) {
	return ask[Job](ctx, c, running(job, stdin))
}

// TryJob tells what would be run, and what would refuse it.
func (c *Client) TryJob(ctx context.Context, job RunJob) (DryRun, error) {
	job.DryRun = true
	return ask[DryRun](ctx, c, same("/v1/jobs", job, "the job"))
}

// Jobs returns the jobs that are not over, and those that are remembered.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	return ask[[]Job](ctx, c, get("/v1/jobs", "the jobs"))
}

// Job returns one of them, with its result if it is over.
func (c *Client) Job(ctx context.Context, id string) (Job, error) {
	return ask[Job](ctx, c, get("/v1/jobs/"+segment(id), "job "+id))
}

// WaitJob waits until a job is over; within 0: as long as it takes.
func (c *Client) WaitJob(ctx context.Context, id string, within time.Duration) (*JobResult, error) {
	return ask[*JobResult](ctx, c, same("/v1/jobs/"+segment(id)+"/wait", Wait{TimeoutMS: within.Milliseconds()}, "job "+id))
}

// CancelJob ends a job, and returns its result.
func (c *Client) CancelJob(ctx context.Context, id string) (*JobResult, error) {
	return ask[*JobResult](ctx, c, post("/v1/jobs/"+segment(id)+"/cancel", nil, "the cancel of job "+id))
}

// UndoJob puts back the file that a write has replaced.
func (c *Client) UndoJob(ctx context.Context, id string) (*JobResult, error) {
	return ask[*JobResult](ctx, c, post("/v1/jobs/"+segment(id)+"/undo", nil, "the undoing of job "+id))
}

// JobOutputNow hands a job's output so far to each.
func (c *Client) JobOutputNow(ctx context.Context, id string, each func(*JobOutput) error) error {
	r := get("/v1/jobs/"+segment(id)+"/output", "the output of job "+id)
	return c.stream(ctx, r, func(body io.Reader) error {
		in := json.NewDecoder(body)
		for {
			o := new(JobOutput)
			switch err := in.Decode(o); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return ErrCut
			}
			if err := each(o); err != nil {
				return err
			}
		}
	})
}

// CreateSession opens a session, or returns the one that is open under its key.
func (c *Client) CreateSession(ctx context.Context, s CreateSession) (Session, error) {
	return ask[Session](ctx, c, request{method: http.MethodPost, path: "/v1/sessions", body: s, repeat: s.Key != "", what: "the session"})
}

// Sessions returns those that are open, and those that are remembered.
func (c *Client) Sessions(ctx context.Context) ([]Session, error) {
	return ask[[]Session](ctx, c, get("/v1/sessions", "the sessions"))
}

// Session returns one of them.
func (c *Client) Session(ctx context.Context, id string) (Session, error) {
	return ask[Session](ctx, c, get("/v1/sessions/"+segment(id), "session "+id))
}

// ExtendSession gives a session another time to live, from now; 0: the time that it was
// created with.
func (c *Client) ExtendSession(ctx context.Context, id string, ttl time.Duration) (Session, error) {
	return ask[Session](ctx, c, post("/v1/sessions/"+segment(id)+"/extend", ExtendSession{TTLMS: ttl.Milliseconds()}, "the extension of session "+id))
}

// EndSession ends a session: its jobs, and then its directory.
func (c *Client) EndSession(ctx context.Context, id string) (Session, error) {
	return ask[Session](ctx, c, request{method: http.MethodDelete, path: "/v1/sessions/" + segment(id), what: "the end of session " + id})
}

// WriteFile replaces a file below a profile's directory by content, and
// returns the job that did it, which can be undone.
func (c *Client) WriteFile(ctx context.Context, w WriteFile, content *os.File) (*JobResult, error) {
	if w.Key == "" {
		w.Key = newKey()
	}
	r := post("/v1/files", nil, "the write of "+w.Path)
	if content != nil {
		w.Descriptor, r.descriptor = true, content
	}
	r.body = w
	return ask[*JobResult](ctx, c, r)
}

// ReadFile hands the content of a file below a profile's directory to each.
func (c *Client) ReadFile(ctx context.Context, f ReadFile, each func(*JobOutput) error) (*JobResult, error) {
	return c.follow(ctx, request{
		method: http.MethodPost, path: "/v1/files/read", query: url.Values{"follow": {"true"}}, body: f, repeat: true, what: f.Path,
	}, each)
}

// Capabilities returns what can be enforced.
func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	return ask[Capabilities](ctx, c, get("/v1/capabilities", "the capabilities"))
}

// descriptorKey is the key of a descriptor to be passed, in a request's context.
type descriptorKey struct{}

// passing is a connection that sends a descriptor along with its first byte.
type passing struct {
	*net.UnixConn
	once sync.Once
	file *os.File
}

func (p *passing) Write(b []byte) (n int, err error) {
	sent := false
	p.once.Do(func() {
		raw, failure := p.file.SyscallConn()
		if failure != nil {
			err = failure
			return
		}
		failure = raw.Control(func(fd uintptr) {
			n, _, err = p.UnixConn.WriteMsgUnix(b, syscall.UnixRights(int(fd)), nil)
		})
		sent = true
		if err == nil {
			err = failure
		}
	})
	if err != nil || sent && n == len(b) {
		return n, err
	}
	more, err := p.UnixConn.Write(b[n:])
	return n + more, err
}
