package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestWriteDocs writes the reference of the command line, commands.md, and the manual's
// pages, man/, below the directory that RLMINIT_DOCS names: `make docs` runs it.
func TestWriteDocs(t *testing.T) {
	dir := os.Getenv("RLMINIT_DOCS")
	if dir == "" {
		dir = t.TempDir()
	}
	root := newRoot(newTerminal())
	root.InitDefaultHelpCmd()
	err := writeManPages(root, filepath.Join(dir, "man"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "commands.md"), []byte(reference(root)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// reference is the help of every verb as one page.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# The command line\n\nMade by `make docs` from the verbs themselves: change those, not this page.\n")
	fmt.Fprintf(&b, "\n%s\n\nExit codes:\n\n%s", root.Long, indent(exitCodes))
	for _, verb := range visible(root) {
		chapter(&b, verb)
	}
	return b.String()
}

func chapter(b *strings.Builder, verb *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n", verb.CommandPath())
	verbs := visible(verb)
	defer func() {
		for _, sub := range verbs {
			chapter(b, sub)
		}
	}()
	if len(verbs) > 0 && verb.Flags().Lookup("json") == nil { // else it is of use by itself
		fmt.Fprintf(b, "%s\n", verb.Long)
		return
	}
	fmt.Fprintf(b, "%s%s.\n\n", strings.ToUpper(verb.Short[:1]), verb.Short[1:])
	b.WriteString(indent(usageLine(verb) + "\n"))
	if verb.Long != "" {
		fmt.Fprintf(b, "\n%s\n", verb.Long)
	}
	if flags := flagLines(verb); flags != "" {
		fmt.Fprintf(b, "\nFlags:\n\n%s", indent(flags))
	}
	if verb.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n%s", indent(verb.Example+"\n"))
	}
}

// indent makes a block of code of a text.
func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + strings.TrimPrefix(line, "  "))
	}
	return b.String()
}
