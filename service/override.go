package service

import (
	"maps"
	"slices"

	"rlminit/document"
)

// overridable are the fields that a profile.yaml may set, beside limits.
var overridable = []string{"environment", "command", "restart", "ready", "health", "stop", "log"}

// Override is base as a profile.yaml changes it. A gateway can write that file,
// so it grants nothing: it has no key for a user or a privilege, and limits only
// go down. Variables are set over those of base; in restart, ready, health, stop
// and log what is not named stays. An empty file changes nothing.
//
// lookup must give only what the gateway's own environment holds.
func Override(base Definition, file string, data []byte, lookup Lookup) (Definition, Faults) {
	doc, _ := document.Parse(file, data)
	n, reading := doc.Read(lookup)
	d := base
	all := d.Fields()
	fields := document.Fields{"limits": lower(&d.Limits)}
	for _, name := range overridable {
		fields[name] = all[name]
		delete(all, name)
	}
	delete(all, "limits")
	for name := range all {
		fields[name] = func(n document.Node) {
			n.Fault("a profile may not set it; it belongs in rlminit.yaml")
		}
	}
	fields.Read(n)
	d.Check(n)
	return d, reading.Faults()
}

// lower reads limits, each of which must be at most what is there.
func lower(p *Limits) document.Setter {
	return func(n document.Node) {
		base := *p
		next := base
		limits(&next)(n)
		above := func(key, now, most string) {
			n.At(sub(n, key)).Fault("%s is above %s; a profile may only lower limits", now, most)
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
			above("memory", number(float64(next.Memory)), number(float64(base.Memory)))
		}
		if base.Pids != 0 && next.Pids > base.Pids {
			above("pids", number(float64(next.Pids)), number(float64(base.Pids)))
		}
		if base.CPU != 0 && next.CPU > base.CPU {
			above("cpu", number(next.CPU), number(base.CPU))
		}
		*p = next
	}
}

// Overrides tells whether what a profile changed in base is the program or its
// environment, so that none of base's privileges may come with it.
func Overrides(base, d Definition) bool {
	return !slices.Equal(base.Command, d.Command) || !maps.Equal(base.Environment, d.Environment)
}
