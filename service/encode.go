package service

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rlminit/internal/document"
	"rlminit/isolate"
)

// Encode writes a definition as a service.yaml that Decode reads back as it
// was. Everything is resolved: each field is there, and a $ is escaped.
func Encode(d *Definition) []byte {
	e := &encoder{}
	e.word(d.Profile != "", "profile", text(d.Profile))
	e.word(d.Kind != "", "kind", text(d.Kind))
	e.word(d.Port != 0, "port", strconv.Itoa(d.Port))
	e.word(d.SecretsVersion != 0, "secrets_version", strconv.Itoa(d.SecretsVersion))
	e.word(true, "command", list(d.Command))
	e.word(d.User != "", "user", text(d.User))
	e.word(d.Group != "", "group", text(d.Group))
	e.word(true, "groups", list(d.Groups))
	e.word(d.WorkingDir != "", "working_dir", text(d.WorkingDir))
	e.word(true, "umask", fmt.Sprintf(`"%03o"`, d.Umask))
	e.environment(d.Environment)
	e.word(true, "env_file", list(d.EnvFile))
	e.word(true, "type", string(d.Type))
	e.word(true, "enabled", strconv.FormatBool(d.Enabled))
	e.schedule(d.Schedule)
	e.schedules(d.Schedules)
	e.word(true, "control", cmp.Or(string(d.Control), "false"))
	e.word(true, "requires", list(d.Requires))
	e.word(true, "wants", list(d.Wants))
	e.word(true, "after", list(d.After))
	e.lifecycle(d)
	e.sockets(d.Sockets)
	e.surroundings(d)
	return []byte(e.out.String())
}

func (e *encoder) schedule(s *Schedule) {
	if s == nil {
		return
	}
	e.nested("schedule", func() { e.recurs(*s) })
}

func (e *encoder) recurs(s Schedule) {
	e.word(true, "cron", text(s.Cron))
	e.word(s.Timezone != "", "timezone", text(s.Timezone))
	e.word(true, "catch_up", string(s.CatchUp))
	e.word(true, "overlap", string(s.Overlap))
	e.word(true, "jitter", s.Jitter.String())
	e.word(true, "timeout", s.Timeout.String())
}

func (e *encoder) schedules(all map[string]Recurring) {
	if len(all) == 0 {
		return
	}
	e.nested("schedules", func() {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			e.nested(quoted(name), func() {
				e.word(true, "command", list(all[name].Command))
				e.recurs(all[name].Schedule)
			})
		}
	})
}

// lifecycle is when a service is ready, well and over, and what follows.
func (e *encoder) lifecycle(d *Definition) {
	e.restart(d.Restart)
	e.nested("exits", func() {
		e.word(true, "success", codes(d.Exits.Success))
		e.word(true, "fatal", codes(d.Exits.Fatal))
		e.word(true, "restart", codes(d.Exits.Restart))
	})
	if d.Ready != nil {
		e.nested("ready", func() { e.probe(*d.Ready) })
	}
	if h := d.Health; h != nil {
		e.nested("health", func() {
			e.probe(h.Probe)
			e.word(true, "interval", h.Interval.String())
			e.word(true, "retries", strconv.Itoa(h.Retries))
			e.word(true, "start_period", h.StartPeriod.String())
			e.word(true, "action", string(h.Action))
		})
	}
	e.word(true, "watchdog", d.Watchdog.String())
	e.word(d.Deadline != "", "deadline", string(d.Deadline))
	e.nested("stop", func() {
		e.word(true, "signal", SignalName(d.Stop.Signal))
		e.word(true, "timeout", d.Stop.Timeout.String())
		e.word(true, "kill", string(d.Stop.Kill))
	})
}

// surroundings are the log, limits, walls and secrets of a service.
func (e *encoder) surroundings(d *Definition) {
	e.nested("log", func() {
		e.word(true, "file", strconv.FormatBool(d.Log.File))
		e.word(true, "max_size", strconv.FormatInt(d.Log.MaxSize, 10))
		e.word(true, "max_age", d.Log.MaxAge.String())
		e.word(true, "max_files", strconv.Itoa(d.Log.MaxFiles))
		e.word(true, "compress", strconv.FormatBool(d.Log.Compress))
		e.word(true, "tee", string(d.Log.Tee))
		e.word(true, "timestamps", strconv.FormatBool(d.Log.Timestamps))
		e.word(true, "redact", list(d.Log.Redact))
		if f := d.Log.Forward; f != nil {
			e.word(true, "forward", "{to: "+text(f.To)+", format: "+string(f.Format)+"}")
		}
	})
	e.limits(d.Limits)
	e.nested("sandbox", func() {
		e.word(true, "capabilities", list(d.Sandbox.Capabilities))
		e.word(true, "no_new_privs", strconv.FormatBool(d.Sandbox.NoNewPrivs))
	})
	if i := d.Isolation; i.Wanted() {
		e.nested("isolation", func() {
			e.word(true, "level", string(i.Level))
			e.word(true, "read", list(i.Read))
			e.word(true, "write", list(i.Write))
			e.word(true, "exec", list(i.Exec))
			e.ports("connect", i.Connect)
			e.ports("bind", i.Bind)
		})
	}
	if len(d.Secrets) > 0 {
		e.nested("secrets", func() {
			for _, name := range slices.Sorted(maps.Keys(d.Secrets)) {
				e.word(true, quoted(name), "{file: "+text(d.Secrets[name])+"}")
			}
		})
	}
}

