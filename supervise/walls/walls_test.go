package walls

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rlminit/rights"

	"golang.org/x/sys/unix"

	"rlminit/isolate"
	"rlminit/service"
	"rlminit/wire"
)

// place is a volume and a runtime directory with a slot.
func place(t *testing.T) (p *Place, home, runtime string) {
	t.Helper()
	home, runtime = t.TempDir(), t.TempDir()
	for _, dir := range []string{home + "/profiles/alice", runtime + "/services/gateway-alice"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/tmp/rlminit-0123456789abcdef", runtime+"/"+wire.TemporaryLink); err != nil {
		t.Fatal(err)
	}
	return New(home, runtime), home, runtime
}

func unnamed(string) bool { return false }

func ourselves(string) *rights.User { return nil }

func TestNoWallsAreNothing(t *testing.T) {
	p, _, _ := place(t)
	environment := []string{"A=b"}
	w, err := p.Build(Subject{Name: "web", Environment: environment, Named: unnamed})
	if err != nil {
		t.Fatal(err)
	}
	var m wire.Spawn
	fds, err := w.Fill(&m)
	if err != nil || fds != nil || m.Ruleset || m.Credentials || m.Private != nil || m.Filter != nil || !slices.Equal(w.Environment, environment) {
		t.Errorf("%v, %v, %+v, %v", err, fds, m, w.Environment)
	}
}

func TestWallsOfALevel(t *testing.T) {
	if isolate.Capable().Landlock == 0 {
		t.Skip("this kernel offers no Landlock")
	}
	p, home, _ := place(t)
	own := home + "/profiles/alice"
	subject := Subject{
		Name: "gateway-alice", Isolation: service.Isolation{Level: isolate.Strict, Read: []string{home + "/none"}},
		Own: own, Port: 9200, Environment: []string{"HOME=/home/app", "A=b"}, Named: unnamed,
	}
	w, err := p.Build(subject)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(w.Environment, "HOME="+own) || !slices.Contains(w.Environment, "TMPDIR=/tmp/rlminit-0123456789abcdef/gateway-alice") || slices.Contains(w.Environment, "HOME=/home/app") {
		t.Errorf("environment %q", w.Environment)
	}
	if subject.Environment[0] != "HOME=/home/app" {
		t.Error("the environment was changed in its place")
	}
	if len(w.Notes) != 1 || !strings.Contains(w.Notes[0], "/none is not there") {
		t.Errorf("notes %q", w.Notes)
	}
	var m wire.Spawn
	fds, err := w.Fill(&m)
	if err != nil || len(fds) != 1 || !m.Ruleset || m.Credentials || m.Rights == 0 || len(m.Filter) == 0 ||
		!slices.Equal(m.Private, []string{"/tmp/rlminit-0123456789abcdef/gateway-alice"}) {
		t.Errorf("%v, %v, %+v", err, fds, m)
	}
	wire.CloseAll(fds)

	subject.Named = func(string) bool { return true } // by its definition
	if w, err = p.Build(subject); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if !slices.Equal(w.Environment, subject.Environment) {
		t.Errorf("environment %q", w.Environment)
	}
}

// Secrets are renewed whole, and one that cannot be had leaves none.
func TestSecrets(t *testing.T) {
	p, home, runtime := place(t)
	dir := runtime + "/services/gateway-alice/credentials"
	stored := home + "/stored"
	os.Mkdir(stored, 0o700)
	for file, content := range map[string]string{home + "/token": "precious\n", stored + "/KEY": "stored", stored + "/TOKEN": "other", stored + "/.x": "no"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var w Walls
	if err := p.Secrets(&w, "gateway-alice", map[string]string{"TOKEN": home + "/token"}, ourselves, stored); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"TOKEN": "precious\n", "KEY": "stored"} {
		if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(content) != want {
			t.Errorf("%s: %q, %v", name, content, err)
		}
	}
	entries, _ := os.ReadDir(dir)
	if info, err := os.Stat(dir); len(entries) != 2 || err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("%v, %v, %v", entries, info, err)
	}
	if !slices.Equal(w.Environment, []string{"CREDENTIALS_DIRECTORY=" + dir}) {
		t.Errorf("environment %q", w.Environment)
	}
	var m wire.Spawn
	fds, err := w.Fill(&m)
	if err != nil || len(fds) != 1 || !m.Credentials {
		t.Errorf("%v, %v, %+v", err, fds, m)
	}
	wire.CloseAll(fds)

	unread := &os.PathError{Op: "open", Path: "/token", Err: unix.EACCES}
	if got, want := mayRead(unread, nil, "/token"), fmt.Sprintf("; the supervisor reads it as uid %d: chown %[1]d /token", os.Geteuid()); got != want {
		t.Errorf("of a file that cannot be read it says %q, want %q", got, want)
	}
	if err := unix.Mkfifo(home+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{home + "/fifo", home + "/none", home} {
		DropSecrets(runtime, "gateway-alice")
		err := p.Secrets(&w, "gateway-alice", map[string]string{"A": home + "/token", "B": file}, ourselves, "")
		if err == nil || !strings.Contains(err.Error(), "cannot hand over the secret B: ") {
			t.Errorf("%s: %v", file, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: a part of the secrets is there", file)
		}
	}
}
