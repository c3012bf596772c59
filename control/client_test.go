package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// listen puts a control socket into a runtime directory and returns a client
// for it.
func listen(t *testing.T) (net.Listener, *Client) {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, At(dir)
}

// serve answers with h until the test ends.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	l, c := listen(t)
	server := &http.Server{Handler: h}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return c
}

func TestProblemTravels(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		p := NoSuchName("alcie", []string{"bob", "alice"})
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(p.Status)
		json.NewEncoder(w).Encode(p)
	})
	_, err := c.Service(t.Context(), "alcie")
	var p *Problem
	if !errors.As(err, &p) {
		t.Fatalf("err = %v, want a problem", err)
	}
	if p.ExitCode != 4 || p.Status != 404 || p.Detail != `no profile or service "alcie"; did you mean "alice"?` {
		t.Errorf("problem = %+v", p)
	}
}

func TestAnswerOfAnotherProgram(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"no problem document": func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no such page", 404) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"problem without text": func(w http.ResponseWriter, r *http.Request) { problemBody(w, `{}`) },
		"not JSON":             func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := serve(t, h).Services(t.Context())
			var p *Problem
			if !errors.As(err, &p) || p.ExitCode != 1 || !strings.Contains(p.Detail, "of another version?") {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func problemBody(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(500)
	io.WriteString(w, body)
}

// A name is the caller's: whatever is in it must reach the server as one name,
// or be refused here.
func TestNamesArriveWhole(t *testing.T) {
	var path atomic.Value
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path.Store(strings.TrimPrefix(r.URL.Path, "/v1/services/"))
		io.WriteString(w, "{}")
	})
	for _, name := range []string{"alice", "../x", "a/b", "a b", "a\nb", "a\x00b", "%2e", "ä", "-x", "a?b#c"} {
		if _, err := c.Service(t.Context(), name); err != nil {
			t.Errorf("%q: %v", name, err)
		} else if got := path.Load(); got != name {
			t.Errorf("%q arrived as %q", name, got)
		}
	}
	for _, name := range []string{"", ".", ".."} {
		_, err := c.Service(t.Context(), name)
		var p *Problem
		if !errors.As(err, &p) || p.ExitCode != ExitNoSuchName {
			t.Errorf("%q: err = %v, want no such name", name, err)
		}
	}
}

// dying is a supervisor that is replaced: the first connections end without an
// answer, as they do when a process dies while PID 1 holds the listener.
func dying(t *testing.T, deaths int, answer string) (*Client, *atomic.Int32) {
	t.Helper()
	l, c := listen(t)
	asked := new(atomic.Int32)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			http.ReadRequest(bufio.NewReader(conn))
			if n := asked.Add(1); int(n) > deaths {
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
			}
			conn.Close()
		}
	}()
	return c, asked
}

func TestAskedAgainWhileTheSupervisorIsReplaced(t *testing.T) {
	c, asked := dying(t, 3, `[{"name":"web"}]`)
	services, err := c.Services(t.Context())
	if err != nil || len(services) != 1 || services[0].Name != "web" {
		t.Fatalf("services = %v, err = %v", services, err)
	}
	if n := asked.Load(); n != 4 {
		t.Errorf("asked %d times, want 4", n)
	}
}

func TestNotDoneTwice(t *testing.T) {
	c, asked := dying(t, 1, `[]`)
	_, err := c.Restart(t.Context(), "web", Operate{})
	var p *Problem
	if !errors.As(err, &p) || p.ExitCode != ExitNoAnswer || !strings.Contains(p.Detail, "cannot tell whether the restart of web was done") {
		t.Errorf("err = %v", err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
}

func TestPatienceEnds(t *testing.T) {
	c, _ := dying(t, 1<<30, "")
	c.round = 20 * time.Millisecond
	_, err := c.Services(t.Context())
	var p *Problem
	if want := "no answer to the status on " + c.Socket() + ": no supervisor has answered for 60ms"; !errors.As(err, &p) || p.ExitCode != ExitNoAnswer || !strings.HasPrefix(p.Detail, want) {
		t.Errorf("err = %v, want %s", err, want)
	}
}

// A supervisor that takes requests and answers none ends every request, whatever that would
// have done; while one answers anything, a request waits as long as its caller likes.
func TestSilenceEndsARequest(t *testing.T) {
	var speaks atomic.Bool
	enough := make(chan struct{})
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/health" && speaks.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		select {
		case <-enough:
			w.WriteHeader(http.StatusNoContent)
		case <-r.Context().Done():
		}
	})
	c.round = time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	var p *Problem
	if _, err := c.Services(ctx); !errors.As(err, &p) || p.ExitCode != ExitNoAnswer {
		t.Errorf("what changes nothing: %v", err)
	}
	if err := c.Shutdown(ctx); !errors.As(err, &p) || p.ExitCode != ExitNoAnswer {
		t.Errorf("what changes something: %v", err)
	}
	speaks.Store(true)
	ticks := make(chan time.Time)
	c.round, c.ticks = time.Hour, ticks
	go func() {
		for range 4 * silenceRounds {
			ticks <- time.Time{}
		}
		close(enough)
	}()
	if err := c.Shutdown(ctx); err != nil {
		t.Errorf("while a supervisor answers: %v", err)
	}
}

