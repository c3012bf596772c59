package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// What make test-unit runs without the race detector starts no goroutine, neither in
// the package nor in its tests.
func TestWhatRunsWithoutTheRaceDetectorIsAlone(t *testing.T) {
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ALONE = ((?:.*\\\n)*.*)$`).FindSubmatch(makefile)
	if m == nil {
		t.Fatal("the Makefile has no ALONE")
	}
	for _, name := range strings.Fields(strings.ReplaceAll(string(m[1]), "\\\n", " ")) {
		files, err := filepath.Glob(filepath.Join(root, name, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s is no package: take it out of ALONE in the Makefile (%v)", name, err)
		}
		for _, file := range files {
			fset := token.NewFileSet()
			parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				what := ""
				switch n := n.(type) {
				case *ast.GoStmt:
					what = "starts a goroutine"
				case *ast.SelectorExpr:
					switch n.Sel.Name {
					case "Parallel", "RunParallel", "AfterFunc":
						what = "runs something beside itself"
					}
				}
				if what != "" {
					t.Errorf("%s %s: the race detector is to see it; take %s out of ALONE in the Makefile", fset.Position(n.Pos()), what, name)
				}
				return true
			})
		}
	}
}
