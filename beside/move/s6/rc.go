package s6

import (
	"path/filepath"
	"slices"
	"strings"

	"rlminit/beside/move"
)

// unit is a source of s6-rc.
type unit struct {
	name, kind string
	dir        string
	requires   []string // names of units, with where they are named
	contents   []string // of a bundle
	feeds      string   // producer-for: the unit that has its output as input
	eats       []string // consumer-for
	service    *move.Service
}

// given are units that s6-overlay makes itself, or that stand for stages of its boot, which
// are over when a service starts here.
var given = []string{"base", "user", "user2", "top", "legacy-services", "legacy-cont-init", "fix-attrs", "init-mods", "s6rc-oneshot-runner", "s6rc-fdholder"}

// source reads a source of s6-rc; compile makes services of all.
func (r *reader) source(dir string) bool {
	name := filepath.Base(dir)
	kind := r.word(filepath.Join(dir, "type"))
	if kind == "" && (name == "user" || name == "user2") {
		kind = "bundle" // the overlay has the file
	}
	at := move.At{File: filepath.Join(dir, "type"), Line: 1}
	if there, _ := r.tree.Has(at.File); kind == "" && !there {
		r.plan.Leave(move.At{File: dir}, nil, move.Missing, move.Short(name), "there is no type in it, which may be in the image that this one is built on; import the whole tree of the image, by docker cp")
		return false
	}
	if kind != "longrun" && kind != "oneshot" && kind != "bundle" {
		r.plan.Leave(at, nil, move.Invalid, move.Short(name), "its type is "+move.Short(`"`+kind+`"`)+", and s6-rc knows longrun, oneshot and bundle")
		return kind != ""
	}
	if old := r.units[name]; old != nil && old.kind == "bundle" && kind == "bundle" && slices.Contains(given, name) {
		old.contents = append(append(old.contents, r.names(dir, "contents")...), r.entries(dir, "contents.d")...)
		return true
	}
	if r.units[name] != nil {
		r.plan.Leave(at, nil, move.Invalid, move.Short(name), "there is another source of that name, which is taken")
		return true
	}
	u := &unit{name: name, kind: kind, dir: dir, feeds: r.word(filepath.Join(dir, "producer-for")), eats: r.names(dir, "consumer-for")}
	u.requires = append(r.names(dir, "dependencies"), r.entries(dir, "dependencies.d")...)
	u.contents = append(r.names(dir, "contents"), r.entries(dir, "contents.d")...)
	r.units[name] = u
	r.order = append(r.order, name)
	if pipeline := r.word(filepath.Join(dir, "pipeline-name")); pipeline != "" && r.units[pipeline] == nil {
		// A bundle of the last consumer of a pipeline and all that feed it.
		r.units[pipeline] = &unit{name: pipeline, kind: "bundle", dir: dir, contents: append([]string{name}, u.eats...)}
	}
	r.boots = r.boots || name == "user"
	return true
}

// names are the words of a file of names, without comments.
func (r *reader) names(dir, file string) (all []string) {
	data, err := r.tree.Read(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	for l := range strings.Lines(string(data)) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
			all = append(all, l)
		}
	}
	return all
}

// entries are the names of the files in a directory.
func (r *reader) entries(dir, sub string) (all []string) {
	entries, err := r.tree.List(filepath.Join(dir, sub))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			all = append(all, e.Name())
		}
	}
	return all
}

// compile makes services of the units.
func (r *reader) compile() {
	starts := r.reach([]string{"user", "user2"})
	for _, name := range r.order {
		u := r.units[name]
		if u.kind == "bundle" || len(u.eats) > 0 && r.isLogger(u) {
			continue
		}
		r.unit(u, !r.boots || starts[name])
	}
	for _, name := range r.order {
		u := r.units[name]
		if u.kind == "bundle" && !slices.Contains(given, name) && !slices.ContainsFunc(r.order, func(o string) bool {
			return slices.Contains(r.units[o].requires, name) || slices.Contains(r.units[o].contents, name)
		}) {
			r.plan.Leave(move.At{File: filepath.Join(u.dir, "type"), Line: 1}, nil, move.NoEqual, move.Short(name), "rlminit has no bundles; name its services, or a pattern of their names, in rlminit start")
		}
		r.link(u)
	}
	// s6-overlay starts services.d when the bundle user is up.
	for _, s := range r.legacy {
		s.After = append(s.After, r.members("user", map[string]bool{})...)
	}
}

// reach are the units that a list of them brings up: what bundles contain, and what each
// needs.
func (r *reader) reach(from []string) map[string]bool {
	seen := map[string]bool{}
	for len(from) > 0 {
		name := from[0]
		from = from[1:]
		if u := r.units[name]; u != nil && !seen[name] {
			seen[name] = true
			from = append(append(from, u.contents...), u.requires...)
			if u.feeds != "" {
				from = append(from, u.feeds)
			}
		}
	}
	return seen
}

