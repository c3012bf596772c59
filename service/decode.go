package service

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
)

// Fault and Faults are the errors of a definition.
type (
	Fault  = document.Fault
	Faults = document.Faults
)

// Lookup gives the value of a variable for expansions, and whether it is set.
type Lookup = document.Lookup

// MaxSize is the longest service.yaml, in bytes. It is longer than a file that a
// person writes may be, for everything in it is expanded.
const MaxSize = 4 << 20

// GatewayPrefix begins the name of a profile's service.
const GatewayPrefix = "gateway-"

// Default is a definition with every default and no command. Which exits are
// followed by a restart is for Check to fill in, which knows the type.
func Default(name string) *Definition {
	return &Definition{
		Name:    name,
		Umask:   0o022,
		Type:    Daemon,
		Enabled: true,
		Restart: Restart{
			Delay: 100 * time.Millisecond, Factor: 2, MaxDelay: 30 * time.Second, Jitter: 0.1,
			ResetAfter: 10 * time.Second, Limit: 8, Window: time.Minute, RetryFailed: 10 * time.Minute,
		},
		Exits:   Exits{Success: []int{0}, Fatal: []int{78}, Restart: []int{75}},
		Stop:    Stop{Signal: unix.SIGTERM, Timeout: 5 * time.Second, Kill: KillGroup},
		Log:     Log{File: true, MaxSize: 1_000_000, MaxFiles: 10, Tee: TeeAuto, Timestamps: true},
		Sandbox: Sandbox{NoNewPrivs: true},
	}
}

// Decode reads a service.yaml: the definition of the service name, with its
// profile and port. file is its name in the faults.
func Decode(file, name string, data []byte, lookup Lookup) (*Definition, Faults) {
	doc, _ := document.ParseUpTo(MaxSize, file, data)
	top, reading := doc.Read(lookup)
	d := Default(name)
	if fault := CheckName(name); fault != "" {
		top.Fault("the service's name %s %s", document.Quote(name), fault)
	}
	fields := d.Fields()
	fields["profile"] = profileName(&d.Profile)
	fields["port"] = document.Int(&d.Port, 1, 65535)
	fields["kind"] = document.Word(&d.Kind)
	fields["secrets_version"] = document.Int(&d.SecretsVersion, 1, 1<<31)
	fields.Read(top)
	d.Check(top)
	return d, reading.Faults()
}

// Read reads a definition that is a mapping in a larger file, over what d
// holds already, and checks the whole.
func (d *Definition) Read(n document.Node) {
	d.Fields().Read(n)
	d.Check(n)
}

// Fields are the keys of a service in configuration. Each is read into d, over
// what is there. Check judges the whole.
func (d *Definition) Fields() document.Fields {
	return document.Fields{
		"command":     argv(&d.Command),
		"user":        user(&d.User),
		"group":       account(&d.Group),
		"groups":      accounts(&d.Groups),
		"working_dir": document.Path(&d.WorkingDir),
		"umask":       umask(&d.Umask),
		"environment": environment(&d.Environment),
		"env_file":    EnvFiles(&d.EnvFile),
		"type":        document.OneOf(&d.Type, Daemon, Oneshot),
		"enabled":     document.Bool(&d.Enabled),
		"schedule":    readSchedule(&d.Schedule),
		"schedules":   schedules(&d.Schedules),
		"control":     control(&d.Control),
		"requires":    serviceNames(&d.Requires),
		"wants":       serviceNames(&d.Wants),
		"after":       serviceNames(&d.After),
		"restart":     restart(&d.Restart),
		"exits":       exits(&d.Exits),
		"ready":       ready(&d.Ready),
		"health":      health(&d.Health),
		"watchdog":    document.Duration(&d.Watchdog, 0),
		"deadline":    document.OneOf(&d.Deadline, DeadlineRequired),
		"stop":        stop(&d.Stop),
		"sockets":     sockets(&d.Sockets),
		"log":         log(&d.Log),
		"limits":      ReadLimits(&d.Limits),
		"sandbox":     sandbox(&d.Sandbox),
		"isolation":   isolation(&d.Isolation),
		"secrets":     secrets(&d.Secrets),
	}
}

// Check fills in and reports what no single field can know. n is the mapping that d was read
// from.
func (d *Definition) Check(n document.Node) {
	if len(d.Command) == 0 && n.Get("command").Absent() {
		n.Fault("command is missing; write command: [prog, arg]")
	}
	switch {
	case d.Restart.Policy == "":
		// What is wanted runs, whatever code it ended with: a gateway that took a
		// stray TERM well is as gone as one that crashed.
		d.Restart.Policy = RestartAlways
		if d.Type == Oneshot {
			d.Restart.Policy = RestartOnFailure
		}
	case d.Type == Oneshot && d.Restart.Policy == RestartAlways:
		at(n, "restart").Fault("always would run a oneshot for ever; write on-failure or no")
	}
	if d.Type == Oneshot && d.Deadline != "" {
		at(n, "deadline").Fault("a oneshot ends by itself; give it to a daemon, or take it out")
	}
	d.checkIsolation(n)
	d.checkSchedule(n)
	for i, s := range d.Sockets {
		if s.Name == "" {
			d.Sockets[i].Name = d.Name
		}
	}
	for field, names := range map[string][]string{"requires": d.Requires, "wants": d.Wants, "after": d.After} {
		if slices.Contains(names, d.Name) {
			at(n, field).Fault("a service cannot depend on itself; take %s out", document.Quote(d.Name))
		}
	}
}

