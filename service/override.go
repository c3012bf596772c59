package service

import (
	"slices"
	"strconv"

	"rlminit/internal/document"
)

// overridable are the fields that a profile.yaml may set as it likes; overrides has those
// of which it may say less.
var overridable = []string{"environment", "command", "restart", "ready", "health", "stop"}

// Override is base as a profile.yaml changes it. A gateway can write that file,
// so it grants nothing: it has no key for a user or a privilege, and limits only
// go down. Variables are set over those of base; in restart, ready, health, stop
// and log what is not named stays; isolation only gets closer, and of a log only more is masked. An empty file changes nothing.
//
// lookup must give only what the gateway's own environment holds.
func Override(base *Definition, file string, data []byte, lookup Lookup) (*Definition, Faults) {
	doc, _ := document.Parse(file, data)
	n, reading := doc.Read(lookup)
	Over(reading, nil)
	d := override(base, n, nil)
	return d, reading.Faults()
}

// OverrideAt is Override where what a profile.yaml would say is a mapping in
// another file, beside keys that are that file's own.
func OverrideAt(base *Definition, n document.Node, lookup Lookup, others []string) (*Definition, Faults) {
	n, reading := n.With(lookup, "")
	Over(reading, others)
	d := override(base, n, others)
	return d, reading.Found()
}

// Over has a pass read a definition that counts over another one, where null and {} are
// faults. An environment may be empty: that is one without the variables it has had. So
// may the keys that are others' than a definition's.
func Over(r *document.Reading, others []string) {
	instead := map[string]string{
		"environment": "",
		"ready":       `another probe, such as {tcp: "127.0.0.1:${PORT}"}`,
		"health":      `{action: none} to leave an unhealthy gateway as it is, or another probe`,
		"restart":     `"no", on-failure or always`,
	}
	for _, key := range others {
		instead[key] = ""
	}
	r.Over(instead)
}

func override(base *Definition, n document.Node, others []string) *Definition {
	d := new(*base)
	fields, refused := overrides(d, others)
	fields.ReadRefusing(n, refused)
	d.Check(n)
	return d
}

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
	fields := document.Fields{"limits": lower(&d.Limits), "isolation": narrow(&d.Isolation), "log": profileLog(&d.Log)}
	for _, name := range others {
		fields[name] = func(document.Node) {}
	}
	refused := map[string]string{}
	for name, set := range all {
		switch {
		case slices.Contains(overridable, name):
			fields[name] = set
		case fields[name] == nil && !slices.Contains(others, name):
			refused[name] = "a profile may not set it; it belongs in rlminit.yaml"
		}
	}
	return fields, refused
}

// lower reads limits, each of which must be at most what is there.
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