func TestNoAnswerInTime(t *testing.T) {
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	c := serve(t, func(http.ResponseWriter, *http.Request) { <-hold })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Services(ctx)
	var p *Problem
	if !errors.As(err, &p) || p.ExitCode != ExitTimedOut {
		t.Errorf("err = %v, want timed out", err)
	}
}

// What is said when there is no socket depends on what PID 1 is.
func TestAbsence(t *testing.T) {
	config := filepath.Join(t.TempDir(), "rlminit.yaml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "s6-svscan")
	put(t, filepath.Join(filepath.Dir(link), "rlminit"), "")
	if err := os.Symlink("rlminit", link); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, comm, cmdline string
		configs             []string
		want                string
	}{
		{"by a link", "s6-svscan", link + "\x00init\x00--\x00sh\x00", []string{config}, `PID 1 is rlminit, but its supervisor did not come up`},
		{"by a link, pure init", "s6-svscan", link + "\x00init\x00--\x00sh\x00", nil, `PID 1 is rlminit without a configuration, a pure init`},
		{"a link without init", "s6-svscan", link + "\x00/run/service\x00", []string{config}, `PID 1 is "s6-svscan"; the image's ENTRYPOINT was overridden`},
		{"another's program", "s6-svscan", config + "\x00init\x00", []string{config}, `PID 1 is "s6-svscan"; the image's ENTRYPOINT was overridden`},
		{"overridden", "sleep", "sleep\x00inf\x00", nil, `PID 1 is "sleep"; the image's ENTRYPOINT was overridden`},
		{"overridden, configured", "sh", "sh\x00", []string{config}, `PID 1 is "sh"; the image's ENTRYPOINT was overridden`},
		{"a whole system", "systemd", "/sbin/init\x00", nil, `PID 1 is "systemd", so this is not a container of rlminit's`},
		{"pure init", "rlminit", "rlminit\x00init\x00--\x00sh\x00--config\x00", nil, `PID 1 is rlminit without a configuration, a pure init`},
		{"broken", "rlminit", "rlminit\x00init\x00", []string{config}, `PID 1 is rlminit, but its supervisor did not come up`},
		{"broken, by flag", "rlminit", "rlminit\x00init\x00--config=/x\x00--\x00sh\x00", nil, `PID 1 is rlminit, but its supervisor did not come up`},
		{"a client", "rlminit", "rlminit\x00status\x00", []string{config}, `PID 1 is not rlminit init, but another verb of rlminit`},
		{"no /proc", "", "", nil, `what PID 1 is cannot be told (no /proc)`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := At(t.TempDir())
			c.wait, c.proc, c.shared, c.configs = 20*time.Millisecond, t.TempDir(), filepath.Join(t.TempDir(), "rlminit-"), test.configs
			if test.comm != "" {
				put(t, filepath.Join(c.proc, "1/comm"), test.comm+"\n")
				put(t, filepath.Join(c.proc, "1/cmdline"), test.cmdline)
			}
			_, err := c.Services(t.Context())
			var p *Problem
			if !errors.As(err, &p) || p.ExitCode != ExitNoAnswer {
				t.Fatalf("err = %v, want no answer", err)
			}
			if want := "no rlminit answers on " + c.Socket() + ": " + test.want; !strings.HasPrefix(p.Detail, want) {
				t.Errorf("said %q\nwant %q", p.Detail, want)
			}
		})
	}
}

