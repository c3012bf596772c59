package config

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/internal/document"
	"rlminit/service"
)

// Parse understands a bundle. env gives the container's variables. Every fault of
// every file is found; where there is one, the Config is not to be used.
func Parse(b Bundle, env Lookup) (*Config, Faults) {
	p := newParser(b, env)
	if len(b.Files) == 0 {
		return p.config, Faults{{File: path.Base(b.Path), Line: 1, Text: "version is missing; write version: 1"}}
	}
	p.top(b.Files[0])
	for _, f := range b.Files[1:] {
		p.serviceFile(f)
	}
	for _, section := range p.sections {
		section()
	}
	p.checkSet()
	p.ownUser()
	p.faults.Sort()
	return p.config, p.faults
}

// ParseTop is Parse without services, of a bundle without a fault: for callers that
// need none of them. It takes no time for each.
func ParseTop(b Bundle, env Lookup) (*Config, Faults) {
	if len(b.Files) == 0 {
		return Parse(b, env)
	}
	p := newParser(b, env)
	p.top(File{Name: b.Files[0].Name, Data: withoutLines(b.Files[0].Data, b.Services)})
	return p.config, p.faults
}

// withoutLines is a text whose lines in a block are empty.
func withoutLines(text []byte, block document.Block) []byte {
	if block.First == 0 {
		return text
	}
	lines := bytes.SplitAfter(text, []byte{'\n'})
	empty := bytes.Repeat([]byte{'\n'}, int(block.Last-block.First)+1)
	return slices.Concat(bytes.Join(lines[:block.First-1], nil), empty, bytes.Join(lines[block.Last:], nil))
}

// newParser is a parser with every default.
func newParser(b Bundle, env Lookup) *parser {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	p := &parser{
		config: &Config{
			Path: b.Path, Home: DefaultHome, StopTimeout: DefaultStopTimeout, Profiles: true,
			InheritEnv: []string{"*"}, Tags: Range{50000, 59999}, ProfileUsers: profileUsers, Jobs: defaultJobs(), Services: map[string]*service.Definition{}, plain: map[string]bool{},
			Main: Main{Definition: *service.Default("main")}, env: env,
		},
		bundle: b, env: env, declared: map[string]declaration{},
	}
	p.config.Main.Restart.Policy = service.RestartNo
	p.config.made = b
	p.config.made.Own = nil
	p.lookup = env
	return p
}

// parser collects what Parse finds.
type parser struct {
	config   *Config
	bundle   Bundle
	env      Lookup
	lookup   Lookup // env and RLMINIT_HOME
	faults   Faults
	declared map[string]declaration
	sections []func() // add the services that sections make, once all others are known
	fleetAt  string   // fleet.listen

	kinds      bool // there is a section gateways
	beforePUID bool // what remap names counts more than PUID and PGID
}

// declaration is where a service stands.
type declaration struct {
	node   document.Node
	prefix string // of its fields: "services." or ""
}

// top reads rlminit.yaml. The home comes first, for all else may name it.
func (p *parser) top(f File) {
	c := p.config
	doc, malformed := document.Parse(f.Name, f.Data)
	n, reading := doc.Read(p.env)
	p.home(n)
	p.lookup = p.env.With(map[string]string{"RLMINIT_HOME": c.Home})

	found := reading.Found()
	n, reading = n.With(p.lookup, "")
	readAll := "none"
	p.kinds = !n.Get("gateways").Absent()
	p.fields(&readAll).Read(n)
	c.ReadAll = readAll == "all"
	if n.Get("version").Absent() && (n.IsMapping() || n.Absent() && len(malformed) == 0) {
		n.Fault("version is missing; write version: 1")
	}
	p.faults = append(p.faults, found...)
	p.faults = append(p.faults, reading.Faults()...)
	c.made.lines, c.made.Services = linesOf(n, document.Lines(f.Data))
	p.overrides()
}

