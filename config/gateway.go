package config

import (
	"bytes"
	"cmp"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rlminit/internal/document"
	"rlminit/service"
)

// Profile is the input of a gateway's definition.
type Profile struct {
	Name string
	Kind string // "": the section gateway
	Dir  string // absolute
	Port int    // 0: none
}

// variables are what expansions and the environment have of a profile.
func (p Profile) variables(home string) map[string]string {
	vars := map[string]string{"PROFILE": p.Name, "PROFILE_DIR": p.Dir, "RLMINIT_HOME": home}
	if p.Port != 0 {
		vars["PORT"] = strconv.Itoa(p.Port)
	}
	return vars
}

// ProfilesDir is where the profiles lie on the volume.
const ProfilesDir = "profiles"

// ProfileDir is where a profile lies, in the home directory of all.
func ProfileDir(home, name string) string {
	if name == DefaultProfile {
		return home
	}
	return path.Join(home, ProfilesDir, name)
}

// TrashDir is where those lie that were deleted.
const TrashDir = "trash"

// DefaultProfile is the profile that is the home directory itself.
const DefaultProfile = "default"

// gateway reads the section of that name, and the definition of a made-up profile, so
// that its faults show at once.
func (p *parser) gateway(n document.Node) {
	c := p.config
	g := p.profiled()
	for key, set := range g.own() {
		if v := n.Get(key); !v.Absent() {
			set(v)
		}
	}
	g.checkFiles(n)
	if d := n.Get("default"); !d.Absent() {
		g.HasDefault, g.defaultNode = true, d
	}
	if len(g.Groups) > 0 && !g.OwnUsers() {
		n.Get("groups").Fault("every gateway runs as the configured user, with its groups; write user: auto beside it, or take it out")
	}
	if !n.Describes() && p.kinds && n.IsMapping() && n.Get("command").Absent() {
		p.shared(n)
		return
	}
	p.kind("", n)
	if g.HasDefault && len(p.faults) == 0 {
		_, faults := c.GatewayDefinition(Profile{Name: DefaultProfile, Dir: c.Home, Port: g.Ports.Low})
		p.found(faults)
	}
}

// shared reads a section gateway that has no command, beside kinds that have: it is no
// kind itself, and says what holds for all.
func (p *parser) shared(n document.Node) {
	fields := document.Fields{}
	for key := range new(Gateway).own() {
		fields[key] = document.Described(nil)
	}
	fields["default"] = document.Described(nil)
	refused := map[string]string{}
	for key := range service.Default("").Fields() {
		if fields[key] == nil {
			refused[key] = "without a command the section is no gateway, and says only what holds for all kinds; add command, or move it to one of gateways"
		}
	}
	for key := range new(Kind).own() {
		refused[key] = refused["command"]
	}
	delete(refused, "ports")
	fields["ports"] = numbers(&p.config.Gateway.Ports, 1, 65535)
	fields.ReadRefusing(n, refused)
}

// gateways reads the kinds beside the section gateway.
func (p *parser) gateways(n document.Node) {
	p.profiled()
	n.Each(func(key, value document.Node) {
		name := key.Key()
		switch fault := service.CheckName(name); {
		case value.Describes():
		case fault != "":
			key.Fault("the name %s %s", document.Quote(name), fault)
			return
		case name == "none":
			key.Fault("the name none is refused; give this kind another one")
			return
		case name == service.DefaultKind:
			key.Fault("the name %s is taken: the section gateway is the kind default; give this one another name", document.Quote(name))
			return
		case value.Absent():
			value.Fault("is empty; write {command: [prog, arg]}")
			return
		}
		p.kind(name, value)
	})
}

// kind reads one kind, from a section of its own.
func (p *parser) kind(name string, n document.Node) {
	g := p.config.Gateway
	k := &Kind{Name: name, InitialState: service.Running, ports: g.Ports, node: n}
	for key, set := range k.own() {
		if v := n.Get(key); !v.Absent() {
			set(v)
		}
	}
	if command := n.Get("command"); command.IsScalar() && command.Raw() == anyCommand {
		k.AnyCommand = true
	}
	if g.Kinds[name] = k; name == "" {
		g.Ports = k.ports
	}
	_, faults := p.config.GatewayDefinition(g.sample(p.config, name))
	p.found(faults)
}

