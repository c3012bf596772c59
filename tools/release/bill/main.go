// Command bill writes down what a package of a release is made of: NAME.LICENSES,
// which has the licence of each module that is linked, and NAME.cdx.json, a CycloneDX
// bill of materials.
//
//	bill -name NAME -module DIR -version V -out DIR BINARY…
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

// release is what is written about.
type release struct {
	name    string // of the package
	version string
	project string // the directory of the project, where LICENSE is
	module  string // the directory of the Go module that the binaries were built in
	out     string // the directory to write to
}

func main() {
	var r release
	flag.StringVar(&r.name, "name", "rlminit", "the name of the package")
	flag.StringVar(&r.version, "version", "", "the version of the release")
	flag.StringVar(&r.out, "out", ".", "the directory to write to")
	flag.StringVar(&r.project, "project", "../..", "the project's directory, where LICENSE is")
	flag.StringVar(&r.module, "module", "../..", "the directory of the module that the binaries were built in")
	flag.Parse()
	if err := r.write(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bill:", err)
		os.Exit(1)
	}
}

// write writes both files for the binaries.
func (r release) write(paths []string) error {
	if r.version == "" || len(paths) == 0 {
		return fmt.Errorf("cannot write a bill of nothing: give -version V and the binaries")
	}
	programs, err := read(paths)
	if err != nil {
		return err
	}
	parts, err := licensed(r.module, union(programs))
	if err != nil {
		return err
	}
	own, err := os.ReadFile(filepath.Join(r.project, "LICENSE"))
	if err != nil {
		return fmt.Errorf("cannot read the project's own licence: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.out, r.name+".LICENSES"), notices(string(own), parts), 0o644); err != nil {
		return fmt.Errorf("cannot write the licences: %w", err)
	}
	file, err := os.Create(filepath.Join(r.out, r.name+".cdx.json"))
	if err != nil {
		return fmt.Errorf("cannot write the bill of materials: %w", err)
	}
	if err := encode(file, r.materials(programs, parts)); err != nil {
		file.Close()
		return fmt.Errorf("cannot write the bill of materials: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("cannot write the bill of materials: %w", err)
	}
	return nil
}