// at is the place of a key, or, where the key is not there, its mapping under
// that name.
func at(n document.Node, key string) document.Node {
	if v := n.Get(key); !v.Absent() {
		return v
	}
	if n.Field() == "" {
		return n.At(key)
	}
	return n.At(n.Field() + "." + key)
}

// shell finds what only a shell would make sense of.
const shell = "|&;<>()*?'\"`\\\n"

// argv reads a command. A string is refused, for it would need a shell's rules.
func argv(p *[]string) document.Setter {
	return func(n document.Node) {
		if n.IsScalar() {
			raw := n.Raw()
			switch {
			case strings.TrimSpace(raw) == "":
				n.Fault("is empty; write [prog, arg]")
			case strings.ContainsAny(raw, shell):
				n.Fault("%s is a string; write [sh, -c, %s]", document.Quote(raw), document.Quote(raw))
			default:
				n.Fault("%s is a string; write [%s]", document.Quote(raw), strings.Join(strings.Fields(raw), ", "))
			}
			return
		}
		items, ok := n.Items()
		if ok && len(items) == 0 {
			n.Fault("is empty; write [prog, arg]")
			return
		}
		list := make([]string, len(items))
		for i, item := range items {
			s, good := item.Text()
			if good && i == 0 && s == "" {
				item.Fault("the program's name is empty; write [prog, arg]")
				good = false
			}
			list[i], ok = s, ok && good
		}
		if ok {
			*p = list
		}
	}
}

var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`) })

// CheckName names the fault of the name of a service (with or without
// "gateway-" before it), as the end of a sentence; "" if nothing is.
func CheckName(name string) string {
	if namePattern().MatchString(strings.TrimPrefix(name, GatewayPrefix)) {
		return ""
	}
	return "is refused; write 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit"
}

// Reserved names mean something else on the command line.
func Reserved(name string) bool {
	return name == "default" || name == "main" || name == "all"
}

func profileName(p *string) document.Setter {
	return func(n document.Node) {
		if s, ok := n.Text(); ok && s != "" {
			if !namePattern().MatchString(s) {
				n.Fault("%s %s", document.Quote(s), CheckName(s))
				return
			}
			*p = s
		}
	}
}

func serviceNames(p *[]string) document.Setter {
	return func(n document.Node) {
		items, ok := n.Items()
		var names []string
		for _, item := range items {
			s, good := item.Text()
			if good {
				if fault := CheckName(s); fault != "" {
					item.Fault("%s %s", document.Quote(s), fault)
					good = false
				}
			}
			ok = ok && good
			if !slices.Contains(names, s) {
				names = append(names, s)
			}
		}
		if ok {
			*p = names
		}
	}
}

// environment reads variables over those that are there.
func environment(p *map[string]Value) document.Setter {
	return func(n document.Node) {
		if n.IsList() {
			n.Fault("is a list; write a mapping, NAME: value")
			return
		}
		values := maps.Clone(*p)
		n.Each(func(key, n document.Node) {
			name := key.Key()
			if fault := CheckVariable(name); fault != "" {
				key.Fault("%s", fault)
				return
			}
			v, ok := value(n)
			if ok && len(name)+1+len(v.Text) > document.MaxString {
				n.Fault("has %d bytes with its name; the kernel takes %d in one string", len(name)+1+len(v.Text), document.MaxString)
				return
			}
			if ok {
				if values == nil {
					values = map[string]Value{}
				}
				values[name] = v
			}
		})
		*p = values
	}
}

// Environment reads a mapping of variables, over those that are there.
func Environment(p *map[string]Value) document.Setter { return environment(p) }

// CheckVariable says why a service cannot be given a variable of that name; "" if
// it can.
func CheckVariable(name string) string {
	switch {
	case name == "":
		return "a variable has no name; write NAME: value"
	case strings.ContainsAny(name, "=\x00"):
		return `a variable's name cannot hold "=" or NUL`
	case strings.ContainsAny(name, " \t\r\n"):
		return "a variable's name cannot hold a space"
	case '0' <= name[0] && name[0] <= '9':
		return "begins with a digit, and no shell takes such a variable; use another name"
	case len(name) > 255:
		return "a variable's name has at most 255 bytes"
	case Supervised(name):
		return "is set by rlminit itself; take it out"
	}
	return ""
}

// Supervised is true for the variables of sd_notify(3), sd_listen_fds(3) and
// sd_watchdog_enabled(3), which only the supervisor sets.
func Supervised(name string) bool {
	return name == "NOTIFY_SOCKET" || strings.HasPrefix(name, "LISTEN_") || strings.HasPrefix(name, "WATCHDOG_")
}

func value(n document.Node) (Value, bool) {
	if !n.IsMapping() {
		text, ok := n.Text()
		return Value{Text: text}, ok
	}
	var v Value
	document.Fields{"file": document.Path(&v.File)}.Read(n)
	n.Needs("file", "a value, or {file: /run/secrets/name}")
	return v, v.File != ""
}

// EnvFiles reads a list of paths; a leading ? makes one optional.
func EnvFiles(p *[]string) document.Setter {
	return document.List(p, func(item document.Node) (string, bool) {
		s, good := item.Text()
		if name := strings.TrimPrefix(s, "?"); good && !strings.HasPrefix(name, "/") {
			mark := strings.TrimSuffix(s, name)
			item.Fault("%s is no absolute path; write one, such as %s${RLMINIT_HOME}%s on the volume", document.Quote(s), mark, document.Absolute(name))
			good = false
		}
		return s, good
	})
}
