// Package figures measures the product's code: everything but tests, examples and
// tools. `make figures` prints the figures; tests/structure bounds the length of a
// function alone.
package figures

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// apart are the folders that are no part of the product.
var apart = []string{"tests", "tools", "examples", "dist", "bin", "fleet/test"}

// Size is how much code something is.
type Size struct {
	Lines int // on which a token stands: no blank ones, no comments
	Nodes int // of the syntax tree: shorter lines do not change it
}

// Function is a function or a method, and its length.
type Function struct {
	Name string // FILE:LINE NAME
	Size int    // lines from func to the closing brace, both included
}

// Figures are what was measured.
type Figures struct {
	Total     Size            // of what is linked into rlminit
	Beside    Size            // of the programs beside it: see Aside
	Fleet     Size            // of the module below fleet/
	Packages  map[string]Size // by folder, from the top of the repository
	Files     map[string]Size
	Functions []Function // the longest first
	Types     map[string]*Type
}

// Measure reads all Go files below root that are part of the product.
func Measure(root string) (Figures, error) {
	f := Figures{Packages: map[string]Size{}, Files: map[string]Size{}, Types: map[string]*Type{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && name != "."
			if hidden || d.Name() == "testdata" || slices.Contains(apart, name) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		return f.add(path, name)
	})
	slices.SortFunc(f.Functions, func(a, b Function) int {
		if a.Size != b.Size {
			return b.Size - a.Size
		}
		return strings.Compare(a.Name, b.Name)
	})
	return f, err
}

// add measures one file.
func (f *Figures) add(path, name string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	is := Size{Lines: CodeLines(source)}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if n != nil {
			is.Nodes++
		}
		return true
	})
	for _, d := range parsed.Decls {
		if d, ok := d.(*ast.FuncDecl); ok {
			from, to := files.Position(d.Pos()), files.Position(d.End())
			f.Functions = append(f.Functions, Function{
				Name: fmt.Sprintf("%s:%d %s", name, from.Line, d.Name.Name), Size: to.Line - from.Line + 1,
			})
		}
	}
	folder := filepath.Dir(name)
	f.addTypes(folder, parsed)
	f.Files[name] = is
	f.Packages[folder] = f.Packages[folder].plus(is)
	switch {
	case strings.HasPrefix(folder, "fleet/"):
		f.Fleet = f.Fleet.plus(is)
	case Aside(folder):
		f.Beside = f.Beside.plus(is)
	default:
		f.Total = f.Total.plus(is)
	}
	return nil
}

// Aside tells whether a folder is of a program beside rlminit, rlminit-top for one, or of
// the fleet, which is a Go module of its own: none of them shares a process with it.
func Aside(folder string) bool {
	return strings.HasPrefix(folder, "beside/") || strings.HasPrefix(folder, "cmd/rlminit-") || strings.HasPrefix(folder, "fleet/")
}

func (s Size) plus(o Size) Size { return Size{s.Lines + o.Lines, s.Nodes + o.Nodes} }

// CodeLines counts the lines of Go source on which a token stands: no blank ones,
// and none that hold nothing but a comment.
func CodeLines(source []byte) int {
	files := token.NewFileSet()
	position := files.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(position, source, nil, 0) // comments are left out
	lines := map[int]bool{}
	for {
		at, what, text := s.Scan()
		if what == token.EOF {
			return len(lines)
		}
		if what == token.SEMICOLON && text == "\n" {
			continue
		}
		first := position.Line(at)
		for n := range 1 + bytes.Count([]byte(text), []byte("\n")) { // of a raw string
			lines[first+n] = true
		}
	}
}

// Largest are the names of the n largest of a set by lines, the largest first.
func Largest(of map[string]Size, n int) []string {
	var names []string
	for name := range of {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if of[a].Lines != of[b].Lines {
			return of[b].Lines - of[a].Lines
		}
		return strings.Compare(a, b)
	})
	return names[:min(n, len(names))]
}
