package docker

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"rlminit/tests/box"
)

// block is one of a page that is to be typed, and what is to be printed.
type block struct {
	line     int
	commands string
	prints   []string // a pattern each: words in this order on one line
}

// blocks are those of a page, which are indented by four spaces.
func blocks(page string) (all []block) {
	inside := false
	for i, line := range strings.Split(page, "\n") {
		code, is := strings.CutPrefix(line, "    ")
		switch {
		case !is && line != "" || !is && !inside:
			inside = false
			continue
		case !inside:
			inside = true
			all = append(all, block{line: i + 1})
		}
		b := &all[len(all)-1]
		if want, prints := strings.CutPrefix(code, "#=> "); prints {
			b.prints = append(b.prints, want)
		} else {
			b.commands += code + "\n"
		}
	}
	return all
}

// TestTutorial types docs/tutorial.md as it stands, but for the names of images, containers
// and volumes, which are this run's. examples/forty is what comes of it.
func TestTutorial(t *testing.T) {
	t.Parallel()
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := blocks(string(page))
	if len(all) < 10 {
		t.Fatalf("the page has %d blocks", len(all))
	}
	dir, name := t.TempDir(), "rlminit-tutorial-"+runName
	image := imageName(runName) + ":tutorial"
	rename := strings.NewReplacer(
		"docker build -t forty", "docker build -q -t "+image, "/srv/forty:ro forty", "/srv/forty:ro "+image,
		"--name forty", "--name "+name, "forty-data", name, "docker exec forty", "docker exec "+name, "docker exec -i forty", "docker exec -i "+name,
		"docker restart -t 15 forty", "docker restart -t 15 "+name,
		"rlminit:demo", built.demo, "debian:bookworm-slim", built.base)
	t.Cleanup(func() {
		_ = exec.Command("docker", "rm", "-f", name).Run()
		_ = exec.Command("docker", "volume", "rm", name).Run()
	})
	began := time.Now()
	typed(t, all, dir, rename.Replace, name)
	t.Logf("figure: the tutorial takes %.0f s to type", time.Since(began).Seconds())
	for _, file := range []string{"agent", "rlminit.yaml", "Dockerfile", "agents.yaml"} {
		typed, err := os.ReadFile(filepath.Join(dir, "forty", file))
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(filepath.Join(root, "examples", "forty", file))
		if err != nil || !bytes.Equal([]byte(rename.Replace(string(kept))), typed) {
			t.Errorf("examples/forty/%s is not what the tutorial makes: %v", file, err)
		}
	}
}

// typed types the blocks of a page in a directory, each command as rename has it, and checks
// what they print. If one fails, it shows the log of a container too.
func typed(t *testing.T, all []block, dir string, rename func(string) string, container string) {
	t.Helper()
	// One shell types all of it: a block may use what one before has set.
	out := func(i int) string { return filepath.Join(dir, fmt.Sprintf("out-%d", i)) }
	script := "set -e\nexec 3>&1 </dev/null\ntrap 'echo block $block >&3' ERR\n"
	for i, b := range all {
		script += fmt.Sprintf("block=%d\nexec >%s 2>&1\n%s", i, out(i), rename(b.commands))
	}
	file := filepath.Join(dir, "script")
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "bash", file)
	shell.Dir = dir
	said, failed := shell.CombinedOutput()
	for i, b := range all {
		printed, err := os.ReadFile(out(i))
		if err != nil {
			break // it came not so far
		}
		rest := string(printed)
		for _, want := range b.prints {
			words := strings.Fields(want)
			for j, w := range words {
				words[j] = regexp.QuoteMeta(w)
			}
			at := regexp.MustCompile(`(?m)^.*` + strings.Join(words, `.*`)).FindStringIndex(rest)
			if at == nil {
				t.Errorf("line %d: nothing like %q in\n%s", b.line, want, printed)
				break
			}
			rest = rest[at[1]:]
		}
		if failed != nil && string(said) == fmt.Sprintf("block %d\n", i) {
			t.Errorf("line %d failed:\n%s", b.line, printed)
		}
	}
	if failed != nil {
		logs, _ := exec.Command("docker", "logs", container).CombinedOutput()
		t.Fatalf("%v: %s\n%s", failed, said, logs)
	}
}
