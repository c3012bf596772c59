package config

import (
	"maps"
	"slices"
	"strings"

	"rlminit/internal/document"
	"rlminit/service"
	"rlminit/wire"
)

// Route says what becomes of certain arguments.
type Route struct {
	Args        []string // the first arguments; empty: there are none
	Program     bool     // in place of Args: the first argument is a program, which is run as it stands
	UnlessArg   string   // not if this argument is among them
	UnlessEnv   string   // not if this variable is set, and no "false"
	Start       string   // a service, or a profile, to start
	Wait        bool     // in place of the main command, wait for the started services; without any, for a stop
	ProfilesOff bool     // without profiles
	Alone       bool     // without profiles, and no service is started
}

// Run is what Resolve decided.
type Run struct {
	Argv     []string // of the main command; nil for none
	Start    string   // what to start beside what runs anyway
	Wait     bool     // the container lives as long as Start does
	Profiles bool
	Alone    bool // no service runs beside Argv
}

// LivesWith is the service or profile that ends the container, where
// main.exit_on names it; "": there is none.
func (r Run) LivesWith(exitOn string) string {
	switch {
	case r.Alone:
		return ""
	case r.Wait && r.Start != "":
		return r.Start
	}
	return exitOn
}

// MainService is the name under which a supervised main command runs.
const MainService = wire.MainService

// Supervised tells whether the main command is a service, which is started
// again: main.restart.
func (m *Main) Supervised() bool { return m.Restart.Policy != service.RestartNo }

// Carry brings the meaning of the arguments into force. A configuration that c is a
// copy of keeps its services, which are shared as long as none is another one here.
func (c *Config) Carry(r Run) {
	own := false
	put := func(name string, d *service.Definition) {
		if !own {
			c.Services, own = maps.Clone(c.Services), true
		}
		c.Services[name] = d
	}
	c.Profiles = c.Profiles && r.Profiles
	if r.Alone {
		for name, d := range c.Services {
			changed := new(*d)
			changed.Enabled = false
			put(name, changed)
		}
	}
	if c.Main.Supervised() && len(r.Argv) > 0 {
		d := c.Main.Definition
		d.Name, d.Command = MainService, slices.Clone(r.Argv)
		put(MainService, &d)
	}
	c.livesWith = r.LivesWith(c.Main.ExitOn)
	for name, d := range c.Services {
		if c.plain[name] && c.endsWith(name) {
			changed := new(*d)
			changed.Restart.Policy = service.RestartOnFailure
			put(name, changed)
		}
	}
}

// endsWith tells whether the container ends when the service has, which so must
// be able to: with success, it stays exited.
func (c *Config) endsWith(name string) bool {
	return c.livesWith != "" && (name == c.livesWith || name == service.GatewayPrefix+c.livesWith && c.Services[c.livesWith] == nil)
}

// main reads the section.
func (p *parser) main(n document.Node) {
	m := &p.config.Main
	p.declared["main"] = declaration{n, ""}
	all := m.Fields()
	fields := document.Fields{
		"user":         document.Optional(service.User(&m.User)), // root too
		"no_new_privs": document.Bool(&m.Sandbox.NoNewPrivs),
		"subcommands":  document.Strings(&m.Subcommands),
		"routes":       routes(&m.Routes),
		"exit_on":      document.String(&m.ExitOn),
		"signal_group": document.Bool(&m.SignalGroup),
		"restart": func(n document.Node) {
			if n.IsMapping() {
				m.Restart.Policy = service.RestartOnFailure
			}
			document.Optional(all["restart"])(n)
		},
	}
	for _, key := range []string{"command", "groups", "environment", "env_file", "exits", "stop", "limits", "sandbox"} {
		fields[key] = all[key]
	}
	for _, key := range []string{"group", "working_dir", "umask"} {
		fields[key] = document.Optional(all[key])
	}
	fields.Read(n)
}

