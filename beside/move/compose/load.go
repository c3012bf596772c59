// Package compose reads Compose files: each service of one becomes a service in one
// container. What a Compose file says of images, networks, ports and volumes belongs to that
// container, or to nothing any more, and is named. compose-go merges the files and follows
// extends and YAML's merge keys; this package follows include, so that it decides what is
// read. It owns no state.
package compose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/sirupsen/logrus"
	"gopkg.in/yaml.v3"

	"rlminit/beside/move"
)

// Bounds of a file: nodes with every alias in full, mappings within each other, and files
// that include each other.
const (
	maxNodes   = 200_000
	maxDepth   = 100
	maxInclude = 16
)

// reader is one import.
type reader struct {
	tree  *move.Tree
	plan  *move.Plan
	read  []string           // files that were read, so that none is twice
	where map[string]move.At // of services.NAME and services.NAME.KEY
	all   []*service

	images  []image // of which docker image inspect has told
	project string  // the name at the top of the first file, "" for none
}

// Import reads the files by these paths into a plan. Several are merged, as by docker
// compose -f A -f B.
func Import(tree *move.Tree, paths []string, plan *move.Plan) error {
	logrus.SetOutput(io.Discard) // what it warns of is not ours to say
	r := &reader{tree: tree, plan: plan, where: map[string]move.At{}}
	for _, path := range slices.Clone(paths) {
		for _, name := range []string{"compose.override.yaml", "compose.override.yml", "docker-compose.override.yaml", "docker-compose.override.yml"} {
			over := filepath.Join(filepath.Dir(path), name)
			if stem, _, _ := strings.Cut(name, "."); strings.HasPrefix(filepath.Base(path), stem+".") && len(paths) == 1 {
				if there, dir := tree.Has(over); there && !dir {
					paths = append(paths, over)
				}
			}
		}
	}
	if err := r.readImages(); err != nil {
		return err
	}
	if err := r.files(paths, 0); err != nil {
		return err
	}
	r.services()
	return nil
}

// files reads files that are merged, and then those that they include.
func (r *reader) files(paths []string, depth int) error {
	details := types.ConfigDetails{WorkingDir: filepath.Dir(paths[0]), Environment: types.Mapping{}}
	var includes []include
	for _, path := range paths {
		data, err := r.tree.Read(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		r.read = append(r.read, path)
		more, err := r.index(path, data)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		includes = append(includes, more...)
		details.ConfigFiles = append(details.ConfigFiles, types.ConfigFile{Filename: path, Content: data})
		r.dotenv(path)
	}
	model, err := r.load(details)
	if err != nil {
		return fmt.Errorf("%s: %w", paths[0], err)
	}
	r.take(model, paths[0])
	for _, i := range includes {
		r.include(i, depth)
	}
	return nil
}

// load has compose-go merge the files. It is not asked to validate them, for it would refuse
// a whole file for one key that it does not know; so it may meet what it does not expect,
// and what it does then must not end import.
func (r *reader) load(details types.ConfigDetails) (model map[string]any, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("it is no Compose file that the Compose library can read: %v", fault)
		}
	}()
	model, err = loader.LoadModelWithContext(context.Background(), details, func(o *loader.Options) {
		o.SkipValidation, o.SkipInterpolation, o.SkipNormalization, o.SkipDefaultValues, o.SkipInclude = true, true, true, true, true
		o.ResolvePaths = false
		o.MaxNodeVisits = maxNodes
		o.SetProjectName("import", true)
		o.ResourceLoaders = []loader.ResourceLoader{extended{r.tree, details.WorkingDir}}
	})
	if err != nil && strings.HasPrefix(err.Error(), "Circular reference") {
		err = errors.New("services extend each other in a circle; take one extends out") // the library names them in any order
	}
	return model, err
}

// extended lets extends reach files of the tree alone.
type extended struct {
	tree *move.Tree
	dir  string
}

func (extended) Accept(string) bool { return true }

func (e extended) Load(_ context.Context, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.dir, path)
	}
	data, err := e.tree.Read(path)
	if err == nil {
		err = bounded(data)
	}
	if err != nil {
		return "", fmt.Errorf("extends %s: %w", path, err)
	}
	return path, nil
}

func (e extended) Dir(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Dir(path)
	}
	return filepath.Dir(filepath.Join(e.dir, path))
}

// dotenv names the .env from which docker compose takes variables for the file.
func (r *reader) dotenv(path string) {
	env := filepath.Join(filepath.Dir(path), ".env")
	if there, dir := r.tree.Has(env); there && !dir && !slices.Contains(r.read, env) {
		r.read = append(r.read, env)
		r.plan.Leave(move.At{File: env}, nil, move.Outside, ".env", "docker compose reads it for the variables in the file; give them to the container, by docker run --env-file")
	}
}

// bounded returns an error for a document that is too large once its aliases are followed.
func bounded(data []byte) error {
	_, err := parse(data)
	return err
}

// parse reads YAML with line numbers, and refuses what would grow or never end.
func parse(data []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 0 {
		return nil, errors.New("it is empty")
	}
	left := maxNodes
	if err := count(doc.Content[0], &left, 0); err != nil {
		return nil, err
	}
	return doc.Content[0], nil
}

