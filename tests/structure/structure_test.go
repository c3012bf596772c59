// Package structure holds the packages to the picture in DESIGN.md: the direction
// of imports, the packages that PID 1 may not link, and the length of a function.
package structure

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// pkg is what go list tells of a package.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

const module = "rlminit/"

// list is go list for patterns, on Linux.
func list(t *testing.T, patterns ...string) []pkg {
	t.Helper()
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,Imports,Deps"}, patterns...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// ranks are the packages from the top of DESIGN.md's picture to its bottom: a
// package imports only those of a higher rank. What is below a listed package
// has the rank of that package unless it is listed itself.
var ranks = map[string]int{
	"cmd/rlminit": 0, "cmd": 0,
	"supervise": 1, "beside": 1,
	"plan":   2,
	"doctor": 2, "analyze": 2, "metrics": 2, "usage": 5, "reconcile": 2, "prepare": 2, "profiles": 2, "logs": 2, "supervise/machine": 2, "supervise/notify": 2, "supervise/probe": 2,
	"config": 3, "control": 3,
	"service": 4, "journal": 4, "job": 4, "rights": 4,
	"reap": 5, "journal/places": 5, "internal/durable": 5, "internal/document": 5, "isolate": 5, "cgroup": 6, "internal/nearest": 6, "internal/natural": 6, "internal/schedule": 6, "internal/redact": 6, "internal/trust": 6, "internal/turns": 6, "internal/inbox": 6,
	"wire": 7, "internal/coder": 8, "internal/kernel": 8,
}

// equals are the imports between packages of one rank that the picture shows.
var equals = map[string][]string{
	"plan":   {"reconcile"}, // one diff, at boot, at a reload and in a plan
	"rights": {"job/files"}, // what is done with a profile's files is done as its user
}

func rank(name string) (int, bool) {
	for ; name != "."; name = filepath.Dir(name) {
		if r, ok := ranks[name]; ok {
			return r, true
		}
	}
	return 0, false
}

func top(name string) string { return strings.TrimPrefix(name, module) }

func TestImportsRunOneWay(t *testing.T) {
	for _, p := range list(t, "./...") {
		name := top(p.ImportPath)
		if strings.HasPrefix(name, "tests") || strings.HasPrefix(name, "examples") {
			continue
		}
		mine, ok := rank(name)
		if !ok {
			t.Errorf("%s has no place in the picture: say in this test which", name)
			continue
		}
		for _, i := range p.Imports {
			if !strings.HasPrefix(i, module) {
				continue
			}
			other := top(i)
			theirs, _ := rank(other)
			inside := strings.HasPrefix(other, name+"/") || strings.Split(name, "/")[0] == strings.Split(other, "/")[0] && name != "supervise/machine" && !strings.HasPrefix(name, "internal/")
			if theirs <= mine && !inside && !slices.Contains(equals[name], other) {
				t.Errorf("%s imports %s: imports run down the picture", name, other)
			}
			if strings.HasPrefix(other, "tests") || strings.HasPrefix(other, "examples") {
				t.Errorf("%s imports %s", name, other)
			}
		}
	}
}

// TestRoomsAreInThePicture: DESIGN.md has a row for each room of tier 2.
func TestRoomsAreInThePicture(t *testing.T) {
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile(filepath.Join(root, "DESIGN.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list(t, "./supervise/...") {
		room := top(p.ImportPath)
		if strings.Count(room, "/") < 2 && !strings.Contains(string(picture), "| `"+room+"` |") {
			t.Errorf("DESIGN.md does not say what %s owns", room)
		}
	}
}

// TestLifecycleIsPure: the state machine has no clock, no process, no I/O.
func TestLifecycleIsPure(t *testing.T) {
	for _, p := range list(t, "./supervise/machine", "./supervise/order", "./reconcile") {
		for _, i := range p.Imports {
			if slices.Contains([]string{"os", "os/exec", "net", "sync", "context", "math/rand", "io", "syscall"}, i) {
				t.Errorf("%s imports %s", top(p.ImportPath), i)
			}
		}
	}
}

// impure are the packages that what is below core must not import itself, and imports
// of them that are yet to go. A row may only be taken out.
var impure = map[string][]string{
	"supervise/machine": {"fmt", "golang.org/x/sys/unix"}, // texts for people, and the names of signals
	"supervise/order":   nil,
}

// TestWhatIsBelowCoreIsPure: a pure part of the core takes time, ids and chance from its
// input, does no I/O and starts nothing.
func TestWhatIsBelowCoreIsPure(t *testing.T) {
	forbidden := []string{"os", "net", "syscall", "golang.org/x/sys/unix", "context", "sync", "fmt", "encoding/json", "math/rand", "math/rand/v2", "io"}
	for name, yet := range impure {
		for _, p := range list(t, "./"+name) {
			for _, i := range p.Imports {
				if slices.Contains(forbidden, i) && !slices.Contains(yet, i) {
					t.Errorf("%s imports %s", name, i)
				}
			}
			for _, i := range yet {
				if !slices.Contains(p.Imports, i) {
					t.Errorf("%s does not import %s any more: take it out of the table", name, i)
				}
			}
			for _, file := range p.GoFiles {
				parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
				if err != nil {
					t.Fatal(err)
				}
				ast.Inspect(parsed, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.GoStmt:
						t.Errorf("%s starts a goroutine in %s", name, file)
					case *ast.SelectorExpr:
						asks := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
						if of, ok := n.X.(*ast.Ident); ok && of.Name == "time" && slices.Contains(asks, n.Sel.Name) {
							t.Errorf("%s asks the clock in %s: time.%s", name, file, n.Sel.Name)
						}
					}
					return true
				})
			}
		}
	}
}

