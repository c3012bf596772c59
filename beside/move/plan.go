package move

import (
	"slices"
	"strconv"
	"time"

	"rlminit/internal/document"
)

// maxServices bounds what one import makes, and maxLeft the lines about what it could not
// take over; of more, one line says how many there are.
const (
	maxServices = 2000
	maxLeft     = 20_000
)

// Map is a mapping of the output. Its values are strings, in rlminit's own syntax (see
// Literal), bools, ints, lists of strings, or Maps. An empty list or Map, or "", is left
// out where it is set.
type Map struct {
	keys   []string
	values map[string]any
}

// Set gives a key a value.
func (m *Map) Set(key string, value any) *Map {
	if m.values == nil {
		m.values = map[string]any{}
	}
	if _, there := m.values[key]; !there {
		m.keys = append(m.keys, key)
	}
	m.values[key] = value
	return m
}

// Add is Set, unless the value is empty.
func (m *Map) Add(key string, value any) *Map {
	switch v := value.(type) {
	case string:
		if v == "" {
			return m
		}
	case []string:
		if len(v) == 0 {
			return m
		}
	case *Map:
		if v == nil || len(v.keys) == 0 {
			return m
		}
	}
	return m.Set(key, value)
}

// Get is the value of a key, nil for none.
func (m *Map) Get(key string) any { return m.values[key] }

// Has tells whether a key is set.
func (m *Map) Has(key string) bool { _, there := m.values[key]; return there }

// Sub is the mapping that a key has, which is made if there is none.
func (m *Map) Sub(key string) *Map {
	if sub, is := m.values[key].(*Map); is {
		return sub
	}
	sub := &Map{}
	m.Set(key, sub)
	return sub
}

// Drop takes a key out, and tells whether it was there.
func (m *Map) Drop(key string) bool {
	if !m.Has(key) {
		return false
	}
	delete(m.values, key)
	m.keys = slices.DeleteFunc(m.keys, func(k string) bool { return k == key })
	return true
}

// Literal is a text that rlminit must not expand: each $ is doubled.
func Literal(text string) string { return document.Escape(text) }

// Literals is Literal for each of a list.
func Literals(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = Literal(t)
	}
	return out
}

// Time is a duration as the configuration has it.
func Time(d time.Duration) string {
	if d%time.Second != 0 {
		return d.Round(time.Millisecond).String()
	}
	switch s := int64(d / time.Second); {
	case s == 0:
		return "0"
	case s%3600 == 0:
		return strconv.FormatInt(s/3600, 10) + "h"
	case s%60 == 0 && s >= 600:
		return strconv.FormatInt(s/60, 10) + "m"
	default:
		return strconv.FormatInt(s, 10) + "s"
	}
}

// Service is a service of the output, or, with Kind, a kind of gateway.
type Service struct {
	Source  string // what the source calls it: how others of the source name it
	Name    string // what the output calls it; Plan.Name gives it
	At      At
	Kind    bool
	Comment []string // lines above it, besides the one that says where it came from
	Keys    Map      // but those below

	Requires, Wants, After []string // sources; what is not in the plan is dropped, so name it before
}

// Plan is what comes of a source.
type Plan struct {
	From     string // s6, supervisord, …
	User     string // of everything that names none; "" for nobody in particular
	UserWhy  string // a comment above it
	Top      Map    // keys of the file besides user, gateways and services
	Services []*Service
	Boot     []*Service // commands before anything starts, in order; of their keys command, timeout, …

	// Shown is a path of the source as comments of the output have it; nil: as it is.
	Shown func(path string) string

	left     []Left
	more     int // of which left has no room
	names    names
	kinds    names               // kinds have names of their own
	bySource map[string]*Service // while a text is written
	gone     map[string]bool     // what Settle has taken out in this round
}

// Leave records that something was not taken over.
func (p *Plan) Leave(at At, service *Service, reason Reason, what, why string) {
	if len(p.left) >= maxLeft {
		p.more++
		return
	}
	if Short(what) == "" {
		what = "an empty name"
	}
	l := Left{File: at.File, Line: at.Line, What: what, Why: why, Reason: reason}
	if service != nil {
		l.Service = service.Name
	}
	p.left = append(p.left, l)
}

// Left is what was not taken over, by place.
func (p *Plan) Left() []Left {
	out := sorted(p.left)
	if p.more > 0 {
		out = append(out, Left{File: out[len(out)-1].File, What: "more", Why: strconv.Itoa(p.more) + " more things were left out; import the source in parts", Reason: Bound})
	}
	return out
}

// New is a service of the plan, with a name that rlminit allows. It is nil if there are
// too many.
func (p *Plan) New(source string, at At) *Service { return p.add(source, source, at, false) }

// NewKind is New for a kind of gateway, which the source calls source, and which is to be
// called name: no service has to have another name for it.
func (p *Plan) NewKind(source, name string, at At) *Service { return p.add(source, name, at, true) }

func (p *Plan) add(source, name string, at At, kind bool) *Service {
	if len(p.Services) >= maxServices {
		p.Leave(at, nil, Bound, source, "import makes at most "+strconv.Itoa(maxServices)+" services; import the source in parts")
		return nil
	}
	s := &Service{Source: source, At: at, Kind: kind}
	var why string
	if kind {
		s.Name, why = p.kinds.of(name)
	} else {
		s.Name, why = p.names.of(name)
	}
	p.Services = append(p.Services, s)
	if why != "" {
		p.Leave(at, s, Renamed, Short(source), why)
	}
	return s
}

// Find is the service that the source calls so, nil for none.
func (p *Plan) Find(source string) *Service {
	for _, s := range p.Services {
		if s.Source == source {
			return s
		}
	}
	return nil
}

// Remove takes a service out.
func (p *Plan) Remove(s *Service) {
	p.Services = slices.DeleteFunc(p.Services, func(o *Service) bool { return o == s })
	p.Boot = slices.DeleteFunc(p.Boot, func(o *Service) bool { return o == s })
}

// Keys are the keys, in the order in which they were set.
func (m *Map) Keys() []string { return m.keys }
