package config

import (
	"maps"
	"path"
	"slices"
	"strings"

	"rlminit/internal/document"
	"rlminit/isolate"
	"rlminit/job"
	"rlminit/service"
	"rlminit/wire"
)

// What rlminit keeps on the volume, by the first name below it. Nothing of it is
// ever allowed an isolated service.
var kept = []string{".rlminit", ".rlminit.lock", "logs", "state", "trash"}

// profilesName is the directory of the profiles on the volume.
const profilesName = "profiles"

// checkPlaces refuses a path that would take in what isolation is to hide.
func (c *Config) checkPlaces(n document.Node, i service.Isolation) {
	for key, list := range map[string][]string{"read": i.Read, "write": i.Write, "exec": i.Exec} {
		for _, place := range list {
			if hides := takesIn(c.Home, place); hides != "" {
				at := n.Get("isolation").Get(key)
				if at.Absent() {
					at = n.Get("isolation")
				}
				at.Fault("%s holds %s, which isolation is to hide; name what is needed in it", document.Quote(place), hides)
			}
		}
	}
}

// takesIn tells what of rlminit's, or of other profiles on the volume at home, a path
// is, or holds; "" for nothing.
func takesIn(home, place string) string {
	hidden := map[string]string{path.Join(home, profilesName): "all profiles", "/run/rlminit": "the runtime directory"}
	for _, name := range kept {
		hidden[path.Join(home, name)] = "what rlminit keeps"
	}
	for _, dir := range slices.Sorted(maps.Keys(hidden)) {
		what := hidden[dir]
		if place == dir || strings.HasPrefix(dir, place+"/") || what != "all profiles" && strings.HasPrefix(place, dir+"/") {
			return what
		}
	}
	return ""
}

// isolation fills in the input of tier 1's own ruleset, and notes the levels that are asked for
// and that this place cannot enforce whole.
func (k *compiler) isolation(p *wire.Policy) {
	c := k.config
	all := map[string]service.Isolation{}
	for name, d := range c.Services {
		all[name] = d.Isolation
	}
	if g := c.Gateway; g != nil {
		for section, d := range g.Samples(c) {
			all[section] = d.Isolation
		}
		if g.HasDefault {
			p.Unenclosed = service.GatewayPrefix + DefaultProfile
		}
	}
	// Also where nothing is isolated yet: a job, or a profile's own file, may ask
	// for it at any time.
	p.Enclosed = len(all) > 0
	if !p.Enclosed {
		return
	}
	p.Opened = []string{path.Join(c.Home, profilesName), path.Join(c.Home, job.SessionsDir)}
	strictest := isolate.None
	for _, name := range slices.Sorted(maps.Keys(all)) {
		i := all[name]
		if i.Level.Above(strictest) {
			strictest = i.Level
		}
		for _, place := range slices.Concat(i.Read, i.Write, i.Exec) {
			rest, below := strings.CutPrefix(place, c.Home+"/")
			first, _, _ := strings.Cut(rest, "/")
			if open := path.Join(c.Home, first); below && !slices.Contains(kept, first) && !slices.Contains(p.Opened, open) {
				p.Opened = append(p.Opened, open)
			}
		}
	}
	for _, line := range k.host.Isolation.Lacks(strictest) {
		k.note("isolation: %s", line)
	}
}