// TestCoreIsPure: what decides about services is made of pure packages, and does no more
// than decide. Of time it has durations alone, and it starts no goroutine.
func TestCoreIsPure(t *testing.T) {
	allowed := []string{"container/heap", "slices", "strconv", "strings", "time", module + "service", module + "supervise/machine", module + "supervise/operation", module + "supervise/order", module + "supervise/verdict"}
	for _, p := range list(t, "./supervise/core", "./supervise/operation", "./supervise/verdict") {
		for _, i := range p.Imports {
			if !slices.Contains(allowed, i) {
				t.Errorf("%s imports %s: it may import %s", top(p.ImportPath), i, strings.Join(allowed, ", "))
			}
		}
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
					t.Errorf("%s has a goroutine or a channel in %s", top(p.ImportPath), file)
				case *ast.SelectorExpr:
					durations := []string{"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}
					if of, ok := n.X.(*ast.Ident); ok && of.Name == "time" && !slices.Contains(durations, n.Sel.Name) {
						t.Errorf("%s uses time.%s in %s", top(p.ImportPath), n.Sel.Name, file)
					}
				}
				return true
			})
		}
	}
}

// drivers carry out what the core decides, each one part of it.
var drivers = []string{"spawn", "open", "files", "volume", "publish", "probe", "serve", "remember"}

// TestDriversKnowNoOther: a driver knows the types of the core, and no other driver.
func TestDriversKnowNoOther(t *testing.T) {
	found := 0
	for _, p := range list(t, "./supervise/...") {
		name := strings.TrimPrefix(top(p.ImportPath), "supervise/")
		if !slices.Contains(drivers, name) {
			continue
		}
		found++
		for _, i := range p.Deps {
			if other := strings.TrimPrefix(top(i), "supervise/"); other != name && slices.Contains(drivers, other) && strings.HasPrefix(top(i), "supervise/") {
				t.Errorf("the driver %s knows the driver %s", name, other)
			}
		}
	}
	if found == 0 {
		t.Error("no driver was found")
	}
}

// TestOnlyTheWiringKnowsTheLoop: who wants something of the loop is given what it exports,
// by the package that wires it.
func TestOnlyTheWiringKnowsTheLoop(t *testing.T) {
	for _, p := range list(t, "./...") {
		if name := top(p.ImportPath); name != "supervise" && slices.Contains(p.Imports, module+"supervise/loop") {
			t.Errorf("%s imports supervise/loop, which supervise alone may", name)
		}
	}
}

// TestTier1LinksLittle: PID 1's code needs no parser and no server, and nobody
// but tier 1 starts processes.
func TestTier1LinksLittle(t *testing.T) {
	for _, p := range list(t, "./reap") {
		for _, forbidden := range []string{"net", "net/http", "os/exec", "encoding/json", "gopkg.in/yaml.v3", "text/template", "github.com/spf13/cobra"} {
			if slices.Contains(p.Deps, forbidden) {
				t.Errorf("%s links %s", top(p.ImportPath), forbidden)
			}
		}
		for _, d := range p.Deps {
			if strings.HasPrefix(d, module) && !strings.HasPrefix(d, module+"reap") && d != module+"wire" && d != module+"internal/coder" {
				t.Errorf("%s links %s; wire and how it is laid out alone are allowed", top(p.ImportPath), top(d))
			}
		}
	}
	for _, p := range list(t, "./supervise/...") {
		if slices.Contains(p.Imports, "os/exec") {
			t.Errorf("%s imports os/exec: tier 1 is the parent of every process", top(p.ImportPath))
		}
	}
}

// TestBinaryLinksNothingOfThoseBesideIt: what the programs rlminit-VERB need costs PID 1
// and the supervisor nothing.
func TestBinaryLinksNothingOfThoseBesideIt(t *testing.T) {
	for _, p := range list(t, "./cmd/rlminit") {
		for _, d := range p.Deps {
			for _, theirs := range []string{module + "beside", "charm.land/", "github.com/charmbracelet/", "html/template", "github.com/chromedp/", "github.com/compose-spec/", "gopkg.in/ini.v1"} {
				if strings.HasPrefix(d, theirs) {
					t.Errorf("rlminit links %s, which is for programs beside it", d)
				}
			}
		}
	}
}

// What runs in CI is named by its commit: a tag can be moved to other code.
func TestActionsAreNamedByCommit(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no workflows", err)
	}
	uses := regexp.MustCompile(`(?m)^\s*-?\s*uses: *(\S+)`)
	commit := regexp.MustCompile(`@[0-9a-f]{40}$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
			if !commit.MatchString(m[1]) {
				t.Errorf("%s: %s", file, m[1])
			}
		}
	}
}
