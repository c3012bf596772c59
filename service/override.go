package service

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/internal/document"
)

// own are the keys that a profile's own file may set, beside limits and isolation, which
// it may only narrow: the effect of `none` for one, which switches off the kind's value. nil:
// it cannot be switched off. docs/configuration.md has the same table.
//
// A gateway can write that file, so it grants nothing: it has no key for a user or a
// privilege. Files of env_file are read with the rights of the profile's user.
var own = map[string]func(d, plain *Definition){
	"command":     nil,
	"environment": func(d, _ *Definition) { d.Environment = nil },
	"env_file":    func(d, _ *Definition) { d.EnvFile = nil },
	"requires":    func(d, _ *Definition) { d.Requires = nil },
	"wants":       func(d, _ *Definition) { d.Wants = nil },
	"after":       func(d, _ *Definition) { d.After = nil },
	"ready":       func(d, _ *Definition) { d.Ready = nil },
	"health":      func(d, _ *Definition) { d.Health = nil },
	"schedules":   func(d, _ *Definition) { d.Schedules = nil },
	"restart":     func(d, _ *Definition) { d.Restart.Policy = RestartNo },
	"stop":        func(d, plain *Definition) { d.Stop = plain.Stop },
	"log":         func(d, plain *Definition) { d.Log = d.Log.without(plain.Log) },
}

// OwnText is what d says of the keys that a profile's own file may have, as it can stand
// there.
func OwnText(d *Definition) string {
	var text strings.Builder
	may := false
	for line := range strings.Lines(string(Encode(d))) {
		if key, _, _ := strings.Cut(line, ":"); line[0] != ' ' {
			_, may = own[key]
			may = may || key == "limits" || key == "isolation"
		}
		if may {
			text.WriteString(line)
		}
	}
	return text.String()
}

// without is l as if the kind said nothing of it, but for what only root may say.
func (l Log) without(plain Log) Log {
	plain.Redact, plain.Forward = l.Redact, l.Forward
	return plain
}

// KindKey is the key of a profile.yaml that names the profile's kind.
const KindKey = "kind"

// DefaultKind is the kind of a profile that names none: the section gateway.
const DefaultKind = "default"

// Override is base as a profile.yaml changes it. Variables and schedules are set over
// those of base; in restart, ready, health, stop and log other keys stay; lists
// and command take the place of base's; isolation only gets closer, and limits only go
// down. An empty file changes nothing.
//
// lookup must give only variables of the gateway's own environment.
func Override(base *Definition, file string, data []byte, lookup Lookup) (*Definition, Faults) {
	doc, _ := document.Parse(file, data)
	n, reading := doc.Read(lookup)
	d := OverrideAt(base, n, reading, nil)
	return d, reading.Faults()
}

// OverrideAt is Override where what a profile.yaml would say stands at n, of a reading,
// beside keys that are others' than a definition's.
func OverrideAt(base *Definition, n document.Node, reading *document.Reading, others []string) *Definition {
	Over(reading, others)
	d := new(*base)
	fields, refused := overrides(d, others)
	fields.ReadRefusing(n, refused)
	d.Check(n)
	return d
}

// Over has a pass read a definition that counts over another one, where null and {} are
// faults. An environment may be empty: that is one without the variables it has had. So
// may the keys that are others' than a definition's.
func Over(r *document.Reading, others []string) {
	instead := map[string]string{}
	for key, off := range own {
		if off != nil {
			instead[key] = "none to switch off what the kind says"
		}
	}
	instead["environment"] = ""
	instead["ready"] += `, another probe, such as {tcp: "127.0.0.1:${PORT}"}`
	instead["health"] += ", another probe"
	instead["restart"] = `"no", on-failure or always`
	for _, key := range others {
		instead[key] = ""
	}
	r.Over(instead)
}

// isNone is true for the word that switches off a kind's value.
func isNone(n document.Node) bool { return !n.Describes() && n.IsScalar() && n.Raw() == "none" }

// OverrideFields are the keys of a profile.yaml.
func OverrideFields() document.Fields {
	d := Default("profile")
	fields, _ := overrides(d, nil)
	return fields
}

// overrides are the keys that a profile may set in d, and those that it may not,
// with why.
func overrides(d *Definition, others []string) (document.Fields, map[string]string) {
	all := d.Fields()
	fields := document.Fields{"limits": lower(&d.Limits), "isolation": narrow(&d.Isolation)}
	fields[KindKey] = document.Word(new(string)) // it was read before, for base is of that kind
	for _, name := range others {
		fields[name] = func(document.Node) {}
	}
	refused := map[string]string{}
	all["log"], all["stop"] = profileLog(&d.Log), profileStop(&d.Stop)
	for name, set := range all {
		off, may := own[name]
		switch {
		case may && off == nil:
			fields[name] = func(n document.Node) {
				if isNone(n) {
					n.Fault("is none, and a gateway needs one; take it out for the kind's")
					return
				}
				set(n)
			}
		case may:
			fields[name] = orNone(set, func() { off(d, Default(d.Name)) })
		case name != "limits" && name != "isolation" && !slices.Contains(others, name):
			refused[name] = "a profile may not set it; it belongs in rlminit.yaml"
		}
	}
	return fields, refused
}

// orNone is set, or off for `none`.
func orNone(set document.Setter, off func()) document.Setter {
	return func(n document.Node) {
		if isNone(n) {
			off()
			return
		}
		if n.Describes() {
			word := ""
			document.OneOf(&word, "none")(n)
		}
		set(n)
	}
}

// longestStop is how long a profile may have its gateway take to stop, where its kind does
// not say more: a service that depends on it, or its deletion, waits for that.
const longestStop = time.Minute

// profileStop reads a profile's stop.
func profileStop(p *Stop) document.Setter {
	return func(n document.Node) {
		next, most := *p, max(p.Timeout, longestStop)
		stop(&next)(n)
		if next.Timeout > most {
			at(n, "timeout").Fault("%s is above %s, which is the most that a profile may ask for", next.Timeout, most)
			return
		}
		*p = next
	}
}

// lower reads limits, each at most the present one.
func lower(p *Limits) document.Setter {
	return func(n document.Node) {
		base := *p
		next := base
		ReadLimits(&next)(n)
		above := func(key, now, most string) {
			at(n, key).Fault("%s is above %s; a profile may only lower limits", now, most)
		}
		for number, was := range base.Rlimits {
			v := next.Rlimits[number]
			if v.Hard > was.Hard {
				above(RlimitName(number), limitText(v.Hard), limitText(was.Hard))
			} else if v.Soft > was.Soft {
				above(RlimitName(number), limitText(v.Soft), limitText(was.Soft))
			}
		}
		if base.Memory != 0 && next.Memory > base.Memory {
			above("memory", strconv.FormatInt(next.Memory, 10), strconv.FormatInt(base.Memory, 10))
		}
		if base.Pids != 0 && next.Pids > base.Pids {
			above("pids", strconv.FormatInt(next.Pids, 10), strconv.FormatInt(base.Pids, 10))
		}
		if base.CPU != 0 && next.CPU > base.CPU {
			above("cpu", number(next.CPU), number(base.CPU))
		}
		*p = next
	}
}
