package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rlminit/tests/box"
)

// recipe is the Dockerfile of README.md, letter by letter.
func recipe(t *testing.T) string {
	t.Helper()
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(readme)) {
		code, is := strings.CutPrefix(line, "    ")
		if is && (len(lines) > 0 || strings.HasPrefix(code, "FROM ")) {
			lines = append(lines, code)
		} else if len(lines) > 0 {
			break
		}
	}
	if len(lines) < 5 {
		t.Fatalf("README.md has no Dockerfile: %q", lines)
	}
	return strings.Join(lines, "")
}

// TestRecipe: an image made by README.md's recipe works, though its user has no home:
// services, jobs, hooks, schedules and exec start in / then.
func TestRecipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := strings.NewReplacer("debian:bookworm-slim", built.base, "rlminit:latest", built.bare).Replace(recipe(t))
	config := `version: 1
user: app
gateway: {command: [sleep, infinity]}
services:
  where: {type: oneshot, command: [pwd]}
  nightly: {type: oneshot, command: [pwd], schedule: {cron: "* * * * *"}}
hooks:
  - {on: [exited], services: [where], command: [pwd]}
`
	for name, content := range map[string]string{"Dockerfile": text, "rlminit.yaml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	image := imageName(runName) + ":recipe"
	if err := run(dir, "docker", "build", "-q", "-t", image, "."); err != nil {
		t.Fatal(err)
	}
	b := startImage(t, image, box.Spec{Docker: []string{"-v", volume(t) + ":/data"}})
	awaitAnswer(b)
	for _, argv := range [][]string{{"run", "--", "pwd"}, {"exec", "--", "pwd"}, {"logs", "--no-prefix", "where"}} {
		if r := b.As(box.Root, append([]string{"rlminit"}, argv...)...); r.Code != 0 || !strings.Contains(r.Out, "/\n") || strings.Contains(r.Out, "home") {
			t.Errorf("%v: %s", argv, r)
		}
	}
	b.Must("profile", "create", "alice")
	b.Await("gateway-alice", "running")
	if out := b.Must("run", "--profile", "alice", "--", "pwd"); !strings.Contains(out, "/data/profiles/alice") {
		t.Errorf("a job of a profile is in %s", out)
	}
	box.Eventually(b, 90*time.Second, "the hook and the schedule have run", func() (bool, any) {
		list := b.Must("job", "list", "--json")
		return strings.Contains(list, `"kind": "hook"`) && strings.Contains(list, `"kind": "schedule"`) &&
			strings.Count(list, `"state": "succeeded"`) >= 4, list
	})
}
