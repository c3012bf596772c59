package config

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const reference = "../docs/configuration.md"

// Every key that the decoders know stands in the reference.
func TestReferenceNamesEveryKey(t *testing.T) {
	content, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for _, span := range regexp.MustCompile("`[^`]*`").FindAll(content, -1) {
		for _, word := range regexp.MustCompile(`\w+`).FindAllString(string(span), -1) {
			words[word] = true
		}
	}
	keys := decoderKeys(t, ".", "../service")
	if len(keys) < 100 {
		t.Fatalf("only %d keys were found", len(keys))
	}
	for _, key := range keys {
		if !words[key] {
			t.Errorf("%s does not name the key %s", reference, key)
		}
	}
}

// decoderKeys are the keys of every document.Fields in the source, and of the
// map that gives the limits their names.
func decoderKeys(t *testing.T, dirs ...string) []string {
	t.Helper()
	found := map[string]bool{}
	add := func(e ast.Expr) {
		if literal, ok := e.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			key, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[key] = true
		}
	}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := goparser.ParseFile(token.NewFileSet(), file, nil, goparser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					if isFields(n.Type) {
						for _, e := range n.Elts {
							if pair, ok := e.(*ast.KeyValueExpr); ok {
								add(pair.Key)
							}
						}
					}
				case *ast.AssignStmt:
					for _, left := range n.Lhs {
						if index, ok := left.(*ast.IndexExpr); ok {
							if name, ok := index.X.(*ast.Ident); ok && name.Name == "fields" {
								add(index.Index)
							}
						}
					}
				}
				return true
			})
		}
	}
	delete(found, "profile") // of a service.yaml, which rlminit writes
	delete(found, "port")
	delete(found, "secrets_version")
	return slices.Sorted(maps.Keys(found))
}

// isFields knows document.Fields, and a map of rlimits.
func isFields(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name == "Fields"
	case *ast.MapType:
		value, ok := e.Value.(*ast.Ident)
		return ok && value.Name == "rlimit"
	}
	return false
}

// Every example of the reference is a valid configuration.
func TestReferenceExamples(t *testing.T) {
	content, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, block := range regexp.MustCompile(`(?m)(^    (main|gateways?|services):\n(^    .*\n)+)`).FindAllString(string(content), -1) {
		examples++
		text := "version: 1\nuser: app\n" + regexp.MustCompile(`(?m)^    `).ReplaceAllString(block, "")
		if strings.HasPrefix(block, "    main:") {
			text += "gateway: {command: [agent], default: {}}\n"
		}
		_, faults := Parse(Bundle{Path: DefaultPath, Files: []File{{Name: "rlminit.yaml", Data: []byte(text)}}}, nil)
		if len(faults) > 0 {
			t.Errorf("%v\n%s", faults, text)
		}
	}
	if examples != 4 {
		t.Errorf("%d examples were found, not 4", examples)
	}
}
