package supervise

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rlminit/profiles"
	"rlminit/service"
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
	slog.SetDefault(slog.New(newLogHandler(s)))
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
	p := newPlace(t, gateways+"services: {web: {command: [web]}}\n")
	p.write("profiles/alice/profile.yaml", "")
	p.write("profiles/alice/gateway_state.json", "{")
	p.write("state/services/web.json", "{")
	p.open()
	p.bootAll()
	p.await("gateway-alice", "stopped")
	p.now.written(time.Second)
	for _, name := range []string{"alice", "web"} {
		if lines := heard.about(name); len(lines) != 1 || !strings.Contains(lines[0], "it is kept as") {
			t.Errorf("said of %s: %q", name, lines)
		}
	}
}

// A profile that is gone before its last state was written is no cause for
// alarm; one that cannot be written is, under its service's name.
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
	seen := func(profiles.Seen) profiles.Seen { return profiles.Seen{State: service.SeenStopped} }
	for _, name := range []string{"alice", "bob"} {
		p.now.recorder.put(profiles.Gateway(name), seen)
	}
	p.now.written(10 * time.Second)
	if lines := heard.about("alice"); len(lines) > 0 {
		t.Errorf("said of alice: %q", lines)
	}
	if lines := heard.about("cannot record"); len(lines) != 1 || !strings.Contains(lines[0], "service=gateway-bob ") {
		t.Errorf("said of bob: %q", lines)
	}
}