// encoder writes block mappings whose leaves are on one line each.
type encoder struct {
	out    strings.Builder
	indent string
}

func (e *encoder) word(present bool, key, value string) {
	if present {
		e.out.WriteString(e.indent + key + ": " + value + "\n")
	}
}

func (e *encoder) nested(key string, f func()) {
	e.out.WriteString(e.indent + key + ":\n")
	outer := e.indent
	e.indent += "  "
	f()
	e.indent = outer
}

func (e *encoder) environment(values map[string]Value) {
	if len(values) == 0 {
		return
	}
	e.nested("environment", func() {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			v := text(values[name].Text)
			if values[name].File != "" {
				v = "{file: " + text(values[name].File) + "}"
			}
			e.word(true, quoted(name), v)
		}
	})
}

func (e *encoder) restart(r Restart) {
	e.nested("restart", func() {
		e.word(true, "policy", string(r.Policy))
		e.word(true, "delay", r.Delay.String())
		e.word(true, "factor", number(r.Factor))
		e.word(true, "max_delay", r.MaxDelay.String())
		e.word(true, "jitter", number(r.Jitter))
		e.word(true, "reset_after", r.ResetAfter.String())
		e.word(true, "limit", strconv.Itoa(r.Limit))
		e.word(true, "window", r.Window.String())
		e.word(true, "retry_failed", r.RetryFailed.String())
	})
}

func (e *encoder) probe(p Probe) {
	e.word(p.Notify, "notify", "true")
	e.word(p.TCP != "", "tcp", text(p.TCP))
	e.word(p.HTTP != "", "http", text(p.HTTP))
	e.word(len(p.Exec) > 0, "exec", list(p.Exec))
	e.word(true, "timeout", p.Timeout.String())
}

func (e *encoder) sockets(sockets []Socket) {
	if len(sockets) == 0 {
		return
	}
	e.nested("sockets", func() {
		for _, s := range sockets {
			fmt.Fprintf(&e.out, "%s- {listen: %s, name: %s}\n", e.indent, text(s.Network+":"+s.Address), text(s.Name))
		}
	})
}

func (e *encoder) limits(l Limits) {
	if len(l.Rlimits) == 0 && l.Memory == 0 && l.Pids == 0 && l.CPU == 0 {
		return
	}
	e.nested("limits", func() {
		for _, n := range slices.Sorted(maps.Keys(l.Rlimits)) {
			v := l.Rlimits[n]
			e.word(true, RlimitName(n), fmt.Sprintf("{soft: %s, hard: %s}", limitText(v.Soft), limitText(v.Hard)))
		}
		e.word(l.Memory != 0, "memory", strconv.FormatInt(l.Memory, 10))
		e.word(l.Pids != 0, "pids", strconv.FormatInt(l.Pids, 10))
		e.word(l.CPU != 0, "cpu", number(l.CPU))
	})
}

func (e *encoder) ports(key string, p *isolate.Ports) {
	switch {
	case p == nil:
	case p.Any:
		e.word(true, key, "any")
	default:
		var words []string
		for _, r := range p.Ranges {
			words = append(words, fmt.Sprintf("%d-%d", r.Low, r.High))
		}
		e.word(true, key, "["+strings.Join(words, ", ")+"]")
	}
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func codes(list []int) string {
	words := make([]string, len(list))
	for i, c := range list {
		words[i] = strconv.Itoa(c)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func list(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = text(w)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// text is a string in double quotes that no expansion touches.
func text(s string) string { return quoted(document.Escape(s)) }

// quoted is a YAML double-quoted scalar on one line.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r >= ' ' && r < 0x7f, r >= 0xa1 && r < 0x2000, r >= 0x2070 && r < 0xd800, r >= 0xe000 && r < 0xfe00:
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default: // control characters, line separators, byte order marks
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
