package service

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"rlminit/internal/document"
	"rlminit/isolate"
)

// Isolation says what stands between a service and the others.
type Isolation struct {
	Level             isolate.Level  // "" is isolate.None
	Read, Write, Exec []string       // absolute paths, beyond what every service of the level may use
	Connect, Bind     *isolate.Ports // TCP ports; nil: any of profile, and of strict none but the profile's own
}

// Wanted tells whether there is to be any.
func (i Isolation) Wanted() bool { return i.Level.Above(isolate.None) }

// Ports are the lists in force, for a service whose own port is given, 0 for
// none.
func (i Isolation) Ports(own int) (connect, bind isolate.Ports) {
	listed := func(list *isolate.Ports) isolate.Ports {
		switch {
		case list != nil:
			return *list
		case i.Level == isolate.Strict:
			return isolate.Ports{}
		}
		return isolate.Ports{Any: true}
	}
	connect, bind = listed(i.Connect), listed(i.Bind)
	if !bind.Any && own != 0 {
		bind.Ranges = append(slices.Clone(bind.Ranges), isolate.Range{Low: own, High: own})
	}
	return connect, bind
}

// isolation reads a level, or a mapping over the present value. A list replaces that
// of before.
func isolation(p *Isolation) document.Setter {
	return func(n document.Node) {
		level := func(n document.Node) {
			document.OneOf(&p.Level, isolate.None, isolate.Profile, isolate.Strict)(n)
			if p.Level == isolate.None {
				p.Level = ""
			}
		}
		if !n.IsMapping() {
			level(n)
			return
		}
		document.Fields{
			"level":   level,
			"read":    places(&p.Read),
			"write":   places(&p.Write),
			"exec":    places(&p.Exec),
			"connect": ports(&p.Connect),
			"bind":    ports(&p.Bind),
		}.Read(n)
		if !p.Wanted() && (len(p.Read)+len(p.Write)+len(p.Exec) > 0 || p.Connect != nil || p.Bind != nil) {
			at(n, "level").Fault("the lists have no effect without a level; write level: profile, or strict")
		}
	}
}

// places reads absolute paths. A wildcard would be taken for a name.
func places(p *[]string) document.Setter {
	return func(n document.Node) {
		items, ok := n.Items()
		list := []string{}
		for _, item := range items {
			var place string
			document.Path(&place)(item)
			switch {
			case place == "":
				ok = false
			case place == "/":
				item.Fault("/ contains everything that isolation hides; name what is needed in it")
				ok = false
			case strings.ContainsAny(place, "*?"):
				item.Fault("%s is a pattern, and patterns are not supported here; name a directory, which includes all that is in it", document.Quote(place))
				ok = false
			case !slices.Contains(list, place):
				list = append(list, place)
			}
		}
		if ok {
			slices.Sort(list)
			*p = nilIfEmpty(list)
		}
	}
}

// ports reads any, or a list of ports and ranges.
func ports(p **isolate.Ports) document.Setter {
	return func(n document.Node) {
		if n.IsScalar() && strings.EqualFold(n.Raw(), "any") {
			*p = &isolate.Ports{Any: true}
			return
		}
		items, ok := n.Items()
		list := &isolate.Ports{}
		for _, item := range items {
			r, good := portRange(item)
			ok = ok && good
			list.Ranges = append(list.Ranges, r)
		}
		if !ok {
			return
		}
		if count := list.Count(); count > isolate.MaxPorts {
			n.Fault("names %d ports, and the kernel takes a rule for each; name up to %d, or write any", count, isolate.MaxPorts)
			return
		}
		*p = list
	}
}

// portRange reads 80, or 9000-9010.
func portRange(n document.Node) (r isolate.Range, ok bool) {
	s, ok := n.Text()
	if !ok {
		return r, false
	}
	first, last, pair := strings.Cut(s, "-")
	if !pair {
		last = first
	}
	low, err := strconv.ParseUint(strings.TrimSpace(first), 10, 16)
	high, err2 := strconv.ParseUint(strings.TrimSpace(last), 10, 16)
	switch {
	case err != nil || err2 != nil:
		n.Fault("%s is no port; write a number up to 65535, or a range such as 9000-9010", document.Quote(s))
		return r, false
	case low > high:
		n.Fault("%s begins above its end; write %d-%d", document.Quote(s), high, low)
		return r, false
	}
	return isolate.Range{Low: int(low), High: int(high)}, true
}

