package supervisord

import (
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/ini.v1"

	"rlminit/beside/move"
)

// value is what a key has, and where.
type value struct {
	text string
	at   move.At
}

// section is one of a file. Keys are in small letters, as supervisord compares them.
type section struct {
	name string
	at   move.At
	here string // the directory of the file, as the container has it
	keys map[string]value
}

// unnamed is the section that the library makes for what stands before the first.
const unnamed = "DEFAULT"

var (
	header   = regexp.MustCompile(`^\[([^\]]*)\]`)
	inlineAt = regexp.MustCompile(`(^|\s)[;#]`)
)

// parse reads a file as supervisord does: Python's RawConfigParser, with comments that begin
// a line or follow a blank, and values that go on in indented lines.
func parse(file, here string, data []byte) ([]*section, error) {
	lines := strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	for i, l := range lines {
		if at := inlineAt.FindStringIndex(l); at != nil {
			l = strings.TrimRight(l[:at[0]], " \t")
		}
		if trimmed := strings.TrimSpace(l); strings.HasPrefix(trimmed, "`") || strings.HasPrefix(trimmed, `"`) && !indented(l) {
			return nil, errors.New("line " + itoa(i+1) + " begins with a quote; no key does")
		}
		lines[i] = guard(l)
	}
	text := strings.Join(lines, "\n") + "\n"
	f, err := ini.LoadSources(ini.LoadOptions{
		InsensitiveKeys: true, IgnoreContinuation: true, IgnoreInlineComment: true, PreserveSurroundedQuote: true,
		AllowPythonMultilineValues: true, ChildSectionDelimiter: "\x00", ReaderBufferSize: len(text) + 1,
	}, []byte(text))
	if err != nil {
		return nil, err
	}
	var all []*section
	for _, s := range f.Sections() {
		if s.Name() == unnamed && len(s.Keys()) == 0 {
			continue
		}
		at := find(lines, s.Name(), "")
		one := &section{name: s.Name(), at: move.At{File: file, Line: at}, here: here, keys: map[string]value{}}
		for _, k := range s.Keys() {
			one.keys[k.Name()] = value{unguard(k.Value()), move.At{File: file, Line: find(lines, s.Name(), k.Name())}}
		}
		all = append(all, one)
	}
	return all, nil
}

// mark keeps the library from reading a value that begins with a quotation of its own, which
// Python does not know, as one.
const mark = "\x01"

func guard(l string) string {
	i := strings.IndexAny(l, "=:")
	if i < 0 || indented(l) || header.MatchString(l) {
		return l
	}
	rest := strings.TrimLeft(l[i+1:], " \t")
	if strings.HasPrefix(rest, "`") || strings.HasPrefix(rest, `"""`) {
		return l[:i+1] + mark + rest
	}
	return l
}

func unguard(s string) string { return strings.TrimPrefix(s, mark) }

func indented(l string) bool { return l != "" && (l[0] == ' ' || l[0] == '\t') }

// find is the line of the last place at which a section has a key, or, without a key, at
// which it begins: of several, the last counts.
func find(lines []string, name, key string) (at int) {
	inside := name == unnamed
	for i, l := range lines {
		if m := header.FindStringSubmatch(l); m != nil {
			if inside = m[1] == name; inside && key == "" {
				at = i + 1
			}
			continue
		}
		if !inside || key == "" || indented(l) {
			continue
		}
		if end := strings.IndexAny(l, "=:"); end > 0 && strings.ToLower(strings.TrimSpace(l[:end])) == key {
			at = i + 1
		}
	}
	return at
}

// read reads the files that a person named, and what they include.
func (r *reader) read(paths []string) error {
	for _, path := range paths {
		data, err := r.tree.Read(path)
		if err != nil {
			r.failed = errors.Join(r.failed, errors.New(path+": "+err.Error()))
			continue
		}
		r.add(path, data)
		r.include(path)
	}
	if len(r.sections) == 0 {
		return r.failed
	}
	return nil
}

// add adds the sections of a file. A section that is there already gets more keys, as with
// supervisord.
func (r *reader) add(path string, data []byte) {
	r.files = append(r.files, path)
	sections, err := parse(path, r.tree.Target(filepath.Dir(path)), data)
	if err != nil {
		r.failed = errors.Join(r.failed, errors.New(path+": "+err.Error()))
		r.plan.Leave(move.At{File: path}, nil, move.Invalid, filepath.Base(path), "it cannot be read: "+err.Error()+"; mend it")
		return
	}
	for _, s := range sections {
		i := slices.IndexFunc(r.sections, func(o *section) bool { return o.name == s.name })
		if i < 0 {
			r.sections = append(r.sections, s)
			continue
		}
		for k, v := range s.keys {
			r.sections[i].keys[k] = v
		}
	}
}

// maxIncluded bounds the files that one file includes.
const maxIncluded = 1000

// include reads what the section [include] of a file names: patterns, from its directory on.
func (r *reader) include(path string) {
	i := slices.IndexFunc(r.sections, func(s *section) bool { return s.name == "include" })
	if i < 0 {
		return
	}
	s := r.sections[i]
	r.sections = slices.Delete(r.sections, i, i+1)
	files, there := s.keys["files"]
	if !there {
		r.plan.Leave(s.at, nil, move.Invalid, "[include]", "it names no files; write files = PATTERN")
		return
	}
	host, _ := r.expand(files.text, map[string]string{"here": s.here})
	for _, pattern := range strings.Fields(host) {
		at := pattern
		if !filepath.IsAbs(at) {
			at = filepath.Join(filepath.Dir(path), at)
		} else {
			at = r.tree.Source(at)
		}
		found, err := filepath.Glob(at)
		slices.Sort(found)
		switch {
		case err != nil:
			r.plan.Leave(files.at, nil, move.Invalid, "include "+move.Short(pattern), "it is no pattern: "+err.Error())
		case len(found) == 0:
			r.plan.Leave(files.at, nil, move.Missing, "include "+move.Short(pattern), "no file is there by that name; name the files as PATHs too, or give --root, the root of the image")
		case len(found) > maxIncluded:
			r.plan.Leave(files.at, nil, move.Bound, "include "+move.Short(pattern), "more than "+itoa(maxIncluded)+" files are there by that name; import them in parts")
		default:
			r.included(files.at, found)
		}
	}
}

func (r *reader) included(at move.At, files []string) {
	for _, file := range files {
		if slices.Contains(r.files, file) {
			continue
		}
		data, err := r.tree.Read(file)
		if err != nil {
			r.plan.Leave(at, nil, move.Missing, "include "+move.Short(file), err.Error())
			continue
		}
		r.add(file, data)
		// supervisord reads no [include] of a file that is included itself.
		if i := slices.IndexFunc(r.sections, func(s *section) bool { return s.name == "include" }); i >= 0 {
			r.plan.Leave(r.sections[i].at, nil, move.Invalid, "[include]", "supervisord heeds it in its own file only; name its files in that")
			r.sections = slices.Delete(r.sections, i, i+1)
		}
	}
}