func routes(p *[]Route) document.Setter {
	return func(n document.Node) {
		items, ok := n.Items()
		var list []Route
		for _, item := range items {
			r, profiles, then := Route{}, true, "run"
			document.Fields{
				"args":    document.Strings(&r.Args),
				"program": document.Bool(&r.Program),
				"unless": document.Fields{
					"arg": document.String(&r.UnlessArg),
					"env": document.String(&r.UnlessEnv),
				}.Read,
				"start":    document.String(&r.Start),
				"then":     document.OneOf(&then, "run", "wait"),
				"profiles": document.Bool(&profiles),
				"alone":    document.Bool(&r.Alone),
			}.Read(item)
			args := item.Get("args")
			switch {
			case item.IsMapping() && args.Absent() && !r.Program:
				item.Fault("args is missing; write args: [word] for the arguments that the route is for, [] for none, or program: true")
			case r.Program && !args.Absent():
				item.Fault("args and program: true exclude each other; take one of them out")
			case r.Program && then == "wait":
				item.Fault("then: wait runs no command, and program: true is for one; take one of them out")
			case r.Alone && (then == "wait" || r.Start != ""):
				item.Fault("alone starts nothing else, and waits for nothing; take out alone, or start and then")
			case then == "wait" && r.Start == "" && len(r.Args) > 0:
				item.Fault("then: wait has nothing to wait for; add start: NAME")
			}
			if r.Args == nil && args.IsList() {
				r.Args = []string{}
			}
			r.Wait, r.ProfilesOff = then == "wait", !profiles || r.Alone
			list = append(list, r)
		}
		if ok {
			*p = list
		}
	}
}

// Decide is Main.Resolve in a container with the given variables, whose PATH
// tells programs from other words.
func (c *Config) Decide(args []string, env Lookup) Run {
	path, ok := env("PATH")
	if !ok {
		path = wire.DefaultPath
	}
	return c.Main.Resolve(args, func(word string) bool { return Executable(word, path) }, env)
}

// Resolve decides the meaning of the arguments of `rlminit init`. executable tells
// whether a word is a program on PATH.
//
// The first route that fits decides. Without one: no arguments are
// main.command; a first argument of main.subcommands, or one that is no
// program, goes to main.command with all others; anything else is run as it
// stands.
func (m *Main) Resolve(args []string, executable func(string) bool, env Lookup) Run {
	run := Run{Profiles: true}
	for _, r := range m.Routes {
		if r.Program && !m.runsProgram(args, executable) || !r.matches(args, env) {
			continue
		}
		run.Start, run.Wait, run.Profiles, run.Alone = r.Start, r.Wait, !r.ProfilesOff, r.Alone
		if !r.Wait {
			run.Argv = m.argv(args, executable)
		}
		return run
	}
	run.Argv = m.argv(args, executable)
	return run
}

func (m *Main) argv(args []string, executable func(string) bool) []string {
	if len(args) > 0 && (len(m.Command) == 0 || m.runsProgram(args, executable)) {
		return slices.Clone(args)
	}
	return slices.Concat(m.Command, args)
}

// runsProgram tells whether the arguments are a program of their own.
func (m *Main) runsProgram(args []string, executable func(string) bool) bool {
	return len(args) > 0 && !slices.Contains(m.Subcommands, args[0]) && !strings.HasPrefix(args[0], "-") && executable(args[0])
}

func (r Route) matches(args []string, env Lookup) bool {
	switch {
	case r.Program:
	case len(r.Args) == 0 && len(args) > 0, len(args) < len(r.Args), !slices.Equal(args[:len(r.Args)], r.Args):
		return false
	}
	if r.UnlessArg != "" && slices.Contains(args, r.UnlessArg) {
		return false
	}
	if r.UnlessEnv != "" && env != nil {
		v, _ := env(r.UnlessEnv)
		off, isBool := document.ParseBool(v)
		if v != "" && (!isBool || off) {
			return false
		}
	}
	return true
}
