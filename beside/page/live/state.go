package live

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"rlminit/control"
)

// take puts what was found into a new state, and names what is another than before.
func (s *State) take(into **State, f finding) (touched map[string]bool) {
	next := *s
	touched = map[string]bool{}
	if f.all {
		next.Services = slices.Clone(f.services)
		slices.SortFunc(next.Services, byName)
		seen := make(map[string]bool, len(f.services))
		for _, is := range f.services {
			seen[is.Name] = true
			if was, ok := s.Service(is.Name); !ok || !same(was, is) {
				touched[is.Name] = true
			}
		}
		for _, was := range s.Services {
			if !seen[was.Name] {
				touched[was.Name] = true
			}
		}
	} else {
		next.Services = slices.Clone(s.Services)
		for _, is := range f.services {
			touched[is.Name] = true
			i, ok := slices.BinarySearchFunc(next.Services, is, byName)
			if ok {
				next.Services[i] = is
			} else {
				next.Services = slices.Insert(next.Services, i, is)
			}
		}
		for _, name := range f.gone {
			touched[name] = true
			next.Services = slices.DeleteFunc(next.Services, func(s control.Service) bool { return s.Name == name })
		}
	}
	next.index()
	*into = &next
	return touched
}

// NewState is one of services that were just asked for.
func NewState(at Position, services []control.Service) *State {
	s := &State{At: at, Services: services}
	slices.SortFunc(s.Services, byName)
	s.index()
	return s
}

func (s *State) index() {
	s.byName = make(map[string]int, len(s.Services))
	for i, is := range s.Services {
		s.byName[is.Name] = i
	}
}

func byName(a, b control.Service) int { return strings.Compare(a.Name, b.Name) }

// same tells whether a service is as it was, but for how long it has been so.
func same(was, is control.Service) bool {
	was.UptimeS, is.UptimeS = nil, nil
	was.Usage, is.Usage = nil, nil
	return reflect.DeepEqual(was, is)
}

func isNoSuchName(err error) bool {
	var p *control.Problem
	return errors.As(err, &p) && p.ExitCode == control.ExitNoSuchName
}

// isFinal tells whether the supervisor says no for good, as of what there is not.
func isFinal(err error) bool {
	var p *control.Problem
	return errors.As(err, &p) && p.Status >= 400 && p.Status < 500 && !p.Retryable
}
