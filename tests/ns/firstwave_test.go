package ns

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// firstWave is the last commit of which volumes have no journal.
const firstWave = "d5ab57b"

// olderPrograms builds rlminit of the first wave, beside the tests' programs.
func olderPrograms(t *testing.T) string {
	t.Helper()
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	run := func(dir, name string, args ...string) []byte {
		t.Helper()
		var complaint bytes.Buffer
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Stderr = dir, &complaint
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, complaint.String())
		}
		return out
	}
	if exec.Command("git", "-C", root, "cat-file", "-e", firstWave+"^{commit}").Run() != nil {
		t.Skipf("the commit %s is not in this clone: fetch the whole history, git fetch --unshallow", firstWave)
	}
	source, bin := t.TempDir(), t.TempDir()
	archive := filepath.Join(source, "archive.tar")
	run(root, "git", "archive", "-o", archive, firstWave)
	run(source, "tar", "-xf", archive)
	run(source, "go", "build", "-tags", "nethttpomithttp2", "-trimpath", "-o", filepath.Join(bin, "rlminit"), "./cmd/rlminit")
	for _, name := range []string{"gateway", "nasty"} {
		if err := os.Link(filepath.Join(programs, name), filepath.Join(bin, name)); err != nil {
			run(root, "cp", filepath.Join(programs, name), bin)
		}
	}
	for dir := bin; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// TestVolumeOfTheFirstWave: a volume without a journal is taken over with what ran
// and what was stopped, also where the container was killed; an older rlminit finds
// on ours what was asked of profiles since, and does it no harm; and back here the journal
// counts, and says where the older one was told otherwise.
func TestVolumeOfTheFirstWave(t *testing.T) {
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", kill), func(t *testing.T) {
			t.Parallel()
			older := olderPrograms(t)
			b := startOf(t, box.Spec{Config: contract.Services(
				`web: {command: [sleep, infinity]}`, `idle: {command: [sleep, infinity]}`)}, older)
			next := func(programs string) {
				t.Helper()
				end := b.Stop
				if kill {
					end = func() error { return b.Signal(int(unix.SIGKILL)) }
				}
				if err := end(); err != nil {
					t.Fatal(err)
				}
				b.Place.(*Place).bin = programs
				b.Again()
			}
			is := func(what string, states map[string]string) {
				t.Helper()
				for name, want := range states {
					b.Await(name, want)
				}
				for name, s := range b.Status() {
					if want := states[name]; s.State != want || s.Desired != want {
						t.Errorf("%s: %s, want %q", what, box.Describe(s), want)
					}
				}
			}
			for _, args := range [][]string{
				{"profile", "create", "runs"},
				{"profile", "create", "stops"},
				{"profile", "create", "never", "--stopped"},
				{"stop", "stops"},
				{"stop", "idle"},
			} {
				b.Must(args...)
			}
			port := *b.Await("gateway-runs", "running").Port

			next(programs)
			is("taken over", map[string]string{
				"gateway-runs": "running", "gateway-stops": "stopped", "gateway-never": "stopped", "web": "running", "idle": "stopped",
			})
			if now := *b.Status()["gateway-runs"].Port; now != port {
				t.Errorf("the port was %d, and is %d", port, now)
			}
			if out := b.Must("events", "--type", "found", "--json"); !strings.Contains(out, `"gateway-stops":"stopped"`) {
				t.Errorf("found was %s", out)
			}
			b.Must("start", "stops", "idle")
			b.Must("stop", "runs", "web")
			b.Must("profile", "create", "late")
			since := map[string]string{
				"gateway-runs": "stopped", "gateway-stops": "running", "gateway-never": "stopped", "gateway-late": "running",
				"web": "stopped", "idle": "running",
			}

			next(older)
			// What is wanted of a service of the configuration is in the journal alone,
			// which the older one does not know: it goes by what it recorded itself.
			ofOlder := maps.Clone(since)
			ofOlder["web"], ofOlder["idle"] = "running", "stopped"
			is("of the older one", ofOlder)
			b.Must("start", "runs") // of which the journal knows nothing
			b.Await("gateway-runs", "running")

			next(programs)
			is("back again", since)
			log := b.Shell(box.Service, `cat "`+b.Home()+`/logs/container-boot.log"`)
			if !regexp.MustCompile(`(?m) profile=runs prior_state=running action=registered overruled_file=running prior_exit=(clean|killed)$`).MatchString(log) {
				t.Errorf("that the file says something else is not in container-boot.log:\n%s", log)
			}
			if r := b.As(box.Root, "rlminit", "journal", "verify", b.Home()); r.Code != 0 || strings.Contains(r.Out, "damaged") {
				t.Errorf("the journal is %s", r)
			}
		})
	}
}
