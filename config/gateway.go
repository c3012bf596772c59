package config

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"rlminit/internal/document"
	"rlminit/service"
)

// Profile is what the definition of a profile's gateway depends on.
type Profile struct {
	Name string
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

// gateway reads the section, and the definition of a made-up profile, so that
// its faults show at once.
func (p *parser) gateway(n document.Node) {
	c := p.config
	g := &Gateway{
		Marker: "profile.yaml", StateFile: "gateway_state.json", InitialState: service.Running, FoundState: service.Stopped,
		Ports: Range{9200, 9799}, node: n,
	}
	for key, set := range g.own() {
		if v := n.Get(key); !v.Absent() {
			set(v)
		}
	}
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
	if d := n.Get("default"); !d.Absent() {
		g.HasDefault, g.defaultNode = true, d
	}
	if len(g.Groups) > 0 && !g.OwnUsers() {
		n.Get("groups").Fault("every gateway runs as the configured user, with its groups; write user: auto beside it, or take it out")
	}
	c.Gateway = g
	_, faults := c.GatewayDefinition(g.sample(c))
	if g.HasDefault && len(faults) == 0 {
		sample := g.sample(c)
		sample.Name, sample.Dir = DefaultProfile, c.Home
		_, faults = c.GatewayDefinition(sample)
	}
	for _, f := range faults {
		f.Service = ""
		p.faults = append(p.faults, f)
	}
}

// Has tells whether the section has a key.
func (g *Gateway) Has(key string) bool { return !g.node.Get(key).Absent() }

// own are the keys that only this section has.
func (g *Gateway) own() document.Fields {
	return document.Fields{
		"marker":         fileName(&g.Marker),
		"template":       document.Path(&g.Template),
		"state_file":     fileName(&g.StateFile),
		"import_state":   optional(fileName(&g.ImportState)),
		"initial_state":  document.OneOf(&g.InitialState, service.Running, service.Stopped),
		"found_state":    document.OneOf(&g.FoundState, service.Running, service.Stopped),
		"remove_at_boot": relativePaths(&g.RemoveAtBoot),
		"ports":          numbers(&g.Ports, 1, 65535),
		"user":           document.OneOf(&g.User, autoUser),
		"groups":         g.groups,
	}
}

// Says is what the section of a configuration comes to for any profile, for two of them
// to be compared: but for the users of profiles, which need a new container. nil: there
// is none.
func (g *Gateway) Says(c *Config) []any {
	if g == nil {
		return nil
	}
	own, sample := *g, g.sample(c)
	says := []any{}
	for _, name := range []string{sample.Name, DefaultProfile} {
		sample.Name = name
		d, _ := c.GatewayDefinition(sample) // without a fault: it was read
		says = append(says, string(service.Encode(d)))
	}
	own.node, own.defaultNode, own.User, own.Groups = document.Node{}, document.Node{}, "", nil
	return append(says, own)
}

// sample is a profile for a first look at the definition.
func (g *Gateway) sample(c *Config) Profile {
	return Profile{Name: "sample", Dir: ProfileDir(c.Home, "sample"), Port: g.Ports.Low}
}

// GatewayDefinition is the definition of a profile's gateway, before its
// profile.yaml. The working directory is the profile's unless the section names
// another. Gateway must not be nil.
func (c *Config) GatewayDefinition(p Profile) (*service.Definition, Faults) {
	g := c.Gateway
	d := service.Default(service.GatewayPrefix + p.Name)
	if c.endsWith(d.Name) {
		d.Restart.Policy = service.RestartOnFailure
	}
	lookup := c.env.With(p.variables(c.Home))
	n, reading := g.node.With(lookup, d.Name)
	fields := d.Fields()
	delete(fields, "group")
	for key, set := range new(Gateway).own() {
		fields[key] = document.Described(set)
	}
	fields["default"] = document.Described(func(n document.Node) {
		over := service.Default(DefaultProfile)
		readUnprivileged(over.Fields(), n)
	})
	fields.ReadRefusing(n, map[string]string{"group": "a profile's group is its user's; take it out, or name others in groups"})
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
	d.Profile, d.Port = p.Name, p.Port
	if d.WorkingDir == "" {
		d.WorkingDir = p.Dir
	}
	return d, append(found, reading.Found()...)
}

// readUnprivileged refuses what the default profile's gateway cannot be given: tier
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
// profile.yaml, which may be empty. file is what its faults call it. Of the
// container's variables the file may use those that gateways inherit: it must
// not be a way to the others.
func (c *Config) ProfileDefinition(p Profile, file string, data []byte) (*service.Definition, Faults) {
	base, faults := c.GatewayDefinition(p)
	if len(faults) > 0 {
		return base, faults
	}
	return service.Override(base, file, data, c.inherited(p))
}

// DeclaredDefinition is ProfileDefinition where what the profile.yaml is to say
// is a mapping in a declared set, beside keys that are the set's own. The
// profile need not be there yet: without a port it is judged with one.
func (c *Config) DeclaredDefinition(p Profile, n document.Node, others []string) (*service.Definition, Faults) {
	if p.Dir == "" {
		sample := c.Gateway.sample(c)
		p.Dir, p.Port = path.Join(path.Dir(sample.Dir), p.Name), sample.Port
	}
	base, faults := c.GatewayDefinition(p)
	if len(faults) > 0 {
		return base, faults
	}
	return service.OverrideAt(base, n, c.inherited(p), others)
}

// inherited is what the definition of a profile may be expanded with.
func (c *Config) inherited(p Profile) Lookup {
	inherited := Lookup(func(name string) (string, bool) {
		if !c.Inherits(name) {
			return "", false
		}
		return c.env(name)
	})
	return inherited.With(p.variables(c.Home))
}

// fileName reads the name of a file, without a directory.
func fileName(p *string) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		if s == "" || s == "." || s == ".." || strings.Contains(s, "/") || len(s) > 255 {
			n.Fault("%s is no file name; write a name without /", document.Quote(s))
			return
		}
		*p = s
	}
}

// optional lets "" stand for nothing.
func optional(set document.Setter) document.Setter {
	return func(n document.Node) {
		if n.IsScalar() && n.Raw() == "" {
			return
		}
		set(n)
	}
}

// relativePaths reads paths, or patterns of them, below a directory that is not
// known yet.
func relativePaths(p *[]string) document.Setter {
	return document.List(p, func(item document.Node) (clean string, good bool) {
		s, good := item.Text()
		if clean = path.Clean(s); good && (s == "" || path.IsAbs(s) || clean == "." || clean == ".." || strings.HasPrefix(clean, "../")) {
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
