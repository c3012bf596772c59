package main

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every verb has a page, and troff has nothing to complain of.
func TestManPages(t *testing.T) {
	pages := manPages(newRoot(newTerminal()))
	for _, name := range []string{"rlminit.1", "rlminit-logs.1", "rlminit-profile-create.1"} {
		if len(pages[name]) < 300 {
			t.Errorf("%s has %d bytes", name, len(pages[name]))
		}
	}
	troff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("needs groff to check the pages")
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		cmd := exec.Command(troff, "-man", "-ww", "-Tutf8", "-Kutf8")
		cmd.Stdin = bytes.NewReader(pages[name])
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil || complaints.Len() > 0 {
			t.Errorf("%s: %v %s", name, err, complaints.String())
		}
		if name == "rlminit-logs.1" && !strings.Contains(string(out), "name in front of its lines") {
			t.Errorf("%s does not tell of --no-prefix:\n%s", name, out)
		}
	}
}

// What troff would obey is text.
func TestRoff(t *testing.T) {
	for text, want := range map[string]string{
		".TH x": `\&.TH x`, "'x'": `\(aqx\(aq`, `a\b`: `a\eb`, "--x": `\-\-x`, "plain": "plain",
	} {
		if got := roff(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Pages of verbs that are no more are removed, and nothing else is.
func TestManPagesReplaceOldOnes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"rlminit-gone.1", "mine.1"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r := (*box)(nil).rlminit(t, "docs", "--man", dir); r.code != 0 || r.out != "" {
		t.Fatalf("%d %s%s", r.code, r.out, r.err)
	}
	for name, there := range map[string]bool{"rlminit-gone.1": false, "mine.1": true, "rlminit.1": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}
