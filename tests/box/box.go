// Package box is a place where rlminit runs as PID 1, as the tests see it: a
// Docker container or a PID namespace. What holds in one holds in the other, so
// most tests are written once, against a Box.
//
// It knows rlminit by its command line alone.
package box

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/examples/gateway/process"
)

// Spec says what a box starts.
type Spec struct {
	Config string            // rlminit.yaml; "": none, so a pure init
	Files  map[string]string // more files of root's, by absolute path
	Main   []string          // the arguments after `init --`
	Env    []string          // K=V, for PID 1
	Docker []string          // more options for docker create; in Docker alone
	Under  []string          // a command that executes PID 1 in its place, as refuse does; in namespaces alone
}

// User is who runs a command in a box.
type User struct{ UID, GID int }

// The users of the tests: PID 1's, the services', the supervisor's, and one of
// none of them.
var (
	Root       = User{0, 0}
	Service    = User{1000, 1000}
	Supervisor = User{49999, 49999}
	Stranger   = User{10000, 10000}
)

// Result is what came of a command.
type Result struct {
	Code     int // 128+n for signal n
	Out, Err string
}

// String shows a result in a test's complaint.
func (r Result) String() string {
	return fmt.Sprintf("exit code %d, stdout %q, stderr %q", r.Code, r.Out, r.Err)
}

// Place is the kind of box: what differs between a container and a namespace.
type Place interface {
	// Exec runs argv inside, with PID 1's environment.
	Exec(user User, in io.Reader, argv []string) (Result, error)
	// Signal sends a signal to PID 1.
	Signal(number int) error
	// Start starts a box that has ended again, with the same files.
	Start() error
	// Stop asks PID 1 to end as `docker stop` does: TERM, and KILL after 10 s.
	Stop() error
	// Ended waits until the box has ended, and returns its exit code.
	Ended(timeout time.Duration) (int, error)
	// Printed is all that PID 1 and its children wrote to the box's own stdout
	// and stderr so far.
	Printed() string
	// Home is the volume's path inside.
	Home() string
}

// Box is a place with a test around it.
type Box struct {
	testing.TB
	Place
}

// Run runs rlminit's command line as the service user.
func (b *Box) Run(args ...string) Result {
	b.Helper()
	return b.As(Service, append([]string{"rlminit"}, args...)...)
}

// Must runs rlminit's command line as the service user, and fails the test
// unless it succeeds. It returns its standard output.
func (b *Box) Must(args ...string) string {
	b.Helper()
	r := b.Run(args...)
	if r.Code != 0 {
		b.Fatalf("rlminit %s: %s", strings.Join(args, " "), r)
	}
	return r.Out
}

// Fails runs rlminit's command line as the service user, and fails the test
// unless its exit code is this one and its complaint one line that begins with
// "rlminit: " and has the fragment in it.
func (b *Box) Fails(code int, fragment string, args ...string) {
	b.Helper()
	b.FailsAs(Service, code, fragment, args...)
}

// FailsAs is Fails as another user.
func (b *Box) FailsAs(user User, code int, fragment string, args ...string) {
	b.Helper()
	r := b.As(user, append([]string{"rlminit"}, args...)...)
	line := strings.TrimSuffix(r.Err, "\n")
	if r.Code != code || !strings.HasPrefix(line, "rlminit: ") || strings.Contains(line, "\n") || !strings.Contains(line, fragment) {
		b.Errorf("rlminit %s: %s; want exit code %d and one line with %q", strings.Join(args, " "), r, code, fragment)
	}
}

// As runs a command as a user.
func (b *Box) As(user User, argv ...string) Result {
	b.Helper()
	r, err := b.Exec(user, nil, argv)
	if err != nil {
		b.Fatalf("%q: %v", argv, err)
	}
	return r
}

// Shell runs a script of bash as a user, and fails the test unless it
// succeeds. It returns what it printed.
func (b *Box) Shell(user User, script string) string {
	b.Helper()
	r := b.As(user, "bash", "-ec", script)
	if r.Code != 0 {
		b.Fatalf("%s\n%s", script, r)
	}
	return r.Out
}

// Write writes a file as a user, in one go.
func (b *Box) Write(user User, path, content string) {
	b.Helper()
	r, err := b.Exec(user, strings.NewReader(content), []string{"bash", "-ec", `cat >"$0"`, path})
	if err != nil || r.Code != 0 {
		b.Fatalf("cannot write %s: %v %s", path, err, r)
	}
}

// Status is `rlminit status --json`, by name.
func (b *Box) Status() map[string]control.Service {
	b.Helper()
	services, err := b.status()
	if err != nil {
		b.Fatal(err)
	}
	return services
}

