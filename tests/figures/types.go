package figures

import (
	"go/ast"
	"slices"
	"strings"
)

// Type is the size of a struct type.
type Type struct {
	Name    string // FOLDER.NAME
	Methods int    // those declared on it
	Fields  int    // its own, without those of embedded types
}

// addTypes counts the structs and methods of one file of a folder.
func (f *Figures) addTypes(folder string, parsed *ast.File) {
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				f.sized(folder, typeName(d.Recv.List[0].Type)).Methods++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				named, is := spec.(*ast.TypeSpec)
				if !is {
					continue
				}
				if s, is := named.Type.(*ast.StructType); is {
					f.sized(folder, named.Name.Name).Fields = fields(s)
				}
			}
		}
	}
}

func (f *Figures) sized(folder, name string) *Type {
	name = folder + "." + name
	if f.Types[name] == nil {
		f.Types[name] = &Type{Name: name}
	}
	return f.Types[name]
}

func fields(s *ast.StructType) (n int) {
	for _, f := range s.Fields.List {
		n += max(len(f.Names), 1)
	}
	return n
}

// LargestTypes are the n types with the most methods and fields, the largest first.
func (f *Figures) LargestTypes(n int) []*Type {
	var all []*Type
	for _, t := range f.Types {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *Type) int {
		if d := b.Methods + b.Fields - a.Methods - a.Fields; d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all[:min(n, len(all))]
}

// typeName is the name of a receiver's type.
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
