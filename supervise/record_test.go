package supervise

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/profiles"
	"rlminit/profiles/lease"
	"rlminit/service"
	"rlminit/supervise/console"
	"rlminit/supervise/handover"
	"rlminit/supervise/remember"
	"rlminit/supervise/serve"
	"rlminit/tests/box"
	"rlminit/tests/unprivileged"
)

// said keeps what a supervisor says, as docker logs would have it.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// overhear has everything that is said from now on go there.
func overhear(t *testing.T) *said {
	t.Helper()
	s := new(said)
	was := slog.Default()
	slog.SetDefault(slog.New(console.NewHandler(s)))
	t.Cleanup(func() { slog.SetDefault(was) })
	return s
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

// about returns the lines that hold a text.
func (s *said) about(text string) (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.text.String()) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// A state file that says nothing is one line, with the name that it has now.
func TestCorruptStateIsSaidOnce(t *testing.T) {
	heard := overhear(t)
	p := newPlace(t, gateways)
	p.write("profiles/alice/profile.yaml", "")
	p.write("profiles/alice/gateway_state.json", "{")
	p.open()
	p.bootAll()
	p.await("gateway-alice", "stopped")
	p.copied(time.Second)
	if lines := heard.about("alice"); len(lines) != 1 || !strings.Contains(lines[0], "it is kept as") {
		t.Errorf("said: %q", lines)
	}
}

// A profile that is gone before its last state was written is no cause for
// alarm; one that cannot be written is.
func TestStateOfAProfileThatIsGone(t *testing.T) {
	heard := overhear(t)
	p := newPlace(t, gateways)
	p.open()
	created(p, "alice", "")
	created(p, "bob", "")
	for _, name := range []string{"alice", "bob"} {
		// At once, for states of it are being written.
		if err := os.Rename(filepath.Join(p.home, "profiles", name), filepath.Join(t.TempDir(), name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(p.home, "profiles/bob")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alice", "bob"} {
		p.now.Recorder.Put(name, profiles.Seen{State: service.SeenStopped})
	}
	p.copied(10 * time.Second)
	if lines := heard.about("alice"); len(lines) > 0 {
		t.Errorf("said of alice: %q", lines)
	}
	if lines := heard.about("cannot write the state file"); len(lines) != 1 || !strings.Contains(lines[0], "profile=bob ") {
		t.Errorf("said of bob: %q", lines)
	}
}

const pair = `version: 1
user: app
services:
  one: {command: [one]}
  two: {command: [two]}
`

// failing has writes to the volume fail for which it returns true.
func (p *place) failing(which func() bool) {
	p.now.Volume.Store().Ours().Fail(func(string) error {
		if which() {
			return unix.ENOSPC
		}
		return nil
	})
}

// recordedAs is the intent that the journal has of a service.
func (p *place) recordedAs(name string) service.Intent {
	p.Helper()
	return box.Recorded(p.T, p.home)[name]
}

// What cannot be recorded is refused, but for a stop: that is carried out, and its
// answer says what it is worth. Nothing of it is recorded.
// forgetful has no room for what a successor is to know of services, as long as it is full.
type forgetful struct {
	handover.File
	full *atomic.Bool
}

func (f forgetful) WriteAt(b []byte, at int64) (int, error) {
	if f.full.Load() && bytes.Contains(b, []byte(remember.ServicesUnder)) {
		return 0, unix.ENOMEM
	}
	return f.File.WriteAt(b, at)
}

// No process is started of which a successor would not know.
func TestAStartThatCannotBeRemembered(t *testing.T) {
	p := newPlace(t, "version: 1\nuser: app\nservices:\n  web: {command: [web], restart: {delay: 10ms}}\n")
	var full atomic.Bool
	full.Store(true)
	p.now.Memory.Through(func(f handover.File) handover.File { return forgetful{f, &full} })
	p.bootAll()
	p.await("web", "backoff")
	if n := p.spawned("web"); n != 0 {
		t.Errorf("it was spawned %d times, and nobody would know it", n)
	}
	full.Store(false)
	p.await("web", "running")
}

func TestCommandsThatCannotBeRecorded(t *testing.T) {
	p := newPlace(t, pair)
	p.bootAll()
	p.await("one", "running")
	p.await("two", "running")
	p.copied(10 * time.Second)
	var all, one []*serve.View
	p.now.loop.Commands.Read(func(now serve.Services) {
		one = []*serve.View{now.Named("one")}
		all = append(one, now.Named("two"))
	})
	for _, outcome := range operate(p.now, "stop", one, false, 0, &control.Wait{}) {
		if outcome.Problem != nil {
			t.Fatal(outcome.Problem.Detail)
		}
	}
	p.full.Store(true)
	for _, outcome := range operate(p.now, "start", one, false, 0, &control.Wait{}) {
		if state, _ := p.state("one"); outcome.Problem == nil || state != "stopped" {
			t.Errorf("one is %s, and was answered: %v", state, outcome.Problem)
		}
	}
	for _, outcome := range operate(p.now, "stop", all, false, 0, &control.Wait{}) {
		name := outcome.Service.Name
		if state, _ := p.state(name); state != "stopped" {
			t.Errorf("%s is %s", name, state)
		}
		if name == "two" && (outcome.Problem == nil || !strings.Contains(outcome.Problem.Detail, "as with --runtime")) {
			t.Errorf("it was answered: %v", outcome.Problem)
		}
	}
	if one, two := p.recordedAs("one"), p.recordedAs("two"); one != service.Stopped || two == service.Stopped {
		t.Errorf("recorded are %q and %q", one, two)
	}
	// What is as recorded needs no room.
	p.full.Store(false)
	for _, outcome := range operate(p.now, "start", one, false, 0, &control.Wait{}) {
		if outcome.Problem != nil {
			t.Error(outcome.Problem.Detail)
		}
	}
	p.full.Store(true)
	for _, outcome := range operate(p.now, "restart", one, false, 0, &control.Wait{}) {
		if outcome.Problem != nil {
			t.Errorf("a restart on a full disk: %s", outcome.Problem.Detail)
		}
	}
}

// The state that could not be recorded is recorded when the disk is well again,
// though nothing else happens.
func TestStateIsRecordedWhenTheDiskIsWell(t *testing.T) {
	heard := overhear(t)
	p := newPlace(t, gateways)
	p.open()
	p.bootAll()
	created(p, "alice", "")
	p.await("gateway-alice", "running")
	p.copied(10 * time.Second)
	var full atomic.Bool
	full.Store(true)
	p.failing(full.Load)
	p.now.Recorder.Put("alice", profiles.Seen{State: "degraded"})
	for range 3 {
		p.now.Recorder.Flush(t.Context())
	}
	if lines := heard.about("cannot write the state file"); len(lines) != 1 {
		t.Errorf("said: %q", lines)
	}
	full.Store(false)
	p.eventually("it is recorded", func() (bool, any) {
		text := p.read("profiles/alice/gateway_state.json")
		return strings.Contains(text, "degraded"), text
	})
}

// A successor on a disk that fails acknowledges as little as its predecessor.
func TestASuccessorOnAFailingDisk(t *testing.T) {
	if unprivileged.Rerun(t, nil) {
		return
	}
	p := newPlace(t, pair)
	p.bootAll()
	p.await("one", "running")
	p.copied(10 * time.Second)
	p.kill()
	if err := os.Chmod(p.home, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(p.home, 0o700)
	p.supervise()
	p.open()
	if p.now.Volume.ReadOnly() {
		t.Error("it is taken for a volume that could never be written to")
	}
}

// On a volume that is read-only, but for which there is a lock file, a successor
// stops what it is told to, and says that this is not recorded.
func TestASuccessorOnAReadOnlyVolume(t *testing.T) {
	if unprivileged.Rerun(t, nil) {
		return
	}
	p := newPlace(t, pair)
	if err := os.MkdirAll(filepath.Join(p.home, filepath.Dir(lease.File)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.home, lease.File), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(p.home, filepath.Dir(lease.File)), p.home} {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(dir, 0o700)
	}
	p.bootAll()
	p.await("one", "running")
	p.kill()
	p.supervise()
	p.bootAll()
	p.await("one", "running")
	var one []*serve.View
	p.now.loop.Commands.Read(func(now serve.Services) { one = []*serve.View{now.Named("one")} })
	outcome := operate(p.now, "stop", one, false, 0, &control.Wait{})[0]
	if state, _ := p.state("one"); outcome.Problem == nil || state != "stopped" {
		t.Errorf("one is %s: %v", state, outcome.Problem)
	}
}

// What was seen last, and had not come to its copy when the supervisor was killed, is
// there with the next one, though nothing else happens.
func TestASuccessorBringsCopiesUpToDate(t *testing.T) {
	p := newPlace(t, gateways)
	p.open()
	p.bootAll()
	created(p, "alice", "")
	p.await("gateway-alice", "running")
	p.copied(10 * time.Second)
	p.failing(func() bool { return true }) // as if it were killed before it writes
	before := p.unit("gateway-alice").State.PID
	p.exit("gateway-alice")
	p.eventually("it has another process", func() (bool, any) {
		pid, state := 0, ""
		p.now.loop.Commands.Read(func(now serve.Services) {
			u := now.Named("gateway-alice")
			pid, state = u.State.PID, u.State.Public()
		})
		return state == "running" && pid != before, pid
	})
	p.kill()
	p.supervise()
	p.bootAll()
	is := fmt.Sprintf(`"pid":%d,`, p.unit("gateway-alice").State.PID)
	p.eventually("the copy has "+is, func() (bool, any) {
		text := p.read("profiles/alice/gateway_state.json")
		return strings.Contains(text, is), text
	})
}