// narrow reads the isolation of a profile's own file, which may take away and
// nothing else.
func narrow(p *Isolation) document.Setter {
	return func(n document.Node) {
		base := *p
		next := base
		isolation(&next)(n)
		*p = next
		if base.Level.Above(next.Level) {
			at(n, "level").Fault("%s is below the gateway's %s; a profile may only be isolated more", levelName(next.Level), base.Level)
		}
		if !base.Wanted() {
			return // whatever it lists is less than all
		}
		for _, list := range []struct {
			key         string
			base, wants []string
		}{{"read", slices.Concat(base.Read, base.Write), next.Read}, {"write", base.Write, next.Write}, {"exec", base.Exec, next.Exec}} {
			for _, place := range list.wants {
				if !slices.ContainsFunc(list.base, func(b string) bool { return beneath(place, b) }) {
					at(n, list.key).Fault("%s is more than the gateway has; a profile may only leave out, or name what is below %s",
						document.Quote(place), orNothing(list.base))
				}
			}
		}
		wasConnect, wasBind := base.Ports(0)
		connect, bind := next.Ports(0)
		for _, list := range []struct {
			key       string
			was, want isolate.Ports
		}{{"connect", wasConnect, connect}, {"bind", wasBind, bind}} {
			if !list.want.Within(list.was) {
				at(n, list.key).Fault("names ports that the gateway does not have; a profile may only leave out")
			}
		}
	}
}

// beneath tells whether a path is another one or lies below it.
func beneath(p, dir string) bool {
	return p == dir || strings.HasPrefix(path.Clean(p), dir+"/")
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "what is listed there, which is nothing"
	}
	return strings.Join(list, ", ")
}

func levelName(l isolate.Level) isolate.Level {
	if l == "" {
		return isolate.None
	}
	return l
}

// checkIsolation reports what isolation and privilege have against each other.
func (d *Definition) checkIsolation(n document.Node) {
	if d.Isolation.Wanted() && !d.Sandbox.NoNewPrivs {
		at(n, "isolation").Fault("%s needs no_new_privs, and sandbox.no_new_privs is false: a process that may gain privileges cannot be held; take one of the two out",
			d.Isolation.Level)
	}
}

// secrets reads NAME: {file: PATH}, over the present ones.
func secrets(p *map[string]string) document.Setter {
	return func(n document.Node) {
		if n.IsList() {
			n.Fault("is a list; write a mapping, NAME: {file: /run/secrets/name}")
			return
		}
		values := map[string]string{}
		for name, file := range *p {
			values[name] = file
		}
		n.Each(func(key, n document.Node) {
			name := key.Key()
			if fault := CheckSecret(name); fault != "" {
				key.Fault("%s %s", document.Quote(name), fault)
				return
			}
			if !n.IsMapping() {
				n.Fault("is no mapping; write {file: /run/secrets/name}, for a value here could be read by anybody")
				return
			}
			var file string
			document.Fields{"file": document.Path(&file)}.Read(n)
			if n.Get("file").Absent() {
				n.Fault("file is missing; write {file: /run/secrets/name}")
				return
			}
			if file != "" {
				values[name] = file
			}
		})
		if len(values) > MaxSecrets {
			n.Fault("has %d secrets; a service can have %d", len(values), MaxSecrets)
			return
		}
		if len(values) > 0 {
			*p = values
		}
	}
}

// MaxSecrets is the most secrets that a service can have, and MaxSecret the
// longest one, in bytes.
const (
	MaxSecrets = 256
	MaxSecret  = 1 << 20
)

// CheckSecret says why a secret cannot have a name, which is that of its file, as
// the end of a sentence; "" if it can.
func CheckSecret(name string) string {
	fits := name != "" && len(name) <= 128 && name[0] != '.' && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.')
	})
	if fits {
		return ""
	}
	return "is no name for a secret; write 1 to 128 of A-Z, a-z, 0-9, _, - and ., not beginning with a dot"
}
