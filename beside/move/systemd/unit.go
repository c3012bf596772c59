package systemd

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"rlminit/beside/move"
)

// option is an assignment of a unit file.
type option struct {
	section, name, value string
	at                   move.At
}

// unitFile is a unit with its drop-ins.
type unitFile struct {
	name     string // with its suffix: web@a.service
	at       move.At
	options  []option
	template bool   // web@.service
	instance string // of web@a.service: a
	stem     string // without suffix and instance
	aliases  []string
	wanted   bool // some .wants or .requires has a link to it
}

// suffixes are those of units.
var suffixes = []string{".service", ".socket", ".timer", ".target", ".mount", ".automount", ".path", ".slice", ".swap", ".scope", ".device", ".link", ".netdev", ".network"}

// isUnit tells whether a file is named as a unit is.
func isUnit(name string) bool { return slices.Contains(suffixes, filepath.Ext(name)) }

// newUnit is a unit of a name, without options.
func newUnit(name, file string) *unitFile {
	u := &unitFile{name: name, at: move.At{File: file}}
	u.stem = strings.TrimSuffix(name, filepath.Ext(name))
	if stem, instance, is := strings.Cut(u.stem, "@"); is {
		u.stem, u.instance, u.template = stem, instance, instance == ""
	}
	return u
}

// parse reads options. The library has no line numbers: they are looked up in its order.
func parse(file string, data []byte) ([]option, error) {
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, errors.New("it has a NUL byte, as no unit has")
	}
	read, err := unit.DeserializeOptions(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(data), "\n")
	next := 0
	all := make([]option, 0, len(read))
	for _, o := range read {
		at := move.At{File: file}
		for i := next; i < len(lines); i++ {
			if rest, is := strings.CutPrefix(strings.TrimSpace(lines[i]), o.Name); is && strings.HasPrefix(strings.TrimSpace(rest), "=") {
				at.Line, next = i+1, i+1
				break
			}
		}
		all = append(all, option{o.Section, strings.TrimSpace(o.Name), joined(o.Value), at})
	}
	return all, nil
}

// joined is a value whose lines end in a backslash as one line; comments between them go.
func joined(value string) string {
	if !strings.Contains(value, "\n") {
		return strings.TrimSpace(value)
	}
	var parts []string
	for l := range strings.Lines(value) {
		trimmed := strings.TrimSpace(l)
		if strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, ";") {
			continue
		}
		parts = append(parts, strings.TrimSpace(strings.TrimSuffix(trimmed, `\`)))
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// all are the assignments of a key that holds a list: an empty one begins it anew.
func (u *unitFile) all(section, name string) (found []option) {
	for _, o := range u.options {
		if o.section == section && o.name == name {
			if o.value == "" {
				found = nil
				continue
			}
			found = append(found, o)
		}
	}
	return found
}

// last is the assignment of a key that counts; false: there is none, or an empty one.
func (u *unitFile) last(section, name string) (o option, there bool) {
	if all := u.all(section, name); len(all) > 0 {
		return all[len(all)-1], true
	}
	return option{}, false
}

// word is the value of a key of [Service], "" for none.
func (u *unitFile) word(name string) string {
	o, _ := u.last("Service", name)
	return o.value
}

// names are the words of a list of units.
func (u *unitFile) names(section string, keys ...string) (all []named) {
	for _, key := range keys {
		for _, o := range u.all(section, key) {
			for _, w := range strings.Fields(o.value) {
				all = append(all, named{w, o})
			}
		}
	}
	return all
}

// named is a unit that another names, and where.
type named struct {
	unit string
	by   option
}

// truth is a boolean as systemd reads one.
func truth(value string) bool {
	return slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, strings.ToLower(value))
}