// found takes the faults of a definition that stands for those of many.
func (p *parser) found(faults Faults) {
	for _, f := range faults {
		f.Service = ""
		p.faults = append(p.faults, f)
	}
}

// profiled is the configuration's Gateway, made at the first section about it.
func (p *parser) profiled() *Gateway {
	if p.config.Gateway == nil {
		p.config.Gateway = &Gateway{
			Marker: "profile.yaml", StateFile: "gateway_state.json", FoundState: service.Stopped,
			Ports: Range{9200, 9799}, Kinds: map[string]*Kind{},
		}
	}
	return p.config.Gateway
}

// checkFiles refuses names of files that are another's.
func (g *Gateway) checkFiles(n document.Node) {
	if g.ImportState == g.StateFile {
		n.Fault("import_state and state_file are both %s; rlminit needs a file of its own, so give state_file another name", document.Quote(g.StateFile))
	}
	if g.Marker == g.StateFile {
		n.Fault("marker and state_file are both %s; give state_file another name", document.Quote(g.Marker))
	} else if slices.Contains([]string{"profile.yaml", "profiles", "logs", "state", "trash", ".rlminit.lock"}, g.StateFile) {
		// The default profile's directory is the home directory.
		n.Get("state_file").Fault("%s is a file of rlminit itself; give this one another name", document.Quote(g.StateFile))
	}
	for _, pattern := range g.RemoveAtBoot {
		for _, kept := range []string{g.Marker, g.StateFile, "profile.yaml"} {
			if fits, _ := path.Match(pattern, kept); !fits {
				continue
			}
			what := document.Quote(kept)
			if pattern != kept {
				what = document.Quote(pattern) + " is " + what + " too, which"
			}
			n.Get("remove_at_boot").Fault("%s cannot be removed at boot; take it out", what)
			break
		}
	}
}

// KindCalled is what people call a kind, which is named "" if it is the section gateway.
func KindCalled(kind string) string { return cmp.Or(kind, service.DefaultKind) }

// anyCommand is the command of a kind each of whose profiles has one of its own.
const anyCommand = "any"

// KindNames are the kinds as people call them, in order.
func (g *Gateway) KindNames() []string {
	names := []string{}
	for name := range g.Kinds {
		names = append(names, KindCalled(name))
	}
	slices.Sort(names)
	return names
}

// KindNamed is the kind that a person, or a profile.yaml, means by a name; "" is the
// default. nil: there is none.
func (g *Gateway) KindNamed(name string) *Kind {
	if name == service.DefaultKind {
		name = ""
	}
	return g.Kinds[name]
}

// NoKind says that there is no kind of a name, and which there are.
func (g *Gateway) NoKind(name string) string {
	names := g.KindNames()
	if name == "" || name == service.DefaultKind {
		return "no kind is named, and there is no default, for the section gateway has no command; the kinds here are " + strings.Join(names, ", ")
	}
	text := "no kind " + document.Quote(name)
	if near := document.DidYouMean(name, names); near != "" {
		return text + near
	}
	return text + "; the kinds here are " + strings.Join(names, ", ")
}

// Section is where a kind stands in rlminit.yaml.
func (k *Kind) Section() string {
	if k.Name == "" {
		return "gateway"
	}
	return "gateways." + k.Name
}

// PortsOf is the range that profiles of a kind get their ports from; Low 0: they get none.
func (g *Gateway) PortsOf(k *Kind) Range {
	if k == nil || k.Name == "" || !k.Has("ports") {
		return g.Ports
	}
	return k.ports
}

// Allows tells whether a profile may be of a kind.
func (k *Kind) Allows(profile string) bool {
	return k.Profiles == nil || slices.ContainsFunc(k.Profiles, func(pattern string) bool {
		fits, _ := path.Match(pattern, profile)
		return fits
	})
}

// Has tells whether the section has a key.
func (k *Kind) Has(key string) bool { return !k.node.Get(key).Absent() }

