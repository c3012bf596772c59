// Package page runs rlminit with its web page in a PID namespace, and a real browser
// before it.
package page

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"golang.org/x/sys/unix"

	"rlminit/tests/box"
	"rlminit/tests/contract"
	"rlminit/tests/ns"
)

// long is how long something may take on a busy machine.
const long = 30 * time.Second

// The tokens of every box: whose is recorded with what they approve, one without a name,
// and one that has expired.
const (
	annesToken   = "anne-0123456789abcdef0123"
	bareToken    = "bare-0123456789abcdef0123"
	expiredToken = "late-0123456789abcdef0123"
)

var browser context.Context

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run has one browser for all tests.
func run(m *testing.M) int {
	program, err := exec.LookPath("chromium")
	if err == nil {
		options := append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900),
			chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("lang", "en-GB"))
		allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
		defer stop()
		ctx, end := chromedp.NewContext(allocator)
		defer end()
		browser = ctx
	}
	return ns.Main(m)
}

var browserStarted = sync.OnceValue(func() error { return chromedp.Do(browser) })

// site is a box with its page, as one reaches it from outside: by a way such as ssh -L
// makes.
type site struct {
	*box.Box
	tokens string // the path of the file
	port   int
	dials  *dialer
}

// config is what a page is switched on with.
func config(tokens, allow string) string {
	return fmt.Sprintf("page: {listen: \"127.0.0.1:9118\", token: {file: %s}, allow: %s}\n", tokens, allow)
}

// start makes a box with a page that permits so much, and more in its configuration.
func start(t *testing.T, allow string, more ...string) *site {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a page has a user of its own, which needs root")
	}
	dir, err := os.MkdirTemp("", "rlminit-page-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &site{tokens: filepath.Join(dir, "tokens")}
	lines := "# who may come in\nanne " + annesToken + "\n" + bareToken + "\nold " + expiredToken + " 2020-01-01T00:00:00Z\n"
	if err := os.WriteFile(s.tokens, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(s.tokens, box.Supervisor.UID, box.Supervisor.GID); err != nil {
		t.Fatal(err)
	}
	s.Box = ns.Start(t, box.Spec{Config: contract.Config(append([]string{config(s.tokens, allow)}, more...)...)})
	s.Await("page", "running")
	s.forward(t)
	return s
}

// forward listens outside of the box and connects to the page inside.
func (s *site) forward(t *testing.T) {
	t.Helper()
	d := newDialer(s.Place.(*ns.Place).PID())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); d.close() })
	s.port, s.dials = l.Addr().(*net.TCPAddr).Port, d
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go d.join(conn)
		}
	}()
}

// url is a page's address from outside.
func (s *site) url(path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path) }

// dialer connects within the network namespace of a box, from a thread that is in there.
type dialer struct {
	wanted chan chan dialled
	over   chan struct{}
	once   sync.Once
}

type dialled struct {
	conn net.Conn
	err  error
}

func newDialer(pid int) *dialer {
	d := &dialer{wanted: make(chan chan dialled), over: make(chan struct{})}
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			unix.Close(fd)
		}
		for {
			select {
			case <-d.over:
				return
			case answer := <-d.wanted:
				conn, failure := net.Conn(nil), err
				if err == nil {
					conn, failure = dialHere()
				}
				answer <- dialled{conn, failure}
			}
		}
	}()
	return d
}

// dialHere connects in the network namespace of this very thread, to 127.0.0.1:9118.
func dialHere() (net.Conn, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "page")
	defer file.Close()
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: 9118, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, err
	}
	return net.FileConn(file)
}

func (d *dialer) dial() (net.Conn, error) {
	answer := make(chan dialled, 1)
	select {
	case d.wanted <- answer:
		a := <-answer
		return a.conn, a.err
	case <-d.over:
		return nil, net.ErrClosed
	}
}

func (d *dialer) close() { d.once.Do(func() { close(d.over) }) }

func (d *dialer) join(out net.Conn) {
	defer out.Close()
	in, err := d.dial()
	if err != nil {
		return
	}
	defer in.Close()
	go func() {
		_, _ = io.Copy(in, out)
		in.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(out, in)
}

// client is a browser without a screen, which keeps cookies and follows no redirect.
type client struct {
	*http.Client
	session string // the path of the one that it is in; "": it is in none
}

// client is one that is in no session.
func (s *site) client(t *testing.T) *client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxConnsPerHost: 0, DialContext: func(context.Context, string, string) (net.Conn, error) { return s.dials.dial() }}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{Client: &http.Client{Jar: jar, Transport: transport, Timeout: long, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// answer is a response with its body read.
type answer struct {
	*http.Response
	text string
}

// send makes a request of a browser's kind within the client's session; headers are NAME,
// VALUE and so on.
func (s *site) send(t *testing.T, c *client, method, path, form string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequest(method, s.url(c.session+path), strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			r.Host = headers[i+1]
		case headers[i+1] == "":
			r.Header.Del(headers[i])
		default:
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	response, err := c.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer{response, string(text)}
}

// loggedIn is a client of somebody who has logged in.
func (s *site) loggedIn(t *testing.T, token string) *client {
	t.Helper()
	c := s.client(t)
	a := s.send(t, c, http.MethodPost, "/login", "token="+token)
	if c.session = strings.TrimSuffix(a.Header.Get("Location"), "/"); a.StatusCode != http.StatusSeeOther || !strings.HasPrefix(c.session, "/s/") {
		t.Fatalf("the login is answered with %s to %s", a.Status, c.session)
	}
	return c
}

// cookie is the one that a client has for its session.
func (s *site) cookie(c *client) *http.Cookie {
	return c.Jar.Cookies(mustURL(s.url(c.session + "/")))[0]
}

// csrf is the token in a page's form.
func (a answer) csrf(t *testing.T) string {
	t.Helper()
	_, rest, ok := strings.Cut(a.text, `name="csrf" value="`)
	value, _, closed := strings.Cut(rest, `"`)
	if !ok || !closed {
		t.Fatalf("there is no form in %s", a.text)
	}
	return value
}

func mustURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}
