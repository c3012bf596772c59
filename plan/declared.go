package plan

import (
	"path"

	"rlminit/internal/document"
	"rlminit/service"
)

// Declared is a set as somebody wrote it down.
type Declared struct {
	Profiles []Wanted
	// Configuration is the file that is to be root's configuration, absolute; "":
	// nothing is said of that.
	Configuration string

	profiles bool // the key is there
}

// Wanted is one declared profile.
type Wanted struct {
	Name       string
	State      service.Intent
	Definition Tree              // with its secrets
	Secrets    map[string]Source // of the key secrets

	Node document.Node // where it stands, for faults that are found later
}

// Source is where a secret's value comes from: a file, or what stands there.
type Source struct {
	File string // absolute; "": Text is the value
	Text string
}

// Keys are those of a declared profile that no profile.yaml has.
var Keys = []string{"state", partSecrets}

// Parse reads a declared set. dir is the directory that the paths in it are
// relative to. Every fault of its form is found. Whether a profile makes a
// service is found by the Check that goes with each, since that takes the
// configuration.
func Parse(file, dir string, data []byte) (*Declared, *document.Reading) {
	doc, malformed := document.Parse(file, data)
	top, reading := doc.Read(verbatim)
	d := &Declared{}
	version := 0
	d.fields(&version, dir).Read(top)
	if top.Get("version").Absent() && (top.IsMapping() || top.Absent() && len(malformed) == 0) {
		top.Fault("version is missing; write version: 1")
	}
	if d.profiles = hasKey(top, "profiles"); top.IsMapping() && !d.profiles && top.Get("configuration").Absent() {
		top.Fault("profiles is missing; write profiles: {NAME: {state: running}}, or profiles: {} for none at all")
	}
	return d, reading
}

func (d *Declared) fields(version *int, dir string) document.Fields {
	return document.Fields{
		"version":       document.Int(version, 1, 1),
		"profiles":      d.readProfiles(dir),
		"configuration": relative(&d.Configuration, dir),
	}
}

// SetFile is the kind of file that a declared set is.
const SetFile = "set.yaml"

// Describe is what may stand in a declared set.
func Describe() *document.Shape {
	version := 0
	return document.Describe((&Declared{}).fields(&version, "/").Read)
}

// verbatim leaves every ${…} as it stands: it is the service's to expand.
func verbatim(name string) (string, bool) { return "${" + name + "}", true }

func hasKey(n document.Node, name string) (there bool) {
	n.Each(func(key, _ document.Node) { there = there || key.Key() == name })
	return there
}

// Scope is the default scope of a set.
func (d *Declared) Scope() Scope {
	switch {
	case d.Configuration == "":
		return Profiles
	case d.profiles:
		return All
	}
	return Configuration
}

// Lacks is the part of a scope that the set does not declare.
func (d *Declared) Lacks(s Scope) string {
	switch {
	case s.Profiles() && !d.profiles:
		return "profiles"
	case s.Configures() && s != All && d.Configuration == "":
		return "configuration"
	}
	return ""
}

func (d *Declared) readProfiles(dir string) document.Setter {
	return func(n document.Node) {
		n.Each(func(key, value document.Node) {
			w := Wanted{Name: key.Key(), State: service.Running, Node: value, Secrets: map[string]Source{}}
			if value.Describes() { // its content is judged with the configuration
				fields := service.OverrideFields()
				fields["state"], fields[partSecrets] = document.OneOf(&w.State, service.Running, service.Stopped), secrets(w.Secrets, dir)
				fields.Read(value)
				return
			}
			if fault := service.CheckName(w.Name); fault != "" {
				key.Fault("the name %s %s", document.Quote(w.Name), fault)
			}
			if !value.Absent() && !value.IsMapping() {
				value.Fault("is no mapping; write {state: running}")
			}
			if state := value.Get("state"); !state.Absent() {
				document.OneOf(&w.State, service.Running, service.Stopped)(state)
			}
			if s := value.Get(partSecrets); !s.Absent() {
				secrets(w.Secrets, dir)(s)
			}
			w.Definition = definitionOf(value, Keys...)
			d.Profiles = append(d.Profiles, w)
		})
	}
}

// secrets reads NAME: {file: PATH}, or NAME: value.
func secrets(into map[string]Source, dir string) document.Setter {
	return func(n document.Node) {
		n.Each(func(key, value document.Node) {
			name := key.Key()
			if fault := service.CheckSecret(name); fault != "" {
				key.Fault("%s %s", document.Quote(name), fault)
				return
			}
			var s Source
			if value.IsMapping() {
				document.Fields{"file": relative(&s.File, dir)}.Read(value)
				if value.Get("file").Absent() {
					value.Fault("names no file; write {file: PATH}")
				}
			} else if _, ok := value.Text(); ok {
				s.Text = value.Raw() // a secret is not expanded
			}
			into[name] = s
		})
	}
}

// relative reads a path, which may be relative to dir.
func relative(p *string, dir string) document.Setter {
	return func(n document.Node) {
		var s string
		document.Word(&s)(n)
		switch {
		case s == "":
		case path.IsAbs(s):
			*p = path.Clean(s)
		case dir == "":
			n.Fault("%s is no absolute path, and what comes from standard input lies in no directory; write /%s", document.Quote(s), s)
		default:
			*p = path.Join(dir, s)
		}
	}
}

// Source is where the value at a place of a profile comes from: a secret, or what its
// definition says there. ok is false where nothing is declared.
func (d *Declared) Source(profile, at string) (s Source, ok bool) {
	for _, w := range d.Profiles {
		if w.Name != profile {
			continue
		}
		if part, name := partsOf(at); part == partSecrets {
			s, ok = w.Secrets[name]
			return s, ok
		}
		if in, key := find(w.Definition, at); in != nil {
			return Source{Text: text(in[key])}, true
		}
	}
	return s, false
}

// Files are the paths of the secrets that are in files of their own, by profile and place.
func (d *Declared) Files() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, w := range d.Profiles {
		own := map[string]string{}
		for name, s := range w.Secrets {
			if s.File != "" {
				own[place(partSecrets, name)] = s.File
			}
		}
		if len(own) > 0 {
			all[w.Name] = own
		}
	}
	return all
}

// Outside is the part of a set that is not within a scope: names of profiles, and
// configuration.
func (d *Declared) Outside(s Scope) (names []string) {
	if d.Configuration != "" && !s.Configures() {
		names = append(names, "configuration")
	}
	for _, w := range d.Profiles {
		if !s.Profile(w.Name) {
			names = append(names, w.Name)
		}
	}
	return names
}