// own are the keys that only a kind has.
func (k *Kind) own() document.Fields {
	return document.Fields{
		"template":      document.Path(&k.Template),
		"initial_state": document.OneOf(&k.InitialState, service.Running, service.Stopped),
		"profiles":      profilePatterns(&k.Profiles),
		"ports":         numbers(&k.ports, 1, 65535),
	}
}

// own are the keys that only the section gateway has: they hold for all kinds.
func (g *Gateway) own() document.Fields {
	return document.Fields{
		"marker":         fileName(&g.Marker),
		"state_file":     fileName(&g.StateFile),
		"import_state":   optional(fileName(&g.ImportState)),
		"found_state":    document.OneOf(&g.FoundState, service.Running, service.Stopped),
		"remove_at_boot": relativePaths(&g.RemoveAtBoot),
		"user":           document.OneOf(&g.User, autoUser),
		"groups":         g.groups,
	}
}

// Says is a section's definition for any profile, made for two of them
// to be compared: but for the users of profiles, which need a new container. nil: there
// is none.
func (g *Gateway) Says(c *Config) []any {
	if g == nil {
		return nil
	}
	own := *g
	own.defaultNode, own.User, own.Groups, own.Kinds = document.Node{}, "", nil, nil
	says := append([]any{own}, g.says(c, "")...)
	if g.HasDefault && g.Kinds[""] != nil {
		d, _ := c.GatewayDefinition(Profile{Name: DefaultProfile, Dir: c.Home, Port: g.Ports.Low})
		says = append(says, string(service.Encode(d)))
	}
	return says
}

// KindsSay is Says of the kinds beside the section gateway, in the order of their names.
func (g *Gateway) KindsSay(c *Config) (all []any) {
	if g == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(g.Kinds)) {
		if name != "" {
			all = append(all, g.says(c, name)...)
		}
	}
	return all
}

// says is what one kind comes to.
func (g *Gateway) says(c *Config, kind string) []any {
	if g.Kinds[kind] == nil {
		return nil
	}
	k := *g.Kinds[kind]
	k.ports, k.node = g.PortsOf(&k), document.Node{}
	d, _ := c.GatewayDefinition(g.sample(c, kind)) // without a fault: it was read
	return []any{k, string(service.Encode(d))}
}

// Samples are the definitions of a made-up profile of each kind, by section. Of one with a
// fault there is none.
func (g *Gateway) Samples(c *Config) map[string]*service.Definition {
	all := map[string]*service.Definition{}
	for name, k := range g.Kinds {
		if d, faults := c.GatewayDefinition(g.sample(c, name)); len(faults) == 0 {
			all[k.Section()] = d
		}
	}
	return all
}

// sample is a profile for a first look at the definition of a kind.
func (g *Gateway) sample(c *Config, kind string) Profile {
	return Profile{Name: "sample", Kind: kind, Dir: ProfileDir(c.Home, "sample"), Port: g.PortsOf(g.Kinds[kind]).Low}
}

// GatewayDefinition is the definition of a profile's gateway, before its
// profile.yaml. The working directory is the profile's unless the kind names
// another. Gateway must not be nil.
func (c *Config) GatewayDefinition(p Profile) (*service.Definition, Faults) {
	g := c.Gateway
	k := g.KindNamed(p.Kind)
	d := service.Default(service.GatewayPrefix + p.Name)
	d.Profile, d.Kind, d.Port = p.Name, p.Kind, p.Port
	if k == nil {
		d.WorkingDir = p.Dir
		return d, Faults{{Field: service.KindKey, Service: d.Name, Text: g.NoKind(p.Kind)}}
	}
	d.Kind = k.Name
	if c.endsWith(d.Name) {
		d.Restart.Policy = service.RestartOnFailure
	}
	lookup := c.env.With(p.variables(c.Home))
	n, reading := k.node.With(lookup, d.Name)
	k.fields(d).ReadRefusing(n, k.refused())
	found := reading.Found()
	if p.Name == DefaultProfile && g.HasDefault {
		over, reading := g.defaultNode.With(lookup, d.Name)
		service.Over(reading, nil)
		readUnprivileged(d.Fields(), over)
		found = append(found, reading.Found()...)
	}
	n, reading = n.With(lookup, d.Name)
	d.Check(n)
	c.checkPlaces(n, d.Isolation)
	if d.Sandbox.Capabilities != nil || !d.Sandbox.NoNewPrivs {
		n.Get("sandbox").Fault("gateways run without privilege, for profiles may change what they run; take it out")
	}
	if d.WorkingDir == "" {
		d.WorkingDir = p.Dir
	}
	return d, append(found, reading.Found()...)
}

