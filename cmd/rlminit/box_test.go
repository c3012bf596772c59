package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"rlminit/control"
)

// The test binary plays rlminit: what a test runs is the real thing, with its
// exit codes, descriptors and signals.
func TestMain(m *testing.M) {
	if os.Getenv("PLAY_RLMINIT") != "" {
		os.Exit(run(os.Args))
	}
	os.Exit(m.Run())
}

// box is a supervisor that answers what a test tells it to, on a real socket.
type box struct {
	dir string

	mu      sync.Mutex
	answers map[string]any
	asked   []string
}

// newBox serves answers by "METHOD /path". An answer is a value to be sent as
// JSON, a *control.Problem, a function, or nil for 204.
func newBox(t *testing.T, answers map[string]any) *box {
	t.Helper()
	dir, err := os.MkdirTemp("", "cli") // a socket's path is at most 107 bytes long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b := &box{dir: dir, answers: answers}
	l, err := net.Listen("unix", filepath.Join(dir, control.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, control.SocketName), 0o666); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: b}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return b
}

func (b *box) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	route := r.Method + " " + r.URL.Path
	request := route
	if r.URL.RawQuery != "" {
		request += "?" + r.URL.RawQuery
	}
	if len(body) > 0 {
		request += " " + string(body)
	}
	b.mu.Lock()
	b.asked = append(b.asked, request)
	answer, ok := b.answers[route]
	b.mu.Unlock()
	if !ok {
		answer = control.NoSuchName(filepath.Base(r.URL.Path), []string{"alice", "bob"})
	}
	switch answer := answer.(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
	case *control.Problem:
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(answer.Status)
		json.NewEncoder(w).Encode(answer)
	case func(http.ResponseWriter, *http.Request):
		answer(w, r)
	default:
		json.NewEncoder(w).Encode(answer)
	}
}

// requests returns what was asked, in any order of arrival, sorted.
func (b *box) requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(slices.Values(b.asked))
}

// result is what a command wrote, and how it exited.
type result struct {
	out, err string
	code     int
}

// command is rlminit with arguments, asking this box.
func (b *box) command(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = "rlminit"
	cmd.Env = []string{"PLAY_RLMINIT=1", "PATH=/usr/bin:/bin", "TZ=UTC", "GORACE=atexit_sleep_ms=10"}
	if b != nil {
		cmd.Env = append(cmd.Env, "RLMINIT_RUNTIME_DIR="+b.dir)
	}
	return cmd
}

// rlminit runs it to its end.
func (b *box) rlminit(t *testing.T, args ...string) result {
	t.Helper()
	return outcomeOf(t, b.command(args...))
}

func outcomeOf(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

var anyTime = regexp.MustCompile(`\b\d+\.\ds\b`)

// story is one command and all that comes of it.
type story struct {
	name string
	args []string
	out  string // with any time taken as 0.0s
	err  string
	code int
	asks []string // sorted
}

// tell runs stories against boxes with the same answers.
func tell(t *testing.T, answers map[string]any, stories []story) {
	t.Helper()
	for _, s := range stories {
		name := s.name
		if name == "" {
			name = strings.Join(s.args, " ")
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, answers)
			r := b.rlminit(t, s.args...)
			if got := anyTime.ReplaceAllString(r.out, "0.0s"); got != s.out {
				t.Errorf("stdout:\n%swant:\n%s", got, s.out)
			}
			if got := strings.ReplaceAll(r.err, b.dir, "RUN"); got != s.err {
				t.Errorf("stderr:\n%swant:\n%s", got, s.err)
			}
			if r.code != s.code {
				t.Errorf("exit code %d, want %d", r.code, s.code)
			}
			if got := b.requests(); s.asks != nil && !slices.Equal(got, s.asks) {
				t.Errorf("asked:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(s.asks, "\n"))
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }
