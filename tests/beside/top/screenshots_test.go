package top

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/contract"
	"rlminit/tests/ns"
)

// shown are the services of the pictures, beside some profiles.
var shown = []string{
	`db: {command: [bash, -c, "echo ready for connections; exec sleep inf"]}`,
	`indexer: {command: [bash, -c, "while :; do :; done"], requires: [db]}`,
	`mailer: {command: [bash, -c, "echo cannot reach smtp.example.org; exit 3"], restart: {delay: 30s, max_delay: 60s}}`,
	`cache: {command: [sleep, inf], health: {exec: [bash, -c, "echo connection refused; exit 1"], interval: 1s, retries: 1, action: none}}`,
	`report: {command: [/opt/report/bin/report]}`,
}

// TestScreenshots has the pictures in docs/top.md drawn anew, below the directory that
// RLMINIT_SCREENSHOTS names: `make screenshots` runs it.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/top.md"))
	if err != nil {
		t.Fatal(err)
	}
	b := ns.Start(t, box.Spec{Config: contract.Services(shown...)})
	for _, name := range []string{"alice", "bob", "carol", "dave", "erin"} {
		b.Must("profile", "create", name)
	}
	b.Must("stop", "dave")
	b.AwaitThat("cache", "is unhealthy", func(s control.Service) bool { return s.Healthy != nil && !*s.Healthy })
	s := open(t, b, size{80, 18}, box.Root, nil, verb()...)
	s.reads("rlminit top", "q quit")
	s.shows("three looks at services at rest", func(screen string) bool { return strings.Contains(screen, "▁▁▁") })
	s.reads("mailer  backoff", "report  failed")
	s.keys("/")
	s.types("alice")
	s.keys("Enter", "Space", "/", "C-u")
	s.types("bob")
	s.keys("Enter", "Space", "/", "C-u", "Enter", "r")
	s.reads("restart 2 services? y/n", "alice, bob. They are out of service")
	text := picture(t, string(page), "list", s.screen())
	s.keys("n", "/")
	s.types("alice")
	s.keys("Enter", "Enter")
	s.reads("alice  running", "listens on")
	text = picture(t, text, "log", s.screen())
	dir := os.Getenv("RLMINIT_SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	if err := os.WriteFile(filepath.Join(dir, "top.md"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// picture puts a screen in the place of the one of that name in a page.
func picture(t *testing.T, page, name, screen string) string {
	t.Helper()
	before, rest, found := strings.Cut(page, "<!-- picture: "+name+" -->\n")
	_, after, ends := strings.Cut(rest, "<!-- end -->\n")
	if !found || !ends {
		t.Fatalf("docs/top.md has no place for the picture %s", name)
	}
	lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight("    "+line, " ")
	}
	return before + "<!-- picture: " + name + " -->\n" + strings.Join(lines, "\n") + "\n<!-- end -->\n" + after
}
