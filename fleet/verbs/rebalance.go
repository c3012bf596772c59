package verbs

import (
	"cmp"
	"maps"
	"slices"

	"rlminit/fleet/agent"
)

// rebalanced is how profiles move until none has a member with room that comes before its
// own in its order: at most limit at once, each of which has room before the others of them
// have gone. Seldom one moves twice, since another one leaves a better member after it.
func rebalanced(v *agent.View, limit int) (all [][]moved) {
	anew := v.Clone() // for the order of members, wherever anything is now
	clear(anew.Load)
	clear(anew.Moves)
	at, better, deepest := map[string]string{}, map[string][]string{}, 0
	for name, o := range v.Owners {
		_, moves := v.Moves[name]
		if p, declared := v.Profiles[name]; !moves && declared && !p.Stopped {
			order := anew.Place(name)
			if i := slices.Index(order, o.Member); i >= 0 {
				order = order[:i]
			}
			at[name], better[name], deepest = o.Member, slices.Clone(order), max(deepest, len(order))
		}
	}
	room, names := rooms(v), slices.Sorted(maps.Keys(at))
	now, wave := maps.Clone(room), []moved(nil) // now is the room of the wave: who goes leaves none
	for rank := 0; rank < deepest; rank++ {     // the best members first, which are not left again
		again := rank
		for _, name := range names {
			if rank >= len(better[name]) || room[better[name][rank]] < 1 {
				continue
			}
			m := moved{Profile: name, From: at[name], To: better[name][rank]}
			if len(wave) == limit || now[m.To] < 1 || slices.ContainsFunc(wave, func(o moved) bool { return o.Profile == name }) {
				all, wave, now = append(all, wave), nil, maps.Clone(room)
			}
			now[m.To]--
			room[m.To]--
			room[m.From]++
			at[name], better[name], wave, again = m.To, better[name][:rank], append(wave, m), -1
		}
		rank = again
	}
	return slices.DeleteFunc(append(all, wave), func(wave []moved) bool { return len(wave) == 0 })
}

// rooms is how many profiles more each member may have, with those that move to it.
func rooms(v *agent.View) map[string]int {
	room := map[string]int{}
	for name, m := range v.Members {
		room[name] = cmp.Or(m.Capacity, 1<<40) - v.Load[name]
	}
	for name, m := range v.Moves {
		if v.Owners[name].Member != m.To {
			room[m.To]--
		}
	}
	return room
}
