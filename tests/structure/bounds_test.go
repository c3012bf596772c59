package structure

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/tests/box"
)

// bounded are the folders whose bounds HACKING.md has as a table.
var bounded = []string{"supervise", "logs", "journal", "job", "rights", "wire", "service", "control", "fleet", "beside/page", "cmd/rlminit-page", "reap"}

// bound is how the name of a constant reads that is one.
var bound = regexp.MustCompile(`[mM]ost|[mM]ax|[lL]imit|[kK]ept|[pP]atience|(Each|Rest)$`)

// TestBounds holds the table of bounds in HACKING.md against the constants: names, values,
// and the tests that go one past them.
func TestBounds(t *testing.T) {
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "HACKING.md"))
	if err != nil {
		t.Fatal(err)
	}
	values, tests := constants(t, root), testNames(t, root)
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z][^` ]*\\.[A-Za-z.]+)` \\| (\\S+(?: \\S+)?) \\| .* \\| (\\S+) \\|$").FindAllStringSubmatch(string(text), -1) {
		name, says, test := row[1], row[2], row[3]
		if listed[name] {
			t.Errorf("%s is there twice", name)
		}
		listed[name] = true
		if is, want := values[name], understood(says); is == nil {
			t.Errorf("%s is in HACKING.md, and no constant has that name", name)
		} else if want == nil || !constant.Compare(is, token.EQL, want) {
			t.Errorf("%s is %s, and HACKING.md says %s", name, is, says)
		}
		if test != "—" && !tests[strings.Trim(test, "`")] {
			t.Errorf("%s: there is no test %s", name, test)
		}
	}
	if len(listed) < 100 {
		t.Errorf("of bounds %d are in the table", len(listed))
	}
	for name := range values {
		_, short, _ := strings.Cut(filepath.Base(name), ".")
		if bound.MatchString(short) && !listed[name] && !slices.Contains(inner, name) {
			t.Errorf("%s is a bound: add a row to the table in HACKING.md, or its name to inner here if no user meets it", name)
		}
	}
	for _, name := range inner {
		if values[name] == nil || listed[name] {
			t.Errorf("%s is no constant any more, or is in the table", name)
		}
	}
}

// understood is a value as the table has it: 4 KiB, 1,024, 30s; nil: it makes no sense.
func understood(says string) constant.Value {
	number, unit, _ := strings.Cut(says, " ")
	shift, known := map[string]uint{"": 0, "KiB": 10, "MiB": 20, "GiB": 30}[unit]
	if d, err := time.ParseDuration(says); err == nil {
		return constant.MakeInt64(int64(d))
	}
	v := constant.MakeFromLiteral(strings.ReplaceAll(number, ",", ""), token.INT, 0)
	if !known || v.Kind() != constant.Int {
		return nil
	}
	return constant.Shift(v, token.SHL, shift)
}

// constants are the numeric constants of the folders by name, and the fields of the
// Limits that a function DefaultLimits gives.
func constants(t *testing.T, root string) map[string]constant.Value {
	texts := map[string]map[string]ast.Expr{} // by folder and name
	for _, top := range bounded {
		walked(t, filepath.Join(root, top), func(path string, file *ast.File) {
			rel, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				t.Fatal(err)
			}
			if texts[rel] == nil {
				texts[rel] = map[string]ast.Expr{}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GenDecl:
					declared(n, texts[rel])
				case *ast.CompositeLit:
					limits(n, texts[rel])
				}
				return true
			})
		})
	}
	values := map[string]constant.Value{}
	for folder, all := range texts {
		for name := range all {
			if v := valueOf(all, all[name]); v != nil {
				values[folder+"."+name] = v
			}
		}
	}
	return values
}

