// Package procfile reads a Procfile, as foreman, Heroku and their like have it: a line
// `NAME: COMMAND` for each process, and beside it an .env.
package procfile

import (
	"errors"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"rlminit/beside/move"
	"rlminit/beside/move/words"
)

// process is a line that defines one.
var process = regexp.MustCompile(`^([A-Za-z0-9_-]+):\s*(.*)$`)

// The ports that foreman gives to the processes of a file: the first, and how far the next
// is from it.
const (
	firstPort = 5000
	portStep  = 100
)

// Is tells whether a file is a Procfile: by its name.
func Is(path string, _ []byte) bool {
	base := filepath.Base(path)
	return base == "Procfile" || strings.HasPrefix(base, "Procfile.")
}

// Import reads the files by these paths into a plan.
func Import(tree *move.Tree, paths []string, plan *move.Plan) error {
	for _, path := range paths {
		data, err := tree.Read(path)
		if err != nil {
			return errors.New(path + ": " + err.Error())
		}
		dir := move.Literal(tree.Target(filepath.Dir(path)))
		env := ""
		if there, isDir := tree.Has(filepath.Join(filepath.Dir(path), ".env")); there && !isDir {
			env = "?" + dir + "/.env"
		}
		n, index := 0, 0
		for l := range strings.Lines(string(data)) {
			n++
			at := move.At{File: path, Line: n}
			l = strings.TrimSpace(l)
			if l == "" || strings.HasPrefix(l, "#") {
				continue
			}
			m := process.FindStringSubmatch(l)
			if m == nil || m[2] == "" {
				plan.Leave(at, nil, move.Invalid, move.Short(l), "it is no NAME: COMMAND; mend it")
				continue
			}
			add(plan, at, m[1], m[2], dir, env, firstPort+index*portStep)
			index++
		}
	}
	return nil
}

// add makes a service of a line, or, of the process release, a boot command: it is to be
// done before the others start, and if it fails they do not.
func add(plan *move.Plan, at move.At, name, line, dir, env string, port int) {
	if plan.Find(name) != nil {
		plan.Leave(at, nil, move.Invalid, name, "there is a process of that name already, which is taken")
		return
	}
	if name == "release" {
		s := &move.Service{Source: name, Name: name, At: at, Comment: []string{"release runs before the others start"}}
		s.Keys.Set("command", command(line)).Set("working_dir", dir)
		if env != "" {
			plan.Leave(at, s, move.NoEqual, ".env", "a boot command reads no env_file of its own; write its variables into the key environment, or env_file at the top for everything")
		}
		plan.Boot = append(plan.Boot, s)
		return
	}
	s := plan.New(name, at)
	if s == nil {
		return
	}
	s.Keys.Set("command", command(line)).Set("working_dir", dir)
	s.Keys.Sub("environment").Set("PORT", itoa(port))
	if env != "" {
		s.Keys.Set("env_file", []string{env})
		s.Comment = append(s.Comment, "PORT is what foreman gives; an .env does not change it")
	}
}

// command is a line's words, or a shell that runs it where only that makes sense of it.
func command(line string) []string {
	list, err := words.Split(line)
	if err != nil || words.NeedsShell(line) || len(list) == 0 || strings.Contains(list[0], "=") {
		return []string{"sh", "-c", move.Literal(line)}
	}
	return move.Literals(list)
}

func itoa(i int) string { return strconv.Itoa(i) }
