package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

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
