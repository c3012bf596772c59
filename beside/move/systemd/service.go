package systemd

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/beside/move"
)

// conversion is that of one unit to a service.
type conversion struct {
	r    *reader
	unit *unitFile
	to   *move.Service
}

func (c *conversion) leave(o option, reason move.Reason, why string) {
	c.r.plan.Leave(o.at, c.to, reason, o.name, why)
}

// services makes services of all units, and what units say of each other.
func (r *reader) services() {
	for _, name := range r.order {
		u := r.units[name]
		if filepath.Ext(name) == ".service" {
			r.service(u)
		}
	}
	for _, name := range r.order {
		switch u := r.units[name]; filepath.Ext(name) {
		case ".service":
		case ".socket":
			r.socket(u)
		case ".timer":
			r.timer(u)
		case ".target":
			r.plan.Leave(u.at, nil, move.NoEqual, move.Short(name), "rlminit has no targets; services that it groups are named by their names, or by a pattern of them")
		default:
			r.plan.Leave(u.at, nil, move.NoEqual, move.Short(name), "rlminit has no units of this type; the image, or the engine, does what it is for")
		}
	}
	r.relations()
	r.enable()
}

// service makes a service, or of a template a kind.
func (r *reader) service(u *unitFile) {
	c := &conversion{r: r, unit: u}
	source := strings.TrimSuffix(u.name, ".service")
	var main, before []execution
	for _, o := range u.all("Service", "ExecStart") {
		main = append(main, c.executions(o)...)
	}
	for _, o := range u.all("Service", "ExecStartPre") {
		for _, e := range c.executions(o) {
			if !e.plus { // that was named
				before = append(before, e)
			}
		}
	}
	if len(main) == 0 {
		r.plan.Leave(u.at, nil, move.Invalid, move.Short(u.name), "it is left out: it has no ExecStart")
		return
	}
	oneshot := c.unit.word("Type") == "oneshot"
	if len(main) > 1 && !oneshot {
		o, _ := u.last("Service", "ExecStart")
		c.leave(o, move.Invalid, "only a oneshot has several; the last one counts")
		main = main[len(main)-1:]
	}
	if u.template {
		c.to = r.plan.NewKind(source, u.stem, u.at)
	} else {
		c.to = r.plan.New(source, u.at)
	}
	if c.to == nil {
		return
	}
	r.made[u] = c.to
	if d, there := u.last("Unit", "Description"); there {
		c.to.Comment = append(c.to.Comment, d.value)
	}
	c.to.Keys.Set("command", command(before, main))
	c.kind()
	c.typed()
	c.surroundings()
	c.restarts()
	c.stop()
	c.sandbox()
	c.rest()
}

// kind sets what a kind has besides: systemd gives an instance no port.
func (c *conversion) kind() {
	if !c.unit.template {
		return
	}
	c.to.Keys.Set("ports", "off")
	c.to.Comment = append(c.to.Comment, "a template: each instance is a profile, rlminit profile create INSTANCE --kind "+c.to.Name)
	if o, there := c.unit.last("Install", "DefaultInstance"); there {
		c.r.plan.Leave(o.at, c.to, move.Near, "DefaultInstance", "an instance is a profile here, on the volume: rlminit profile create "+move.Short(o.value)+" --kind "+c.to.Name)
	}
}

// typed reads Type= and what says when the service is up.
func (c *conversion) typed() {
	k := &c.to.Keys
	o, _ := c.unit.last("Service", "Type")
	start := 90 * time.Second
	for _, key := range []string{"TimeoutSec", "TimeoutStartSec"} {
		if t, there := c.unit.last("Service", key); there {
			if d, ok := duration(t.value); ok && d > 0 {
				start = d
			} else {
				start = 24 * time.Hour
			}
		}
	}
	switch o.value {
	case "", "simple", "exec", "idle":
	case "oneshot":
		k.Set("type", "oneshot")
	case "notify", "notify-reload":
		k.Sub("ready").Set("notify", true).Set("timeout", move.Time(start))
	case "dbus":
		c.leave(o, move.NoEqual, "there is no bus here by which it says that it is ready; write ready: {…} with a probe")
	case "forking":
		k.Set("enabled", false)
		c.to.Comment = append(c.to.Comment, "Type=forking: not enabled, since it must stay in the foreground here")
		c.leave(o, move.NotReady, "a service must stay in the foreground here, or it counts as ended; give the program its option for that, and take enabled: false out")
	default:
		c.leave(o, move.Unknown, "import knows no such type; it is taken as simple")
	}
	if w, there := c.unit.last("Service", "WatchdogSec"); there {
		if d, ok := duration(w.value); ok && d > 0 {
			k.Set("watchdog", move.Time(d))
		}
	}
}

