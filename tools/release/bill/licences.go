package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"github.com/google/licensecheck"
)

// recognised is the part of a text, in percent, that must be a known licence. What
// remains are lines of copyright, and a project's own headings.
const recognised = 60.0

// textNames are the files that have terms in them, or notices that must go along.
var textNames = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-.].*)?$`)

// licenceNames are those that say which licence it is; a notice or a grant of patents
// stands beside one.
var licenceNames = regexp.MustCompile(`(?i)^(licen[cs]e|copying)`)

// part is a module and the terms under which it is passed on.
type part struct {
	module
	ids   []string // SPDX identifiers, sorted
	texts []text
}

// text is a file of terms.
type text struct {
	name    string // below the module's directory
	content string
}

// licensed finds the terms of each module in the module cache of the project.
func licensed(project string, modules []module) ([]part, error) {
	dirs, err := directories(project)
	if err != nil {
		return nil, err
	}
	var parts []part
	for _, m := range modules {
		dir := dirs[m.path]
		if dir == "" {
			return nil, fmt.Errorf("cannot find the source of %s %s, which is linked: run go mod download in the project, and build with its go.mod", m.path, m.version)
		}
		texts, err := texts(dir, m.path == standard)
		if err != nil {
			return nil, fmt.Errorf("cannot read the licence of %s: %w", m.path, err)
		}
		ids := identify(texts)
		if len(ids) == 0 {
			return nil, fmt.Errorf("cannot tell the licence of %s %s from the files in %s: do without the module, or see to it that its licence is known", m.path, m.version, dir)
		}
		parts = append(parts, part{module: m, ids: ids, texts: texts})
	}
	return parts, nil
}

// directories are the sources of the modules that the project may link, and of the
// standard library.
func directories(project string) (map[string]string, error) {
	list, err := run(project, "go", "list", "-m", "-json", "all")
	if err != nil {
		return nil, fmt.Errorf("cannot list the modules of the project: %w", err)
	}
	dirs := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(list)); decoder.More(); {
		var m struct{ Path, Dir string }
		if err := decoder.Decode(&m); err != nil {
			return nil, fmt.Errorf("cannot read the list of the project's modules: %w", err)
		}
		dirs[m.Path] = m.Dir
	}
	root, err := run(project, "go", "env", "GOROOT")
	if err != nil {
		return nil, fmt.Errorf("cannot find the standard library: %w", err)
	}
	dirs[standard] = strings.TrimSpace(string(root))
	return dirs, nil
}

// run gives what a command prints.
func run(dir string, argv ...string) ([]byte, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out, nil
}

// texts reads the files of terms in a directory and below, for a module may hold
// code of others. Of the Go distribution only those at the top count: what is below
// belongs to its tools and tests.
func texts(dir string, top bool) ([]text, error) {
	var found []text
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != dir && (top || name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || !textNames.MatchString(name) || filepath.Ext(name) == ".go" {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		found = append(found, text{name: below, content: string(content)})
		return nil
	})
	return found, err
}

// identify names the licences that the texts are.
func identify(texts []text) []string {
	seen := map[string]bool{}
	for _, t := range texts {
		if !licenceNames.MatchString(filepath.Base(t.name)) {
			continue
		}
		cover := licensecheck.Scan([]byte(t.content))
		if cover.Percent < recognised {
			continue
		}
		for _, match := range cover.Match {
			if !match.IsURL {
				seen[match.ID] = true
			}
		}
	}
	var ids []string
	for id := range seen {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	return ids
}

// notices is the file LICENSES: the project's own licence, and then each text that
// is passed on, once, under the names of all that it is of.
func notices(own string, parts []part) []byte {
	var order []string
	of := map[string][]string{}
	for _, p := range parts {
		for _, t := range p.texts {
			content := strings.TrimSpace(strings.ReplaceAll(t.content, "\r\n", "\n"))
			if of[content] == nil {
				order = append(order, content)
			}
			of[content] = append(of[content], fmt.Sprintf("%s %s (%s)", p.path, p.version, t.name))
		}
	}
	var b bytes.Buffer
	rule := strings.Repeat("=", 78)
	fmt.Fprintf(&b, "rlminit is under the Apache License 2.0, which follows. Its binaries contain code\nof others under the terms that stand below it.\n\n%s\n\n%s\n", rule, strings.TrimSpace(own))
	for _, content := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n\n%s\n", rule, strings.Join(of[content], "\n"), rule, content)
	}
	return b.Bytes()
}