// members are the services that a name stands for: itself, or what a bundle contains.
func (r *reader) members(name string, seen map[string]bool) (all []string) {
	u := r.units[name]
	switch {
	case u == nil || seen[name]:
		return nil
	case u.kind != "bundle":
		return []string{name}
	}
	seen[name] = true
	for _, c := range u.contents {
		all = append(all, r.members(c, seen)...)
	}
	return all
}

// isLogger tells whether a consumer is the log of its producer, which rlminit keeps itself.
func (r *reader) isLogger(u *unit) bool {
	data, err := r.tree.Read(filepath.Join(u.dir, "run"))
	return err == nil && u.kind == "longrun" && u.feeds == "" && loggers.MatchString(string(data))
}

// unit makes a service of a longrun or a oneshot.
func (r *reader) unit(u *unit, starts bool) {
	file := "run"
	if u.kind == "oneshot" {
		file = "up"
	}
	path := filepath.Join(u.dir, file)
	if there, dir := r.tree.Has(path); !there || dir {
		r.plan.Leave(move.At{File: u.dir}, nil, move.Invalid, move.Short(u.name), "there is no "+file+" in it, which a "+u.kind+" needs")
		return
	}
	if r.plan.Find(u.name) != nil {
		r.plan.Leave(move.At{File: u.dir}, nil, move.Invalid, move.Short(u.name), "there is a service directory of that name, which is taken")
		return
	}
	s := r.plan.New(u.name, move.At{File: path, Line: 1})
	if s == nil {
		return
	}
	u.service = s
	var command []string
	if u.kind == "oneshot" {
		s.Keys.Set("type", "oneshot").Set("restart", "no")
		command = r.commandLine(path, s)
	} else {
		restarts(s)
		command = r.script(path, s)
	}
	if command == nil {
		r.plan.Remove(s)
		u.service = nil
		return
	}
	s.Keys.Set("command", command).Set("working_dir", "/")
	if u.kind == "longrun" {
		s.Keys.Set("working_dir", move.Literal(r.tree.Target(u.dir)))
	}
	if !starts {
		s.Keys.Set("enabled", false)
		s.Comment = append(s.Comment, "the bundle user does not have it, so no boot starts it")
	}
	r.files(u.dir, s, u)
	if !r.changed[s] {
		r.rooted(s, move.At{File: path, Line: 1})
	}
}

// link says what a unit needs, and what becomes of its pipeline.
func (r *reader) link(u *unit) {
	for _, need := range u.requires {
		switch other := r.units[need]; {
		case u.service != nil && (need == "user" || need == "legacy-services"):
			u.service.After = append(u.service.After, r.members("user", map[string]bool{})...)
			for _, s := range r.legacy {
				if need == "legacy-services" {
					u.service.After = append(u.service.After, s.Source)
				}
			}
		case other == nil && slices.Contains(given, need) || other != nil && other.kind == "bundle" && slices.Contains(given, need):
		case other == nil:
			r.plan.Leave(move.At{File: u.dir}, u.service, move.Missing, "dependency "+move.Short(need), "there is no such source in what was read; import it too, or it is not waited for")
		case u.service != nil:
			u.service.Requires = append(u.service.Requires, r.members(need, map[string]bool{})...)
		}
	}
	for _, c := range u.contents {
		if r.units[c] == nil && !slices.Contains(given, c) && u.kind == "bundle" {
			r.plan.Leave(move.At{File: u.dir}, nil, move.Missing, move.Short(u.name)+"/"+move.Short(c), "there is no such source in what was read; import it too")
		}
	}
	if u.feeds == "" || u.service == nil {
		return
	}
	switch consumer := r.units[u.feeds]; {
	case consumer == nil:
		r.plan.Leave(move.At{File: filepath.Join(u.dir, "producer-for"), Line: 1}, u.service, move.Missing, "producer-for", "there is no source "+move.Short(u.feeds)+"; rlminit keeps what the service writes in its log")
	case r.isLogger(consumer):
		r.logger(filepath.Join(consumer.dir, "run"), u.service)
	default:
		r.plan.Leave(move.At{File: filepath.Join(u.dir, "producer-for"), Line: 1}, u.service, move.NoEqual, "producer-for", "no service here has the output of another as its input; what it writes is in its log, and log: {forward: …} sends it on, or join both by a pipe of a shell in one service")
		if consumer.service != nil {
			consumer.service.Keys.Set("enabled", false)
			consumer.service.Comment = append(consumer.service.Comment, "under s6 its input is what "+u.name+" writes; here it would have none")
		}
	}
}
