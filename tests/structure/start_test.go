package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestStartCompilesNothing: no package of the binary compiles a regular expression or a
// template as it is initialised. Each process of a boot would pay for it.
func TestStartCompilesNothing(t *testing.T) {
	binary := list(t, "./cmd/rlminit")
	for _, p := range list(t, binary[0].Deps...) {
		if !strings.HasPrefix(p.ImportPath, module) {
			continue
		}
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range compiled(parsed) {
				t.Errorf("%s/%s calls %s as it is initialised; put it into sync.OnceValue", top(p.ImportPath), file, name)
			}
		}
	}
}

// compiled are the calls of package variables of a file that compile something. A function
// literal is not called by that.
func compiled(file *ast.File) (calls []string) {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		ast.Inspect(g, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && (strings.HasPrefix(s.Sel.Name, "MustCompile") || s.Sel.Name == "Must") {
				calls = append(calls, s.Sel.Name)
			}
			_, isFunction := n.(*ast.FuncLit)
			return !isFunction
		})
	}
	return calls
}
