package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
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
	dir := t.TempDir()
	args := []string{"-man", "-ww", "-Tutf8", "-Kutf8"}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pages[name], 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	cmd := exec.Command(troff, args...) // all in one: a complaint names its file
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil || complaints.Len() > 0 {
		t.Errorf("%v %s", err, complaints.String())
	}
	if !strings.Contains(string(out), "name in front of its lines") {
		t.Errorf("rlminit-logs.1 does not tell of --no-prefix")
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
	if err := writeManPages(newRoot(newTerminal()), dir); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{"rlminit-gone.1": false, "mine.1": true, "rlminit.1": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// manPages are the manual's pages, made of the verbs themselves, by file name:
// one of rlminit, and one of each verb.
func manPages(root *cobra.Command) map[string][]byte {
	pages := map[string][]byte{"rlminit.1": manPage(root)}
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		for _, verb := range visible(cmd) {
			pages[manName(verb)+".1"] = manPage(verb)
			add(verb)
		}
	}
	add(root)
	return pages
}

// writeManPages writes them to a directory, and removes those of verbs that are
// no more.
func writeManPages(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot make %s: %w", dir, err)
	}
	pages := manPages(root)
	old, err := filepath.Glob(filepath.Join(dir, "rlminit*.1"))
	if err != nil {
		return fmt.Errorf("cannot list %s: %w", dir, err)
	}
	for _, path := range old {
		if pages[filepath.Base(path)] == nil {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("cannot remove %s: %w", path, reason(err))
			}
		}
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), page, 0o644); err != nil {
			return fmt.Errorf("cannot write %s: %w", filepath.Join(dir, name), reason(err))
		}
	}
	return nil
}

// manName is the name of a verb's page: rlminit-profile-create.
func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is one page in the macros of man(7).
func manPage(cmd *cobra.Command) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".\\\" Made by `make docs` from the verbs themselves.\n.TH %s 1 \"\" rlminit \"rlminit\"\n", roff(strings.ToUpper(manName(cmd))))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n%s\n.fi\n", roff(usageLine(cmd)))
	if cmd.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", paragraphs(cmd.Long))
	}
	if verbs := visible(cmd); len(verbs) > 0 {
		b.WriteString(".SH VERBS\n")
		for _, verb := range verbs {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(manName(verb)), roff(verb.Short))
		}
	}
	if lines := flagLines(cmd); lines != "" {
		b.WriteString(".SH OPTIONS\n")
		for line := range strings.Lines(lines) {
			flag, usage, _ := strings.Cut(strings.TrimSpace(line), "  ")
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(flag), roff(strings.TrimSpace(usage)))
		}
	}
	if !cmd.HasParent() {
		fmt.Fprintf(&b, ".SH EXIT STATUS\n.nf\n%s.fi\n", verbatim(exitCodes))
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s.fi\n", verbatim(cmd.Example+"\n"))
	}
	if cmd.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(manName(cmd.Parent())))
	}
	return b.Bytes()
}

// paragraphs makes running text of what is divided by empty lines, and keeps
// indented lines as they are.
func paragraphs(text string) string {
	var b strings.Builder
	kept := false
	for line := range strings.Lines(text + "\n") {
		line = strings.TrimRight(line, "\n")
		if indented := strings.HasPrefix(line, "  "); indented != kept {
			kept = indented
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[kept])
		}
		if line == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(roff(line) + "\n")
	}
	return strings.TrimSuffix(b.String(), ".PP\n")
}

func verbatim(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(roff(strings.TrimRight(line, "\n")) + "\n")
	}
	return b.String()
}

// roff writes a line so that troff takes nothing in it for its own.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	return line
}