// surroundings are its user, directory and environment.
func (c *conversion) surroundings() {
	k := &c.to.Keys
	c.account()
	if d, there := c.unit.last("Service", "WorkingDirectory"); there {
		switch path := strings.TrimPrefix(d.value, "-"); {
		case path == "~":
		default:
			k.Set("working_dir", finish(c.specifiers(d, path)))
		}
		if strings.HasPrefix(d.value, "-") {
			c.leave(d, move.Near, "a directory that is missing makes the start fail here; make it in the image")
		}
	} else {
		k.Set("working_dir", "/")
	}
	if m, there := c.unit.last("Service", "UMask"); there {
		k.Set("umask", move.Literal(m.value))
	}
	for _, o := range c.unit.all("Service", "Environment") {
		pairs, err := split(o.value)
		if err != nil {
			c.leave(o, move.Invalid, err.Error())
		}
		for _, pair := range pairs {
			name, value, is := strings.Cut(pair, "=")
			if !is {
				c.leave(o, move.Invalid, move.Short(pair)+" is no NAME=value")
				continue
			}
			k.Sub("environment").Set(name, finish(c.specifiers(o, value)))
		}
	}
	var files []string
	for _, o := range c.unit.all("Service", "EnvironmentFile") {
		path, optional := strings.CutPrefix(o.value, "-")
		mark := ""
		if optional {
			mark = "?"
		}
		files = append(files, mark+finish(c.specifiers(o, path)))
		if k.Has("environment") {
			c.leave(o, move.Near, "under systemd the file counts for more than Environment=, and here environment counts for more; take out of environment what the file sets")
		}
		if strings.ContainsAny(path, "*?[") {
			c.leave(o, move.NoEqual, "a pattern is no path here; name the files")
		}
	}
	k.Add("env_file", files)
}

// account sets the user: never root. Profiles have theirs by the key gateway.
func (c *conversion) account() {
	k := &c.to.Keys
	user, named := c.unit.last("Service", "User")
	dynamic, isDynamic := c.unit.last("Service", "DynamicUser")
	isDynamic = isDynamic && truth(dynamic.value)
	switch {
	case c.unit.template && named:
		c.leave(user, move.NoEqual, "a kind has no user; gateway: {user: auto} gives each profile its own, else all have the container's")
	case c.unit.template:
	case isDynamic:
		c.leave(dynamic, move.NoEqual, "no user is made for a run; it runs as the container's user, or write user: with one that the image has")
	case !named || user.value == "root" || user.value == "0":
		at := user
		if !named {
			at, _ = c.unit.last("Service", "ExecStart")
			at.name = "User"
		}
		c.leave(at, move.Rights, "systemd runs it as root, and no service here is root: it runs as the container's user; give that user the files which it needs, or the rights (sandbox: {capabilities: […]})")
	default:
		k.Set("user", finish(c.specifiers(user, user.value)))
	}
	if g, there := c.unit.last("Service", "Group"); there && !c.unit.template {
		switch {
		case g.value == "root" || g.value == "0":
			c.leave(g, move.Rights, "no service here has root's group")
		case k.Has("user"):
			if g.value != k.Get("user") {
				k.Set("group", finish(c.specifiers(g, g.value)))
			}
		default:
			c.leave(g, move.Near, "it has the container's user, and that user's group; write groups: ["+move.Short(g.value)+"] if it needs this one")
		}
	}
	var groups []string
	for _, o := range c.unit.all("Service", "SupplementaryGroups") {
		for _, g := range strings.Fields(o.value) {
			groups = append(groups, finish(c.specifiers(o, g)))
		}
	}
	if c.unit.template && len(groups) > 0 {
		c.leave(c.unit.all("Service", "SupplementaryGroups")[0], move.NoEqual, "a kind has no groups; write them into gateway: {groups: […]}")
		return
	}
	k.Add("groups", groups)
}

// restarts are systemd's: after RestartSec, and not more often than StartLimitBurst within
// StartLimitIntervalSec.
func (c *conversion) restarts() {
	k := &c.to.Keys
	o, _ := c.unit.last("Service", "Restart")
	policy := "no"
	switch o.value {
	case "", "no":
	case "always":
		if policy = "always"; k.Get("type") == "oneshot" {
			policy = "on-failure"
			c.leave(o, move.Near, "a oneshot cannot be restarted for ever here; it is, after a failure")
		}
	case "on-failure":
		policy = "on-failure"
	case "on-abnormal", "on-abort", "on-watchdog":
		policy = "on-failure"
		c.leave(o, move.Near, "on-failure comes nearest: it is restarted after an exit code too")
	default:
		c.leave(o, move.NoEqual, "there is no such policy here; it is not restarted; write always or on-failure")
	}
	if policy == "no" {
		k.Set("restart", "no")
	} else {
		m := k.Sub("restart").Set("policy", policy)
		delay := c.time("RestartSec", 100*time.Millisecond)
		if d := c.time("RestartMaxDelaySec", 0); d > delay {
			m.Set("delay", move.Time(delay)).Set("max_delay", move.Time(d))
		} else {
			m.Set("delay", move.Time(delay)).Set("factor", 1)
		}
		m.Set("jitter", 0).Set("reset_after", "24h") // each restart waits, not only those after short runs
		burst, interval := c.burst()
		m.Set("limit", burst).Set("window", move.Time(interval)).Set("retry_failed", "0")
	}
	c.codes("RestartPreventExitStatus", "fatal")
	c.codes("RestartForceExitStatus", "restart")
	c.codes("SuccessExitStatus", "success")
}

