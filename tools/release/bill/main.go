// Command bill writes down what a release is made of: LICENSES, which has the
// licence of each module that is linked, and a CycloneDX bill of materials.
//
//	bill -version V -out DIR BINARY…
//
// It asks the binaries themselves (debug/buildinfo), so nothing is listed that is
// not linked, and nothing is left out. It owns the two files in DIR. It never
// guesses: a module without a licence that it recognises is an error, for a
// release must not go out with it.
//
// The same binaries give the same bytes: there is no time and no random number in
// what it writes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	version := flag.String("version", "", "the version of the release")
	out := flag.String("out", ".", "the directory to write to")
	project := flag.String("project", "../..", "the project's directory, where LICENSE is")
	flag.Parse()
	if err := write(*project, *version, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bill:", err)
		os.Exit(1)
	}
}

// write writes both files for the binaries.
func write(project, version, out string, paths []string) error {
	if version == "" || len(paths) == 0 {
		return fmt.Errorf("cannot write a bill of nothing: give -version V and the binaries")
	}
	programs, err := read(paths)
	if err != nil {
		return err
	}
	parts, err := licensed(project, union(programs))
	if err != nil {
		return err
	}
	own, err := os.ReadFile(filepath.Join(project, "LICENSE"))
	if err != nil {
		return fmt.Errorf("cannot read the project's own licence: %w", err)
	}
	if err := os.WriteFile(filepath.Join(out, "LICENSES"), notices(string(own), parts), 0o644); err != nil {
		return fmt.Errorf("cannot write the licences: %w", err)
	}
	file, err := os.Create(filepath.Join(out, "rlminit.cdx.json"))
	if err != nil {
		return fmt.Errorf("cannot write the bill of materials: %w", err)
	}
	if err := encode(file, materials(version, programs, parts)); err != nil {
		file.Close()
		return fmt.Errorf("cannot write the bill of materials: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("cannot write the bill of materials: %w", err)
	}
	return nil
}