func (b *Box) status() (map[string]control.Service, error) {
	r, err := b.Exec(Service, nil, []string{"rlminit", "status", "--json"})
	if err != nil {
		return nil, err
	}
	if r.Code != 0 {
		return nil, fmt.Errorf("rlminit status --json: %s", r)
	}
	var list []control.Service
	if err := json.Unmarshal([]byte(r.Out), &list); err != nil {
		return nil, fmt.Errorf("rlminit status --json: %w in %q", err, r.Out)
	}
	services := map[string]control.Service{}
	for _, s := range list {
		services[s.Name] = s
	}
	return services, nil
}

// Await waits until a service is in a state, and returns it.
func (b *Box) Await(name, state string) control.Service {
	b.Helper()
	return b.AwaitThat(name, "is "+state, func(s control.Service) bool { return s.State == state })
}

// AwaitThat waits until something is true of a service, and returns it.
func (b *Box) AwaitThat(name, what string, is func(control.Service) bool) control.Service {
	b.Helper()
	var found control.Service
	Eventually(b, 20*time.Second, name+" "+what, func() (bool, any) {
		services, err := b.status()
		if err != nil {
			return false, err
		}
		s, ok := services[name]
		found = s
		return ok && is(s), Describe(s)
	})
	return found
}

// AwaitReady waits until rlminit answers: the box is up.
func (b *Box) AwaitReady() {
	b.Helper()
	Eventually(b, 20*time.Second, "rlminit answers", func() (bool, any) {
		r, err := b.Exec(Service, nil, []string{"rlminit", "health"})
		if err != nil {
			return false, err
		}
		return r.Code == 0, r
	})
}

// Again waits for the end of the box, and starts it anew.
func (b *Box) Again() {
	b.Helper()
	if _, err := b.Ended(20 * time.Second); err != nil {
		b.Fatal(err)
	}
	if err := b.Start(); err != nil {
		b.Fatal(err)
	}
	b.AwaitReady()
}

// Processes is every process in the box, as the service user sees them: the
// descriptors of its own are among it. The one that looked is left out.
func (b *Box) Processes() []process.Info {
	b.Helper()
	r := b.As(Service, "nasty", "ps")
	var all []process.Info
	if err := json.Unmarshal([]byte(r.Out), &all); err != nil {
		b.Fatalf("%v in %s", err, r)
	}
	kept := all[:0]
	for _, p := range all {
		if len(p.Args) == 2 && p.Args[0] == "nasty" && p.Args[1] == "ps" {
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

// NoZombies waits until everything that ended was collected, for a zombie may
// be seen for a moment.
func (b *Box) NoZombies() {
	b.Helper()
	Eventually(b, 5*time.Second, "no zombies", func() (bool, any) {
		for _, p := range b.Processes() {
			if p.State == "Z" {
				return false, p
			}
		}
		return true, nil
	})
}

// Supervisor is the process of tier 2.
func (b *Box) Supervisor() process.Info {
	b.Helper()
	for _, p := range b.Processes() {
		if p.Parent == 1 && len(p.Args) > 1 && p.Args[1] == "supervise" {
			return p
		}
	}
	b.Fatal("there is no supervisor")
	return process.Info{}
}

// Call makes an HTTP request of a service on a port, inside, and returns the
// answer. With a body it is a POST.
func (b *Box) Call(port int, path string, body ...string) string {
	b.Helper()
	argv := []string{"gateway", "call"}
	for _, text := range body {
		argv = append(argv, "-d", text)
	}
	r := b.As(Service, append(argv, fmt.Sprintf("http://127.0.0.1:%d%s", port, path))...)
	if r.Code != 0 {
		b.Fatalf("%s: %s", path, r)
	}
	return r.Out
}

// Describe shows a service on one line.
func Describe(s control.Service) string {
	b, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Transcript is what was printed so far: written by one, read by others.
type Transcript struct {
	mu   sync.Mutex
	text []byte
}

// Write adds to the transcript. It never fails.
func (t *Transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	return len(p), nil
}

// String is all that was written.
func (t *Transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// Tail is the end of a long text: its last lines.
func Tail(text string) string {
	const lines = 60
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// Eventually asks until the answer is yes, and fails the test if it is not
// after the timeout, with what was seen last.
func Eventually(t testing.TB, timeout time.Duration, what string, ask func() (yes bool, seen any)) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		yes, seen := ask()
		if yes {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s; last seen: %v", timeout, what, seen)
		}
		time.Sleep(pause)
	}
}
