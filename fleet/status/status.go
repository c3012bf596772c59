// Package status is what people and monitoring are told of a fleet: which profiles and
// members there are and how they are, as lists and as metrics. It is a pure function of
// what it is given.
package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rlminit/fleet/agent"
)

// Profile is one element of `fleet status --json`, and of GET /status.
type Profile struct {
	Name   string `json:"name"`
	State  string `json:"state"`           // running, starting, waiting, stopped
	Owner  string `json:"owner,omitempty"` // the member
	Fence  int64  `json:"fence,omitempty"`
	Next   string `json:"next,omitempty"` // of one that waits: the member that is to claim it; "": none takes it
	MoveTo string `json:"move_to,omitempty"`
	Failed int    `json:"failed,omitempty"` // how often in a row it could not be started
	Why    string `json:"why,omitempty"`
}

// Member is one element of `fleet members --json`, and of GET /members.
type Member struct {
	Name     string            `json:"name"`
	State    string            `json:"state"` // live, drained, gone
	Profiles int               `json:"profiles"`
	Weight   float64           `json:"weight"`
	Capacity int               `json:"capacity,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Version  string            `json:"version,omitempty"`
}

// Profiles is all that are declared.
func Profiles(v *agent.View) []Profile {
	all := []Profile{}
	for _, name := range slices.Sorted(maps.Keys(v.Profiles)) {
		all = append(all, Of(v, name))
	}
	return all
}

// Of is one that is declared.
func Of(v *agent.View, name string) Profile {
	owner := v.Owners[name]
	s := Profile{Name: name, State: stateOf(v, name), Owner: owner.Member, Fence: owner.Fence, MoveTo: v.Moves[name].To, Failed: v.Backoffs[name].Count}
	if s.State == "waiting" {
		if order := v.Place(name); len(order) > 0 {
			s.Next = order[0]
		}
	}
	s.Why = strings.Join(reasons(v, s), "; ")
	return s
}

// Refusals is why members do not take a profile: for each reason, those that have it.
func Refusals(v *agent.View, name string) (out []string) {
	who := map[string][]string{}
	for _, m := range slices.Sorted(maps.Keys(v.Members)) {
		if why := v.Why(m, name); why != "" {
			who[why] = append(who[why], m)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(who)) {
		at := strings.Join(who[why], ", ")
		if n := len(who[why]); n > 3 {
			at = fmt.Sprintf("%d members", n)
		}
		out = append(out, at+": "+why)
	}
	return out
}

// NobodyTakes says that no member takes a profile, and why.
func NobodyTakes(v *agent.View, name string) string {
	return "no member takes it: " + cmp.Or(strings.Join(Refusals(v, name), "; "), "there is none")
}

func stateOf(v *agent.View, name string) string {
	_, owned := v.Owners[name]
	switch {
	case owned && v.Runs(name):
		return "running"
	case owned:
		return "starting"
	case v.Profiles[name].Stopped:
		return "stopped"
	}
	return "waiting"
}

// reasons is what is to be said of a profile that is not as it should be.
func reasons(v *agent.View, s Profile) (out []string) {
	if s.MoveTo != "" && s.MoveTo != s.Owner {
		if why := v.Why(s.MoveTo, s.Name); why != "" {
			out = append(out, fmt.Sprintf("it cannot move to %s: %s", s.MoveTo, why))
		} else {
			out = append(out, "it moves to "+s.MoveTo)
		}
	}
	if b, ok := v.Backoffs[s.Name]; ok {
		earlier := map[bool]string{true: "earlier: "}[s.State == "running"] // until it has run for a minute
		out = append(out, fmt.Sprintf("%sit could not be started at %s (%d in a row): %s", earlier, b.Member, b.Count, b.Text))
	}
	r := v.Reports[s.Name]
	switch now := s.Owner != "" && r.Fence == s.Fence; {
	case now && r.Trouble != "":
		out = append(out, fmt.Sprintf("its data cannot be stored at %s: %s", s.Owner, r.Trouble))
	case now && r.Doing != "":
		out = append(out, r.Doing)
	}
	if lacks := v.Members[s.Owner].Lacks(v.Profiles[s.Name].Labels); s.State == "running" && lacks != "" && s.MoveTo == "" {
		out = append(out, fmt.Sprintf("it runs where its labels do not fit: %s: %s; rlminit fleet rebalance moves it, if another member takes it", s.Owner, lacks))
	}
	switch {
	case s.Owner != "" && v.Profiles[s.Name].Stopped:
		out = append(out, "it is being stopped")
	case s.State == "waiting" && s.Next == "":
		out = append(out, NobodyTakes(v, s.Name))
	case s.State == "waiting":
		out = append(out, "the next to claim it is "+s.Next)
		if m, left := v.Marks[s.Name]; left && v.Full() {
			out = append(out, agent.NoRoom+"; without space it is claimed a lease after there is some")
		} else if left {
			out = append(out, fmt.Sprintf("what ran under fence %d may run until its deadline: for at most a lease it is not claimed", m.Fence))
		}
	}
	return out
}

// Members is all members that are there, drained, or have claims yet.
func Members(v *agent.View) []Member {
	names := slices.Concat(slices.Collect(maps.Keys(v.Members)), slices.Collect(maps.Keys(v.Drains)), slices.Collect(maps.Keys(v.Load)))
	slices.Sort(names)
	all := []Member{}
	for _, name := range slices.Compact(names) {
		m, live := v.Members[name]
		s := Member{Name: name, State: "live", Profiles: v.Load[name], Weight: m.Weight, Capacity: m.Capacity, Labels: m.Labels, Version: m.Version}
		_, drained := v.Drains[name]
		switch {
		case !live:
			s.State = "gone"
		case drained:
			s.State = "drained"
		}
		all = append(all, s)
	}
	return all
}
