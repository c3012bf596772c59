package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Bounds of a type that does something: of one with more there are rooms in it that
// want a wall. A wall takes fields with it, and what is behind it can be read alone.
const (
	methodsMost = 40
	fieldsMost  = 20
	// A type with so few methods is a value: it may have as many fields as what it
	// stands for.
	valueMost = 12
)

// size is how large a type is. A function that takes it first is counted as one of
// its methods, and the fields of what it embeds from its own package as its own:
// neither is a wall.
type size struct{ methods, fields int }

// large are the types above the bounds, as large as they are now. A number may only
// become smaller: a type that has shrunk is to be written down so, or taken out.
var large = map[string]size{
	"control.Client":   {57, 7},
	"reap/sys.Command": {21, 42},
}

func TestTypesHaveWalls(t *testing.T) {
	found := map[string]size{}
	for _, p := range list(t, "./...") {
		if name := top(p.ImportPath); !strings.HasPrefix(name, "tests") && !strings.HasPrefix(name, "examples") {
			for of, s := range sizes(t, p) {
				found[name+"."+of] = s
			}
		}
	}
	if len(found) == 0 {
		t.Fatal("no type was found")
	}
	for name, is := range found {
		bound, listed := large[name]
		if !listed {
			bound = size{methodsMost, fieldsMost}
		}
		switch {
		case is.methods > bound.methods || is.methods > valueMost && is.fields > bound.fields:
			t.Errorf("%s has %d methods and %d fields; it may have %d and %d: find the room in it that has fields of its own, and give that an owner",
				name, is.methods, is.fields, bound.methods, bound.fields)
		case listed && is != bound:
			t.Errorf("%s has %d methods and %d fields, fewer than %d and %d: write that down, so that it does not grow again",
				name, is.methods, is.fields, bound.methods, bound.fields)
		}
	}
	for name, bound := range large {
		if is, there := found[name]; !there || bound.methods <= methodsMost && bound.fields <= fieldsMost {
			t.Errorf("%s is within the bounds, or gone (%+v): take it out of the table", name, is)
		}
	}
}

// sizes are those of a package's structs.
func sizes(t *testing.T, p pkg) map[string]size {
	t.Helper()
	methods, takes := map[string]int{}, map[string]int{}
	structs := map[string]*ast.StructType{}
	for _, file := range p.GoFiles {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					methods[typeName(d.Recv.List[0].Type)]++
				} else if params := d.Type.Params.List; len(params) > 0 {
					takes[typeName(params[0].Type)]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if named, is := spec.(*ast.TypeSpec); is {
						if s, is := named.Type.(*ast.StructType); is {
							structs[named.Name.Name] = s
						}
					}
				}
			}
		}
	}
	var fields func(s *ast.StructType) int
	fields = func(s *ast.StructType) (n int) {
		for _, f := range s.Fields.List {
			inner := (*ast.StructType)(nil)
			if len(f.Names) == 0 {
				inner = structs[typeName(f.Type)]
			}
			if n += max(len(f.Names), 1); inner != nil {
				n += fields(inner) - 1
			}
		}
		return n
	}
	found := map[string]size{}
	for name, s := range structs {
		of := size{methods[name], fields(s)}
		if of.methods > valueMost { // of a smaller one it is a parameter like any
			of.methods += takes[name]
		}
		found[name] = of
	}
	return found
}

// typeName is the name of a type of the same package, behind a pointer or not; "":
// it is none.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}
	return ""
}