// walked calls f with each product file of Go below a folder.
func walked(t *testing.T, folder string, f func(path string, file *ast.File)) {
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "test" || e.Name() == "testdata"):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err == nil {
			f(path, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func declared(d *ast.GenDecl, into map[string]ast.Expr) {
	for _, s := range d.Specs {
		if v, is := s.(*ast.ValueSpec); is && d.Tok == token.CONST {
			for i := range v.Values {
				into[v.Names[i].Name] = v.Values[i]
			}
		}
	}
}

func limits(c *ast.CompositeLit, into map[string]ast.Expr) {
	if is, ok := c.Type.(*ast.Ident); !ok || is.Name != "Limits" {
		return
	}
	for _, e := range c.Elts {
		if pair, is := e.(*ast.KeyValueExpr); is {
			into["Limits."+pair.Key.(*ast.Ident).Name] = pair.Value
		}
	}
}

// valueOf is the number of an expression; nil: it is none, or has a name of elsewhere.
func valueOf(names map[string]ast.Expr, e ast.Expr) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.INT || e.Kind == token.FLOAT {
			return constant.ToInt(constant.MakeFromLiteral(e.Value, e.Kind, 0))
		}
	case *ast.Ident:
		if of := names[e.Name]; of != nil {
			return valueOf(names, of)
		}
	case *ast.ParenExpr:
		return valueOf(names, e.X)
	case *ast.SelectorExpr:
		if d, err := time.ParseDuration("1" + map[string]string{"Hour": "h", "Minute": "m", "Second": "s", "Millisecond": "ms", "Microsecond": "us"}[e.Sel.Name]); err == nil {
			return constant.MakeInt64(int64(d))
		}
	case *ast.BinaryExpr:
		x, y := valueOf(names, e.X), valueOf(names, e.Y)
		switch {
		case x == nil || y == nil || x.Kind() != constant.Int || y.Kind() != constant.Int:
		case e.Op == token.SHL:
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, e.Op, uint(n))
		case e.Op == token.ADD || e.Op == token.SUB || e.Op == token.MUL:
			return constant.BinaryOp(x, e.Op, y)
		}
	}
	return nil
}

// testNames are the names of all tests, contracts among them.
func testNames(t *testing.T, root string) map[string]bool {
	all := map[string]bool{}
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(|\{Name: "(\w+)"`)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, "tests/contract/contract.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			all[m[1]+m[2]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// inner are the bounds that no user meets: what waits, or is split, for a moment.
var inner = []string{
	"beside/page/live.asksMost", "beside/page/live.pauseMost",
	"beside/page/view.most", "beside/page/view.saidMost",
	"cmd/rlminit-page.bufferMost", "cmd/rlminit-page.memoryLimit",
	"control.logLineLimit",
	"fleet/data.maxDepth", "fleet/data.maxEntries",
	"fleet/agent.most", "fleet/agent.mostForeign",
	"journal.maxBatch", "journal.maxSnapshot",
	"logs.headMost", "logs.maxSlots", "logs.most", "logs.queueMost",
	"logs/forward.keptMost", "logs/forward.keptVersion", "logs/forward.mostFiles",
	"reap.closePatience", "reap.mostAhead", "reap.mostAtOnce", "reap.mostFiles", "reap.mostLimits", "reap.mostMargin", "reap.mostOwners", "reap.mostPlaces", "reap.mostPrivate", "reap.mostRefused", "reap.mostStrangers", "reap.pingAtRest",
	"reap/runtimedir.mostLinks",
	"reap/sys.MostCommands", "reap/sys.rlimitNoFile", "reap/sys.scorePatience", "reap/sys.sysPrlimit64",
	"reap/threads.MostQueuedFDs", "reap/threads.mostLooks", "reap/threads.mostQueuedSize",
	"rights.mostFDs", "rights.mostOwn", "rights.mostRead",
	"service.MaxID",
	"supervise.most",
	"supervise/core.most",
	"supervise/jobs.most", "supervise/jobs.mostSpec", "supervise/jobs.patience",
	"supervise/jobs/hooks.mostPassed",
	"supervise/link.fullPatience", "supervise/link.mostParts",
	"supervise/machine.maxTries",
	"supervise/notify.scmMaxFD",
	"supervise/process.mostLooks",
	"supervise/remember.serviceMax",
	"supervise/telemetry.mostCommand", "supervise/telemetry.mostRead",
	"supervise/volume.bootRecordPatience",
	"wire.bootStepsMax", "wire.mostThreads",
}
