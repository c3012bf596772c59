package openapi

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// object is a mapping of the document.
type object = map[string]any

// asked are the requests that handlers are added for below supervise, with the permission
// that each needs.
func asked(root string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, "supervise"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			pattern, _ := call.Args[0].(*ast.BasicLit)
			if pattern == nil || pattern.Kind != token.STRING || !strings.Contains(pattern.Value, " /v1/") {
				return true
			}
			if request, err := strconv.Unquote(pattern.Value); err == nil && isRequest.MatchString(request) {
				all[request] = permission(call.Args[1])
			}
			return true
		})
		return nil
	})
	return all, err
}

var isRequest = regexp.MustCompile(`^[A-Z]+ /v1/[a-z/{}]+$`)

// permission is the word of a constant of api.May.
func permission(e ast.Expr) string {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	}
	return strings.ToLower(strings.TrimPrefix(name, "May"))
}

// described is what docs/control.md says of a request.
type described struct{ takes, answers string }

var (
	row  = regexp.MustCompile("(?m)^\\| `([A-Z]+ /v1/[^`]*)` \\| (.*) \\| (.*) \\|$")
	link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// texts are those of docs/control.md.
func texts(root string) (map[string]described, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs/control.md"))
	if err != nil {
		return nil, err
	}
	all := map[string]described{}
	page = bytes.ReplaceAll(page, []byte("| |"), []byte("|  |"))
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		all[m[1]] = described{strings.TrimSpace(link.ReplaceAllString(m[2], "$1")), strings.TrimSpace(link.ReplaceAllString(m[3], "$1"))}
	}
	return all, nil
}

// Document is docs/openapi.yaml of the project at root. A request without types, without a
// text or without a handler is an error.
func Document(root string) ([]byte, error) {
	handled, err := asked(root)
	if err != nil {
		return nil, err
	}
	said, err := texts(root)
	if err != nil {
		return nil, err
	}
	schemas := &schemas{of: object{}, given: map[reflect.Type]bool{}}
	for _, route := range Routes {
		if route.Body != nil {
			schemas.give(reflect.TypeOf(route.Body))
		}
	}
	paths := object{}
	for _, request := range slices.Sorted(maps.Keys(handled)) {
		route, typed := Routes[request]
		text, described := said[request]
		if !typed || !described {
			return nil, fmt.Errorf("%s needs a line in tests/openapi (%t) and in docs/control.md (%t)", request, typed, described)
		}
		method, path, _ := strings.Cut(request, " ")
		at, _ := paths[path].(object)
		if at == nil {
			at = object{}
			paths[path] = at
		}
		at[strings.ToLower(method)] = operation(request, route, text, handled[request], schemas)
	}
	for request := range Routes {
		if _, ok := handled[request]; !ok {
			return nil, fmt.Errorf("%s has no handler", request)
		}
	}
	return encode(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "rlminit", "version": "1", "license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "The control socket, /run/rlminit/control.sock. Made by make docs; docs/control.md explains it.",
		},
		"servers":    []any{object{"url": "http://rlminit", "description": "over the Unix socket"}},
		"paths":      paths,
		"components": object{"schemas": schemas.of, "responses": object{"Problem": problem()}},
	})
}

func problem() object {
	return object{"description": "RFC 9457; a request that fails", "content": object{"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/Problem"}}}}
}

var parameter = regexp.MustCompile(`\{([a-z]+)\}`)

// operation describes one request.
func operation(request string, route Route, text described, may string, s *schemas) object {
	o := object{"operationId": operationID(request), "x-rlminit-permission": may, "responses": object{"default": object{"$ref": "#/components/responses/Problem"}}}
	if text.takes != "" {
		o["description"] = text.takes
	}
	var parameters []any
	for _, m := range parameter.FindAllStringSubmatch(request, -1) {
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, name := range queries(text.takes) {
		parameters = append(parameters, object{"name": name, "in": "query", "schema": object{"type": "string"}})
	}
	if len(parameters) > 0 {
		o["parameters"] = parameters
	}
	s.of["Problem"] = s.inline(problemType)
	answer := object{"description": text.answers}
	kind := "application/json"
	if route.Raw != "" && route.Raw != archive {
		kind = route.Raw
	}
	switch {
	case route.Answer != nil:
		answer["content"] = object{kind: object{"schema": s.ref(route.Answer)}}
	case route.Raw != "":
		answer["content"] = object{kind: object{"schema": object{"type": "string"}}}
	}
	if answer["content"] == nil {
		o["responses"].(object)["204"] = object{"description": text.answers}
	} else {
		o["responses"].(object)[strconv.Itoa(http.StatusOK)] = answer
	}
	switch {
	case route.Raw == archive:
		o["requestBody"] = object{"content": object{archive: object{"schema": object{"type": "string", "format": "binary"}}}}
	case route.Body != nil:
		o["requestBody"] = object{"content": object{"application/json": object{"schema": s.ref(route.Body)}}}
	}
	return o
}

var query = regexp.MustCompile("[?&]([a-z_]+)=|`([a-z_]+)=|(?:,|and) `([a-z]+)`")

// queries are the names of a request's query, as its text has them.
func queries(takes string) (names []string) {
	if !strings.Contains(takes, "?") {
		return nil
	}
	for _, m := range query.FindAllStringSubmatch(takes, -1) {
		name := m[1] + m[2] + m[3]
		if !slices.Contains(names, name) && !strings.HasPrefix(takes, "`{") {
			names = append(names, name)
		}
	}
	if i := strings.Index(takes, "`?"); i >= 0 && strings.HasPrefix(takes, "`{") {
		for _, m := range query.FindAllStringSubmatch(takes[i:], -1) {
			names = append(names, m[1]+m[2]+m[3])
		}
	}
	return names
}

// operationID is a request as one word: postServicesNameStart.
func operationID(request string) string {
	words := strings.FieldsFunc(strings.ReplaceAll(request, "/v1/", " "), func(r rune) bool { return strings.ContainsRune(" /{}_", r) })
	id := strings.ToLower(words[0])
	for _, word := range words[1:] {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return id
}

// encode writes the document, its keys in order.
func encode(doc object) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("# Made by make docs from package control, the handlers below supervise and docs/control.md.\n")
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(doc); err != nil {
		return nil, fmt.Errorf("cannot write the document: %w", err)
	}
	return out.Bytes(), nil
}