// TestSupervised: a supervisor that is not up yet counts, so that nothing is done without
// it in the meantime.
func TestSupervised(t *testing.T) {
	for name, test := range map[string]struct {
		comm, cmdline    string
		socket, expected bool
		want             bool
	}{
		"it is up":                    {"rlminit", "rlminit\x00init\x00", true, true, true},
		"it is up, below another":     {"docker-init", "docker-init\x00", true, true, true},
		"it will be up":               {"rlminit", "rlminit\x00init\x00", false, true, true},
		"pure init":                   {"rlminit", "rlminit\x00init\x00", false, false, false},
		"another verb, not even init": {"rlminit", "rlminit\x00try\x00", false, true, true},
		"another program":             {"bash", "bash\x00", false, true, false},
		"no /proc":                    {"", "", false, true, false},
	} {
		c := At(t.TempDir())
		c.proc, c.configs = t.TempDir(), nil
		if test.comm != "" {
			put(t, filepath.Join(c.proc, "1/comm"), test.comm+"\n")
			put(t, filepath.Join(c.proc, "1/cmdline"), test.cmdline)
		}
		if test.socket {
			put(t, c.Socket(), "")
		}
		if test.expected {
			c.configs = []string{filepath.Join(c.proc, "1/comm")}
		}
		if got := c.Supervised(); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// An rlminit of another user's is there, and its directory is not to be trusted:
// that is said at once, with the uid to use.
func TestForeignInit(t *testing.T) {
	config := filepath.Join(t.TempDir(), "rlminit.yaml")
	put(t, config, "")
	for name, prepare := range map[string]func(c *Client){
		"as PID 1": func(c *Client) {
			put(t, filepath.Join(c.proc, "1/comm"), "rlminit\n")
			put(t, filepath.Join(c.proc, "1/cmdline"), "rlminit\x00init\x00")
			put(t, filepath.Join(c.proc, "1/status"), "Name:\trlminit\nUid:\t0\t4242\t4242\t4242\n")
		},
		"below another init": func(c *Client) {
			put(t, filepath.Join(c.proc, "1/comm"), "docker-init\n")
			put(t, filepath.Join(c.shared+"4242", SocketName), "")
			if err := os.Chown(c.shared+"4242", 4242, 4242); err != nil {
				t.Skip("needs root, to make a directory another user's")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := At(t.TempDir())
			c.wait, c.proc, c.shared, c.configs = time.Hour, t.TempDir(), filepath.Join(t.TempDir(), "rlminit-"), []string{config}
			prepare(c)
			_, err := c.Services(t.Context())
			var p *Problem
			want := fmt.Sprintf("permission denied: you are uid %d, rlminit runs as uid 4242; use docker exec -u 4242", os.Geteuid())
			if !errors.As(err, &p) || p.ExitCode != ExitNotPermitted || p.Detail != want {
				t.Errorf("err = %v, want %q", err, want)
			}
		})
	}
}

// A container that was just started has no socket yet.
func TestSocketAppears(t *testing.T) {
	c := At(t.TempDir())
	c.proc = t.TempDir()
	put(t, filepath.Join(c.proc, "1/comm"), "rlminit\n")
	put(t, filepath.Join(c.proc, "1/cmdline"), "rlminit\x00init\x00--config\x00x\x00")
	asked := make(chan struct{})
	go func() {
		<-asked
		l, err := net.Listen("unix", c.Socket())
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { l.Close() })
		http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "[]") }))
	}()
	err := c.persist(t.Context(), request{path: "/v1/services"}, func(ctx context.Context) error {
		_, err := c.once(ctx, request{method: "GET", path: "/v1/services"})
		select {
		case <-asked:
		default:
			close(asked)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func put(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A boot step that runs is told instead of a silence; what is no name of one is not.
func TestBootStepIsTold(t *testing.T) {
	l, c := listen(t)
	go func() {
		for {
			if _, err := l.Accept(); err != nil { // and never answers
				return
			}
		}
	}()
	file := filepath.Join(c.dir, BootFile)
	ask := func(patience time.Duration) string {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := c.Services(ctx)
		if err == nil {
			t.Fatal("somebody answered")
		}
		return err.Error()
	}
	if err := os.Symlink("/etc/passwd", file); err != nil {
		t.Fatal(err)
	}
	if got := ask(10 * time.Millisecond); !strings.HasSuffix(got, " in time") {
		t.Errorf("a link: %s", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("migrate"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, time.Time{}, time.Now().Add(-12*time.Second)); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	c.Notice = func(line string) { said <- line }
	if got := ask(noticeAfter + 100*time.Millisecond); !strings.Contains(got, "yet: boot step migrate is running (1") {
		t.Errorf("%s", got)
	}
	if got := <-said; !strings.HasPrefix(got, "boot step migrate is running (1") || !strings.HasSuffix(got, "s); waiting for it") {
		t.Errorf("noticed %q", got)
	}
}

// A refusal by a bound is asked again, whatever the request does, until the caller's own time
// ends, and is said as what it is.
func TestBusyIsAskedAgain(t *testing.T) {
	asked, free, gaveUp := 0, 3, func() {}
	c := At(t.TempDir())
	l, err := net.Listen("unix", c.Socket())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked > 10 {
			gaveUp()
		}
		if asked < free {
			p := Busy("too many")
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(p.Status)
			_ = json.NewEncoder(w).Encode(p)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	if err := c.Shutdown(t.Context()); err != nil || asked != free {
		t.Errorf("asked %d times: %v", asked, err)
	}
	free = 1 << 30
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	gaveUp = cancel
	if err := c.Shutdown(ctx); !busy(err) {
		t.Errorf("it is busy until the caller's time ends: %v", err)
	}
}