// fields are the keys of rlminit.yaml.
func (p *parser) fields(readAll *string) document.Fields {
	c := p.config
	version := 0
	return document.Fields{
		"version":         document.Int(&version, 1, 1),
		"user":            service.User(&c.User),
		"supervisor_user": service.User(&c.Supervisor),
		"home":            document.Described(document.Path(new(string))), // read before all else
		"stop_timeout":    document.Duration(&c.StopTimeout, time.Millisecond),
		"strict":          document.Bool(&c.Strict),
		"parent_death":    document.Optional(parentDeath(&c.ParentDeath)),
		"warn_on_reap":    document.Bool(&c.WarnOnReap),
		"verbose":         document.Int(&c.Verbose, 0, MostVerbose),
		"inherit_env":     globs(&c.InheritEnv),
		"environment":     service.Environment(&c.Environment),
		"env_file":        service.EnvFiles(&c.EnvFile),
		"access":          document.Fields{"read": document.OneOf(readAll, "all", "none")}.Read,
		"apply":           applying(&c.Apply),
		"tags":            numbers(&c.Tags, 1, service.MaxID),
		"profile_users":   numbers(&c.ProfileUsers, 1, service.MaxID),
		"groups_of":       document.Each(&c.GroupsOf, document.Path),
		"metrics":         document.Fields{"listen": service.Listen(&c.Metrics, "tcp", "tcp4", "tcp6", "unix")}.Read,
		"jobs": document.Fields{
			"at_once":     document.Int(&c.Jobs.AtOnce, 1, 1000),
			"per_profile": document.Int(&c.Jobs.PerProfile, 1, 1000),
			"queue":       document.Int(&c.Jobs.Queue, 0, 10000),
			"limits":      service.ReadLimits(&c.Jobs.Limits),
			"guards": document.Fields{
				"memory":          c.Jobs.Guards.read("memory", &c.Jobs.Guards.Memory, 1, 100),
				"memory_pressure": c.Jobs.Guards.read("memory_pressure", &c.Jobs.Guards.MemoryPressure, 1, 100),
				"cpu_pressure":    c.Jobs.Guards.read("cpu_pressure", &c.Jobs.Guards.CPUPressure, 1, 100),
				"pids":            c.Jobs.Guards.read("pids", &c.Jobs.Guards.PIDs, 1, 100),
				"zombies":         c.Jobs.Guards.read("zombies", &c.Jobs.Guards.Zombies, 0, 100000),
			}.Read,
		}.Read,
		"page":     p.page,
		"fleet":    p.fleet,
		"hooks":    p.hooks,
		"main":     p.main,
		"gateway":  p.gateway,
		"gateways": p.gateways,
		"services": p.services,
		"remap":    p.remap,
		"own":      p.own,
		"dirs":     p.dirs,
		"seed":     p.seed,
		"boot":     p.boot,
	}
}

// read reads a guard, and notes that the configuration names it.
func (g *Guards) read(name string, into *int, least, most int) document.Setter {
	value := document.Int(into, least, most)
	return func(n document.Node) {
		if !n.Absent() && !n.Describes() && !slices.Contains(g.Named, name) {
			g.Named = append(g.Named, name)
		}
		value(n)
	}
}

// fault is one that is in no file.
func (p *parser) fault(field, format string, args ...any) {
	p.faults = append(p.faults, Fault{Field: field, Text: fmt.Sprintf(format, args...)})
}

// setting is the value of a flag, or of an RLMINIT_* variable, and what to call
// it. An empty variable is as good as none.
func (p *parser) setting(name string) (value, called string, ok bool) {
	if v, ok := p.bundle.Flags[name]; ok {
		return v, "--" + strings.ReplaceAll(name, "_", "-"), true
	}
	called = "RLMINIT_" + strings.ToUpper(name)
	if v, ok := p.env(called); ok && v != "" {
		return v, called, true
	}
	return "", "", false
}

func (p *parser) home(n document.Node) {
	c := p.config
	home := n.Get("home")
	refuse := home.Fault
	if !home.Absent() {
		document.Path(&c.Home)(home)
	}
	if v, called, ok := p.setting("home"); ok {
		refuse = func(format string, args ...any) { p.fault(called, format, args...) }
		if !path.IsAbs(v) {
			refuse("%s is no absolute path; write %s", document.Quote(v), document.Absolute(v))
			return
		}
		c.Home = path.Clean(v)
	}
	if c.Home == "/" {
		c.Home = DefaultHome
		refuse("the root directory cannot be the volume; write /data")
	}
}

// overrides puts flags and variables over the file's values.
func (p *parser) overrides() {
	c := p.config
	if v, called, ok := p.setting("stop_timeout"); ok {
		d, err := document.ParseDuration(v)
		switch {
		case err != nil:
			p.fault(called, "%s %v", document.Quote(v), err)
		case d < time.Millisecond:
			p.fault(called, "%s is too short; write 1ms or more", document.Quote(v))
		default:
			c.StopTimeout = d
		}
	}
	if v, called, ok := p.setting("user"); ok {
		name, group, pair := strings.Cut(v, ":")
		if service.CheckAccount(name) != "" || pair && service.CheckAccount(group) != "" {
			p.fault(called, "%s is no user; write a name, a uid or uid:gid", document.Quote(v))
		} else {
			c.User = v
		}
	}
	for name, target := range map[string]*bool{
		"profiles": &c.Profiles, "strict": &c.Strict, "warn_on_reap": &c.WarnOnReap, "signal_group": &c.Main.SignalGroup,
	} {
		if v, called, ok := p.setting(name); ok {
			b, good := document.ParseBool(v)
			if !good {
				p.fault(called, "%s is refused; write on or off", document.Quote(v))
				continue
			}
			*target = b
		}
	}
	p.initOverrides()
	p.remapVariables()
}

// services reads the mapping of static services.
func (p *parser) services(n document.Node) {
	n.Each(func(key, value document.Node) {
		p.service(key, value, key.Key(), "services.")
	})
}

// serviceFile reads one file of services.d, whose name is the service's.
func (p *parser) serviceFile(f File) {
	doc, _ := document.Parse(f.Name, f.Data)
	n, reading := doc.Read(p.lookup)
	name := serviceName(f)
	p.service(n, n, name, "")
	p.faults = append(p.faults, reading.Faults()...)
}

