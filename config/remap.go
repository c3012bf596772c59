package config

import (
	"strconv"

	"rlminit/internal/document"
)

// maxRemap is the highest uid or gid that the service user can be given; 65535
// is "none" to 16-bit callers, chown(2).
const maxRemap = 65534

// parseID reads a uid or gid for the service user: digits, 1 to 65534.
func parseID(s string) (uint32, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	id, err := strconv.ParseUint(s, 10, 32)
	return uint32(id), err == nil && 1 <= id && id <= maxRemap
}

// remap reads the variables that name a uid and gid. The first that is not empty
// counts: before PUID and PGID if that is asked for, otherwise only where those
// are not set; RLMINIT_UID and RLMINIT_GID come first in any case.
func (p *parser) remap(n document.Node) {
	ids := func(target *uint32) document.Setter {
		return func(n document.Node) {
			for _, item := range n.Elements() {
				s, ok := item.Text()
				if !ok || s == "" {
					continue
				}
				id, ok := parseID(s)
				if !ok {
					item.Fault("%s is refused; write digits from 1 to %d", document.Quote(s), maxRemap)
				} else if *target == 0 {
					*target = id
				}
			}
		}
	}
	document.Fields{
		"uid": ids(&p.config.UID), "gid": ids(&p.config.GID),
		"before_puid": document.Bool(&p.beforePUID),
	}.Read(n)
}

// remapVariables puts RLMINIT_UID over what remap names, and PUID too unless that
// counts less.
func (p *parser) remapVariables() {
	for _, r := range []struct {
		target *uint32
		names  []string
	}{
		{&p.config.UID, []string{"RLMINIT_UID", "PUID"}},
		{&p.config.GID, []string{"RLMINIT_GID", "PGID"}},
	} {
		for _, name := range r.names {
			v, ok := p.env(name)
			if !ok || v == "" {
				continue
			}
			id, ok := parseID(v)
			if !ok {
				p.fault(name, "%s is refused; write digits from 1 to %d", document.Quote(v), maxRemap)
			} else if general := name == "PUID" || name == "PGID"; !general || !p.beforePUID || *r.target == 0 {
				*r.target = id
			}
			break
		}
	}
}