func count(n *yaml.Node, left *int, depth int) error {
	if *left--; *left < 0 {
		return fmt.Errorf("it has more than %d values, aliases in full; it is not read", maxNodes)
	}
	if depth > maxDepth {
		return fmt.Errorf("more than %d lists and mappings are within each other; it is not read", maxDepth)
	}
	if n.Kind == yaml.AliasNode {
		return count(n.Alias, left, depth+1)
	}
	for _, c := range n.Content {
		if err := count(c, left, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// include is an entry of the key include.
type include struct {
	at    move.At
	paths []string
	env   bool
}

// index notes the lines of services and their keys, names what stands at the top that has
// no place here, and returns what the file includes.
func (r *reader) index(path string, data []byte) (includes []include, err error) {
	top, err := parse(data)
	if err != nil {
		return nil, err
	}
	if top.Kind != yaml.MappingNode {
		return nil, errors.New("it is no mapping, as a Compose file is")
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		at := move.At{File: path, Line: key.Line}
		switch {
		case key.Value == "services":
			r.lines(path, value)
		case key.Value == "include":
			for _, n := range value.Content {
				includes = append(includes, included(path, n))
			}
		case key.Value == "name" && r.project == "":
			r.project = value.Value
		case key.Value == "version" || key.Value == "name" || strings.HasPrefix(key.Value, "x-"):
		default:
			reason, why := move.Unknown, "import knows no such key; look whether something needs it"
			if known, is := atTop[key.Value]; is {
				reason, why = move.Outside, known
			}
			r.plan.Leave(at, nil, reason, move.Short(key.Value), why)
		}
	}
	return includes, nil
}

// atTop is what is to be done about the sections besides services.
var atTop = map[string]string{
	"networks": "all services are in one container, and reach each other at 127.0.0.1",
	"volumes":  "give the container the volumes that services need, by docker run -v, at the paths where they had them",
	"secrets":  "give the files to the container, and name them in secrets of the service that needs them",
	"configs":  "put the files into the image, or mount them",
	"models":   "rlminit runs no models; point the service to where one runs, by its environment",
}

func (r *reader) lines(path string, services *yaml.Node) {
	for i := 0; i+1 < len(services.Content); i += 2 {
		name, body := services.Content[i], services.Content[i+1]
		r.mark("services."+name.Value, move.At{File: path, Line: name.Line})
		r.keys("services."+name.Value, path, body, 0)
	}
}

// keys notes the lines of a service's keys, and of those of an alias or a merge key.
func (r *reader) keys(prefix, path string, body *yaml.Node, depth int) {
	if body.Kind == yaml.AliasNode {
		body = body.Alias
	}
	if depth > maxDepth {
		return
	}
	for i := 0; i+1 < len(body.Content) && body.Kind == yaml.MappingNode; i += 2 {
		key, value := body.Content[i], body.Content[i+1]
		if key.Value == "<<" {
			for _, m := range append([]*yaml.Node{value}, value.Content...) {
				r.keys(prefix, path, m, depth+1)
			}
			continue
		}
		r.mark(prefix+"."+key.Value, move.At{File: path, Line: key.Line})
	}
}

// mark notes a place. The last file of those that are merged counts.
func (r *reader) mark(what string, at move.At) { r.where[what] = at }

func (r *reader) at(service, key string) move.At {
	if at, there := r.where["services."+service+"."+key]; there {
		return at
	}
	return r.where["services."+service]
}

func included(path string, n *yaml.Node) include {
	i := include{at: move.At{File: path, Line: n.Line}}
	one := func(n *yaml.Node) {
		switch n.Kind {
		case yaml.ScalarNode:
			i.paths = append(i.paths, n.Value)
		case yaml.SequenceNode:
			for _, c := range n.Content {
				i.paths = append(i.paths, c.Value)
			}
		}
	}
	if n.Kind != yaml.MappingNode {
		one(n)
		return i
	}
	for k := 0; k+1 < len(n.Content); k += 2 {
		switch n.Content[k].Value {
		case "path":
			one(n.Content[k+1])
		default:
			i.env = true
		}
	}
	return i
}

func (r *reader) include(i include, depth int) {
	if i.env {
		r.plan.Leave(i.at, nil, move.NoEqual, "include", "its env_file and project_directory are not followed; give the variables to the container, and look at the paths of the services")
	}
	var paths []string
	for _, p := range i.paths {
		if !filepath.IsAbs(p) {
			p = filepath.Join(filepath.Dir(i.at.File), p)
		}
		if slices.Contains(r.read, p) {
			r.plan.Leave(i.at, nil, move.Invalid, "include "+move.Short(p), "it is included already; take it out")
			return
		}
		paths = append(paths, p)
	}
	if len(paths) == 0 || depth >= maxInclude {
		r.plan.Leave(i.at, nil, move.Invalid, "include", fmt.Sprintf("it names no file, or %d files include each other", maxInclude))
		return
	}
	if err := r.files(paths, depth+1); err != nil {
		r.plan.Leave(i.at, nil, move.Missing, "include", err.Error())
	}
}