// service reads one static service; faults of its name stand at key.
func (p *parser) service(key, n document.Node, name, prefix string) {
	switch first, twice := p.declared[name]; {
	case service.CheckName(name) != "":
		key.Fault("the name %s %s", document.Quote(name), service.CheckName(name))
	case strings.HasPrefix(name, service.GatewayPrefix):
		key.Fault("the name %s is refused: names that begin with %s are those of profiles", document.Quote(name), service.GatewayPrefix)
	case twice && !n.Describes():
		key.Fault("service %s is defined twice; the first is at %s:%d", document.Quote(name), first.node.File(), first.node.Line())
		return
	}
	p.declared[name] = declaration{n, prefix}
	d := service.Default(name)
	d.Fields().Read(n)
	p.config.plain[name] = d.Restart.Policy == ""
	d.Check(n)
	p.config.checkPlaces(n, d.Isolation)
	p.config.Services[name] = d
}

// anyGateway, with the name of a kind, stands for the gateways of that kind in the set of
// services; no service can have such a name.
const anyGateway = "\x00" + service.GatewayPrefix

// checkSet judges the services together, and finds the line of each fault.
func (p *parser) checkSet() {
	set := maps.Clone(p.config.Services)
	if g := p.config.Gateway; g != nil {
		for name, k := range g.Kinds {
			stands := anyGateway + name
			d := service.Default(stands)
			n, _ := k.node.With(p.lookup.With(g.sample(p.config, name).variables(p.config.Home)), "")
			fields := d.Fields()
			for _, key := range []string{"requires", "wants", "after"} {
				if v := n.Get(key); !v.Absent() {
					fields[key](v) // its own faults are known already
				}
			}
			set[stands] = d
			p.declared[stands] = declaration{k.node, k.Section()}
		}
	}
	for _, f := range service.CheckSet(set) {
		p.faults = append(p.faults, p.place(f))
	}
	p.checkNamed("exit_on", p.config.Main.ExitOn)
	for _, r := range p.config.Main.Routes {
		if r.Args != nil || r.Program { // the fault that stands at it is enough
			p.checkNamed("routes", r.Start)
		}
	}
}

// checkNamed judges a name of a service or profile in main. Which profiles there
// are only the volume knows, but for the default one.
func (p *parser) checkNamed(key, name string) {
	c := p.config
	if _, ok := c.Services[name]; ok || name == "" {
		return
	}
	text := "no service " + document.Quote(name) + document.DidYouMean(name, slices.Sorted(maps.Keys(p.config.Services)))
	profile, isGateway := strings.CutPrefix(name, service.GatewayPrefix)
	switch {
	case c.Gateway == nil || key == "exit_on" && !isGateway && profile != "default":
	case profile != "default" || c.Gateway.HasDefault:
		return
	default:
		text = `no profile "default"; add default: {} to gateway`
	}
	at := p.declared["main"].node.Get(key)
	p.faults = append(p.faults, Fault{File: at.File(), Line: at.Line(), Field: at.Field(), Text: text})
}

// ownUser lets a definition that names the configured user be as one that names
// none: it needs nothing of tier 1.
func (p *parser) ownUser() {
	c := p.config
	for _, d := range c.Services {
		if d.User == c.User {
			d.User = ""
		}
	}
	if c.Main.User == c.User {
		c.Main.User = ""
	}
}

// place gives a fault of the set its file, line and field.
func (p *parser) place(f Fault) Fault {
	d := p.declared[f.Service]
	_, key, _ := strings.Cut(f.Field, ".")
	at := d.node
	if v := d.node.Get(key); !v.Absent() {
		at = v
	}
	f.File, f.Line = d.node.File(), max(at.Line(), 1)
	switch {
	case strings.HasPrefix(f.Service, anyGateway):
		f.Field, f.Service = d.prefix+"."+key, ""
	case d.prefix != "":
		f.Field = d.prefix + f.Field
	default:
		f.Field = key
	}
	return f
}

// globs reads inherit_env.
func globs(p *[]string) document.Setter {
	return func(n document.Node) {
		var list []string
		document.Strings(&list)(n)
		if n.IsList() {
			*p = list
		}
		for _, pattern := range list {
			if strings.Contains(pattern, "=") || pattern == "!" {
				n.Fault("%s is no pattern; write the names of variables, such as LANG, APP_* or !SECRET_*", document.Quote(pattern))
			}
		}
	}
}

// numbers reads a range: 9200-9799, or one number.
func numbers(p *Range, low, high int) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		if s == "off" || s == "none" {
			*p = Range{}
			return
		}
		first, last, pair := strings.Cut(s, "-")
		if !pair {
			last = first
		}
		a, errA := strconv.Atoi(strings.TrimSpace(first))
		b, errB := strconv.Atoi(strings.TrimSpace(last))
		switch {
		case errA != nil || errB != nil || a < low || b > high:
			n.Fault("%s is no range; write two numbers from %d to %d, such as %d-%d", document.Quote(s), low, high, p.Low, p.High)
		case a > b:
			n.Fault("%s ends before it begins; write %d-%d", document.Quote(s), b, a)
		default:
			*p = Range{a, b}
		}
	}
}
