package prepare

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/wire"
)

// parsed is a configuration whose volume is home.
func parsed(t *testing.T, home, text string) *config.Config {
	t.Helper()
	c, faults := config.Parse(config.Bundle{
		Path: "rlminit.yaml", Files: []config.File{{Name: "rlminit.yaml", Data: []byte("version: 1\nhome: " + home + "\n" + text)}},
	}, nil)
	if err := faults.Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

// done is who is told of steps, where the test is about something else.
func done(string) {}

func TestSeedKeepsWhatIsThere(t *testing.T) {
	home, image := t.TempDir(), t.TempDir()
	write(t, filepath.Join(image, "config"), "new\n", 0o644)
	write(t, filepath.Join(home, "mine"), "old\n", 0o666)
	outside := filepath.Join(image, "outside")
	write(t, outside, "", 0o644)
	if err := os.Symlink(outside, filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	from := "from: " + image + "/config"
	c := parsed(t, home, "seed: [{"+from+", to: mine, mode: \"0600\"}, {"+from+", to: a/b, mode: \"0640\"}, {"+from+", to: link, mode: \"0777\"}]\n")
	var said []string
	for range 2 {
		if failure := AsUser(context.Background(), c, wire.Identity{}, func(line string) { said = append(said, line) }, done); failure != nil {
			t.Fatal(failure)
		}
	}
	for name, want := range map[string]string{"mine": "old\n", "a/b": "new\n"} {
		if got := read(t, filepath.Join(home, name)); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for name, want := range map[string]os.FileMode{filepath.Join(home, "mine"): 0o600, filepath.Join(home, "a/b"): 0o640, outside: 0o644} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if len(said) != 2 || !strings.Contains(said[0], "link is a symbolic link") {
		t.Errorf("said %q", said)
	}
}

func TestSeedThatIsNotThere(t *testing.T) {
	c := parsed(t, t.TempDir(), "seed: [{from: /nonexistent/config, to: config}]\n")
	failure := AsUser(context.Background(), c, wire.Identity{}, nil, done)
	if failure == nil || failure.Code != 1 || failure.Error() != "seed: cannot read /nonexistent/config: no such file or directory" {
		t.Errorf("%v", failure)
	}
}

// A step that is ended takes its children along, those in sessions of their own
// too, and nothing of the steps before it.
func TestStepIsEndedWithAllOfIt(t *testing.T) {
	for name, command := range map[string]string{
		"group":   "sleep 600 & echo $$! >NEW; mv NEW CHILD; wait",
		"session": "(setsid sleep 600 & echo $$! >NEW; mv NEW CHILD); sleep 600",
	} {
		t.Run(name, func(t *testing.T) { stepIsEnded(t, command) })
	}
}

func stepIsEnded(t *testing.T, command string) {
	home := t.TempDir()
	child := filepath.Join(home, "child")
	script := `command: [sh, -c, "` + strings.NewReplacer("CHILD", child, "NEW", child+".new").Replace(command) + `"]`
	c := parsed(t, home, "boot: [{name: long, "+script+"}]\n")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for {
			if _, err := os.Stat(child); !errors.Is(err, os.ErrNotExist) {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	failure := AsUser(ctx, c, wire.Identity{Name: "x", Home: home}, nil, done)
	if failure == nil || failure.Code != 143 || !strings.Contains(failure.Error(), "boot step long") {
		t.Fatalf("%v", failure)
	}
	pid := strings.TrimSpace(read(t, child))
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		status, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(status), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("pid %s is left: %s", pid, status)
		}
	}
}

func TestStrictWantsTheVolume(t *testing.T) {
	home := t.TempDir()
	c := parsed(t, home, "strict: true\n")
	if failure := AsUser(context.Background(), c, wire.Identity{}, nil, done); failure != nil {
		t.Error(failure)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	c = parsed(t, filepath.Join(home, "absent"), "strict: true\n")
	if failure := AsUser(context.Background(), c, wire.Identity{}, nil, done); failure == nil || failure.Code != 78 || !errors.Is(failure, unix.ENOENT) {
		t.Errorf("%v", failure)
	}
}