// fields are the keys of a kind, which are read into d but for those that are no part of
// a definition.
func (k *Kind) fields(d *service.Definition) document.Fields {
	fields := d.Fields()
	delete(fields, "group")
	command := fields["command"]
	fields["command"] = func(n document.Node) {
		if n.Describes() {
			word := ""
			document.OneOf(&word, anyCommand)(n)
		}
		if !k.AnyCommand {
			command(n)
		}
	}
	for key, set := range new(Kind).own() {
		fields[key] = document.Described(set)
	}
	if k.Name != "" {
		delete(fields, "user")
		delete(fields, "groups")
		return fields
	}
	for key, set := range new(Gateway).own() {
		fields[key] = document.Described(set)
	}
	fields["default"] = document.Described(func(n document.Node) {
		over := service.Default(DefaultProfile)
		readUnprivileged(over.Fields(), n)
	})
	return fields
}

// refused are the keys that a kind may not have, with why.
func (k *Kind) refused() map[string]string {
	refused := map[string]string{"group": "a profile's group is its user's; take it out, or name others in groups"}
	if k.Name == "" {
		return refused
	}
	for key := range new(Gateway).own() {
		refused[key] = "holds for all kinds; it belongs in gateway"
	}
	refused["default"] = refused["user"]
	return refused
}

// readUnprivileged refuses privileges that the default profile's gateway cannot be given: tier
// 1 holds privileges under a name and for one command, and profiles have neither
// fixed.
func readUnprivileged(fields document.Fields, n document.Node) {
	refused := map[string]string{}
	for _, key := range []string{"user", "group", "groups"} {
		delete(fields, key)
		refused[key] = "every gateway runs as the configured user; take it out"
	}
	fields.ReadRefusing(n, refused)
}

// ProfileDefinition is the definition of a profile's gateway with its
// profile.yaml, which may be empty, and names its kind. file is what its faults call it.
// Of the container's variables the file may use those that gateways inherit: it must
// not be a way to the others.
func (c *Config) ProfileDefinition(p Profile, file string, data []byte) (*service.Definition, Faults) {
	doc, _ := document.Parse(file, data)
	n, reading := doc.Read(p.inherited(c))
	d, faults := c.ownDefinition(p, n, reading, nil)
	if len(faults) > 0 {
		return d, faults
	}
	return d, reading.Faults()
}

// DeclaredDefinition is ProfileDefinition for a future profile.yaml, which
// is a mapping in a declared set, beside keys that are the set's own. A profile that is
// not there yet is judged with the first port of its kind's range, if that has one.
func (c *Config) DeclaredDefinition(p Profile, n document.Node, others []string) (*service.Definition, Faults) {
	if p.Dir == "" {
		kind := ""
		if key := n.Get(service.KindKey); key.IsScalar() && c.Gateway.KindNamed(key.Raw()) != nil {
			kind = c.Gateway.KindNamed(key.Raw()).Name
		}
		sample := c.Gateway.sample(c, kind)
		p.Dir, p.Port = path.Join(path.Dir(sample.Dir), p.Name), sample.Port
	}
	n, reading := n.With(p.inherited(c), "")
	d, faults := c.ownDefinition(p, n, reading, others)
	if len(faults) > 0 {
		return d, faults
	}
	return d, reading.Found()
}

