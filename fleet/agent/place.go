package agent

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Place is the members that may run a profile, the one that should first: rendezvous
// hashing with weights. A member is not there if it drains, is full or lacks a label, and
// the one at which the profile could not be started comes last. A move to a member that is
// there puts that one first and leaves no other.
func (v *View) Place(name string) []string {
	if to, ok := v.Moves[name]; ok && v.takes(to.To, name) {
		return []string{to.To}
	}
	type ranked struct {
		member string
		score  float64
	}
	all := make([]ranked, 0, len(v.Members))
	failed := v.Backoffs[name].Member
	for member := range v.Members {
		if v.takes(member, name) {
			s := v.score(name, member)
			if member == failed {
				s = -1
			}
			all = append(all, ranked{member, s})
		}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.member, b.member))
	})
	out := make([]string, len(all))
	for i, r := range all {
		out[i] = r.member
	}
	return out
}

// Rank is how many come before a member in Place, without sorting them; -1: it may not run
// the profile.
func (v *View) Rank(name, member string) int {
	if to, ok := v.Moves[name]; ok && v.takes(to.To, name) {
		if to.To == member {
			return 0
		}
		return -1
	}
	if !v.takes(member, name) {
		return -1
	}
	failed := v.Backoffs[name].Member
	own, rank := v.score(name, member), 0
	if failed == member {
		own = -1
	}
	for other := range v.Members {
		if other == member || other == failed {
			continue
		}
		if s := v.score(name, other); (s > own || s == own && other < member) && v.takes(other, name) {
			rank++
		}
	}
	return rank
}

// Taken tells whether any member would take a profile.
func (v *View) Taken(name string) bool {
	for member := range v.Members {
		if v.takes(member, name) {
			return true
		}
	}
	return false
}

// takes tells whether a member would take a profile.
func (v *View) takes(member, name string) bool { return v.Why(member, name) == "" }

// Why is why a member does not take a profile; "": it does, or has it.
func (v *View) Why(member, name string) string {
	m, ok := v.Members[member]
	if !ok {
		return "it is not there"
	}
	if _, ok := v.Drains[member]; ok {
		return "it is drained"
	}
	if m.Capacity > 0 && v.Load[member] >= m.Capacity && v.Owners[name].Member != member {
		return "it is full"
	}
	if len(m.Foreign) > 0 && slices.Contains(m.Foreign, name) && v.Owners[name].Member != member {
		return "it has a service or a profile of its own of that name"
	}
	return m.Lacks(v.Profiles[name].Labels)
}

// Lacks is which label a member has not that a profile wants; "": it has all.
func (m Member) Lacks(labels map[string]string) string {
	if len(labels) == 0 {
		return "" // soon, for it is asked of each pair of a profile and a member
	}
	for _, k := range sorted(labels) {
		if m.Labels[k] != labels[k] {
			return "it has no label " + k + "=" + labels[k]
		}
	}
	return ""
}

// score is how much a profile wants to be at a member.
func (v *View) score(name, member string) float64 {
	z := uint64(14695981039346656037) // FNV-1a of both, with a zero byte between them
	for _, b := range []byte(member) {
		z = (z ^ uint64(b)) * 1099511628211
	}
	z *= 1099511628211
	for _, b := range []byte(name) {
		z = (z ^ uint64(b)) * 1099511628211
	}
	weight := v.Members[member].Weight
	if weight <= 0 {
		weight = 1
	}
	// The high bits of FNV hardly depend on the last bytes: mix, as splitmix64 does.
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return -weight / math.Log((float64(z>>11)+0.5)/(1<<53))
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
