package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Some test runs each verb: as arguments, or in a shell's line.
func TestEachVerbIsTested(t *testing.T) {
	var tests strings.Builder
	for _, below := range []string{".", "../../tests"} {
		err := filepath.WalkDir(below, func(path string, d fs.DirEntry, err error) error {
			ours := strings.HasSuffix(path, "_test.go") || below != "." && strings.HasSuffix(path, ".go")
			if err != nil || !ours || d.Name() == "verbs_test.go" {
				return err
			}
			source, err := os.ReadFile(path)
			tests.Write(source)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var look func(cmd *cobra.Command, path []string)
	look = func(cmd *cobra.Command, path []string) {
		for _, verb := range cmd.Commands() {
			look(verb, append(path[:len(path):len(path)], verb.Name()))
		}
		if !cmd.Runnable() || cmd.HasSubCommands() {
			return
		}
		if !strings.Contains(tests.String(), `"`+strings.Join(path, `", "`)+`"`) && !strings.Contains(tests.String(), "rlminit "+strings.Join(path, " ")) {
			t.Errorf("no test runs rlminit %s", strings.Join(path, " "))
		}
	}
	look(newRoot(newTerminal()), nil)
}