// time is a time of [Service], or the default.
func (c *conversion) time(name string, def time.Duration) time.Duration {
	o, there := c.unit.last("Service", name)
	if !there {
		return def
	}
	d, ok := duration(o.value)
	if !ok {
		c.leave(o, move.Invalid, move.Short(o.value)+" is no time that import takes over; "+move.Time(def)+" holds")
		return def
	}
	return d
}

func (c *conversion) burst() (burst int, interval time.Duration) {
	burst, interval = 5, 10*time.Second
	for _, section := range []string{"Service", "Unit"} {
		if o, there := c.unit.last(section, "StartLimitBurst"); there {
			if n, err := strconv.Atoi(o.value); err == nil && n >= 0 && n <= 1_000_000 {
				burst = n
			}
		}
		for _, name := range []string{"StartLimitInterval", "StartLimitIntervalSec"} {
			if o, there := c.unit.last(section, name); there {
				interval, _ = duration(o.value)
			}
		}
	}
	if interval == 0 {
		return 0, time.Minute
	}
	return burst, interval
}

// status are codes of exit(3) and systemd.exec(5) by name.
var status = map[string]int{
	"SUCCESS": 0, "FAILURE": 1, "INVALIDARGUMENT": 2, "NOTIMPLEMENTED": 3, "NOPERMISSION": 4, "NOTINSTALLED": 5, "NOTCONFIGURED": 6, "NOTRUNNING": 7,
	"USAGE": 64, "DATAERR": 65, "NOINPUT": 66, "NOUSER": 67, "NOHOST": 68, "UNAVAILABLE": 69, "SOFTWARE": 70, "OSERR": 71, "OSFILE": 72,
	"CANTCREAT": 73, "IOERR": 74, "TEMPFAIL": 75, "PROTOCOL": 76, "NOPERM": 77, "CONFIG": 78,
}

func (c *conversion) codes(key, class string) {
	var codes []int
	for _, o := range c.unit.all("Service", key) {
		for _, w := range strings.Fields(o.value) {
			n, err := strconv.Atoi(w)
			if known, is := status[strings.TrimPrefix(w, "EX_")]; is && err != nil {
				n, err = known, nil
			}
			if err != nil || n < 0 || n > 255 {
				c.leave(o, move.NoEqual, move.Short(w)+" is no exit code that import knows; signals are in no class here")
			} else if !slices.Contains(codes, n) {
				codes = append(codes, n)
			}
		}
	}
	if len(codes) == 0 {
		return
	}
	if class == "success" && !slices.Contains(codes, 0) {
		codes = append(codes, 0)
	}
	slices.Sort(codes)
	exits := c.to.Keys.Sub("exits")
	for _, other := range exits.Keys() { // a code is in one class here: what follows from it decides
		taken, _ := exits.Get(other).([]int)
		codes = slices.DeleteFunc(codes, func(code int) bool { return slices.Contains(taken, code) })
	}
	exits.Set(class, codes)
}

// kills is a stop by kill(1).
var kills = regexp.MustCompile(`^\S*kill\s+(?:-s\s*|-)?(?:SIG)?([A-Z][A-Z0-9]*|\d+)\s+["']?\$(?:MAINPID|\{MAINPID\})["']?$`)

// stop says how the service is ended.
func (c *conversion) stop() {
	stop := c.to.Keys.Sub("stop")
	if o, there := c.unit.last("Service", "KillSignal"); there {
		stop.Set("signal", move.Literal(o.value))
	}
	for _, o := range c.unit.all("Service", "ExecStop") {
		if m := kills.FindStringSubmatch(strings.TrimLeft(o.value, "-+!:@")); m != nil {
			stop.Set("signal", m[1]).Set("kill", "main")
			continue
		}
		c.leave(o, move.NoEqual, "rlminit stops a service by a signal alone: stop: {signal: TERM}; where that is not enough, let a script of the service's own run the program and do this when it gets the signal")
	}
	timeout := 90 * time.Second
	for _, key := range []string{"TimeoutSec", "TimeoutStopSec"} {
		if o, there := c.unit.last("Service", key); there {
			if d, ok := duration(o.value); ok && d > 0 {
				timeout = d
			} else {
				timeout = time.Hour
				c.leave(o, move.Near, "no stop takes for ever here; it gets KILL after 1 h")
			}
		}
	}
	stop.Set("timeout", move.Time(timeout))
	switch o, _ := c.unit.last("Service", "KillMode"); o.value {
	case "", "control-group":
	case "mixed":
		stop.Set("kill", "main")
	case "process", "none":
		stop.Set("kill", "main")
		c.leave(o, move.Near, "rlminit ends what a service has left behind; what is to outlive it is a service of its own")
	default:
		c.leave(o, move.Unknown, "import knows no such mode; the signal goes to the whole group")
	}
}