// ownDefinition is the definition of the kind that n names, as n changes it. faults are
// those of the kind; those of n are its reading's.
func (c *Config) ownDefinition(p Profile, n document.Node, reading *document.Reading, others []string) (d *service.Definition, faults Faults) {
	key := n.Get(service.KindKey)
	if p.Kind = ""; !key.Absent() {
		document.Word(&p.Kind)(key)
	}
	at := key
	if key.Absent() {
		at = n.At(service.KindKey)
	}
	k := c.Gateway.KindNamed(p.Kind)
	base, faults := c.GatewayDefinition(p)
	switch {
	case k == nil:
		at.Fault("%s", c.Gateway.NoKind(p.Kind))
		return base, nil
	case len(faults) > 0:
		return base, faults
	case !k.Allows(p.Name):
		at.Fault("%s is not for this profile: %s.profiles allows %s", document.Quote(KindCalled(p.Kind)), k.Section(), strings.Join(k.Profiles, ", "))
	}
	d = service.OverrideAt(base, n, reading, others)
	for name, services := range map[string][]string{"requires": d.Requires, "wants": d.Wants, "after": d.After} {
		if v := n.Get(name); !v.Absent() {
			checkNames(c.Services, v, services)
		}
	}
	return d, nil
}

// checkNames refuses names of services that the configuration does not have, and that
// are no profile's.
func checkNames(known map[string]*service.Definition, n document.Node, services []string) {
	for _, name := range services {
		if _, there := known[name]; there || strings.HasPrefix(name, service.GatewayPrefix) {
			continue
		}
		near := document.DidYouMean(name, slices.Sorted(maps.Keys(known)))
		if near == "" {
			near = "; the gateway of a profile is " + service.GatewayPrefix + "NAME"
		}
		n.Fault("no service %s%s", document.Quote(name), near)
	}
}

// KindIn is the kind that a profile.yaml names; "": the default, or the file has a fault.
func KindIn(data []byte) (kind string) {
	if !bytes.Contains(data, []byte(service.KindKey)) {
		return ""
	}
	doc, _ := document.Parse("profile.yaml", data)
	n, _ := doc.Read(nil)
	if key := n.Get(service.KindKey); key.IsScalar() && key.Raw() != service.DefaultKind {
		kind = key.Raw()
	}
	return kind
}

// inherited are the variables that a profile's definition may be expanded with.
func (p Profile) inherited(c *Config) Lookup {
	inherited := Lookup(func(name string) (string, bool) {
		if !c.Inherits(name) {
			return "", false
		}
		return c.env(name)
	})
	return inherited.With(p.variables(c.Home))
}

// profilePatterns reads patterns of profiles' names, at least one.
func profilePatterns(p *[]string) document.Setter {
	return func(n document.Node) {
		if items, ok := n.Items(); ok && len(items) == 0 && !n.Describes() {
			n.Fault(`is empty; write the names of profiles, which may be patterns, such as [team-*]`)
			return
		}
		patternsOfNames(p)(n)
	}
}

// patternsOfNames reads names, which may be patterns of path.Match.
func patternsOfNames(p *[]string) document.Setter {
	return document.List(p, func(item document.Node) (string, bool) {
		s, good := item.Text()
		if _, err := path.Match(s, ""); good && (err != nil || s == "") {
			item.Fault("%s is no pattern; write a name, or one such as team-*", document.Quote(s))
			good = false
		}
		return s, good
	})
}

// fileName reads the name of a file, without a directory.
func fileName(p *string) document.Setter {
	return func(n document.Node) {
		switch s, ok := n.Text(); {
		case ok && (s == "" || s == "." || s == ".." || strings.Contains(s, "/") || len(s) > 255):
			n.Fault("%s is no file name; write a name without /", document.Quote(s))
		case ok:
			*p = s
		}
	}
}

// optional lets "" stand for nothing.
func optional(set document.Setter) document.Setter {
	return func(n document.Node) {
		if !n.IsScalar() || n.Raw() != "" {
			set(n)
		}
	}
}

// relativePaths reads paths, or patterns of them, below a directory that is not
// known yet.
func relativePaths(p *[]string) document.Setter {
	return document.List(p, func(item document.Node) (clean string, good bool) {
		s, good := item.Text()
		if clean = path.Clean(s); good && (clean == "." || !filepath.IsLocal(s)) {
			item.Fault("%s is no path below the profile's directory; write a name such as gateway.pid", document.Quote(s))
			good = false
		}
		for part := range strings.SplitSeq(s, "/") {
			if _, err := path.Match(part, ""); err != nil {
				item.Fault("%s is no pattern; write one such as *.pid or run/[a-z]*.lock", document.Quote(s))
				return clean, false
			}
		}
		return clean, good
	})
}
