package exploreorder

import "rlminit/supervise/order"

// key is a State in a word: 16 bits for each service. What decides nothing is left
// out, whose process is old and what was asked for; so steps that differ in that
// alone come to one state, and whoever needs it keeps it beside the key.
type key uint64

// Bits of a service: its phase in four, then its turn in three, how it is held in
// two, three flags, and what is stopped together with it in four.
const (
	turnAt    = 4
	heldAt    = turnAt + 3
	wantedBit = 1 << (heldAt + 2)
	blockBit  = wantedBit << 1
	againBit  = blockBit << 1
	withAt    = heldAt + 5
	bits      = withAt + Most

	turns = key(7<<turnAt) * (1 | 1<<bits | 1<<(2*bits) | 1<<(3*bits)) // of every service
)

func (s *State) key() (k key) {
	for i := range s {
		u := &s[i]
		v := key(u.Phase) | key(u.Turn)<<turnAt | key(u.Held)<<heldAt | key(u.With)<<withAt
		if u.Wanted {
			v |= wantedBit
		}
		if u.Blocked {
			v |= blockBit
		}
		if u.Again {
			v |= againBit
		}
		k |= v << (i * bits)
	}
	return k
}

// state is the State of a key, in which no process is old and nothing was asked.
func (k key) state() (s State) {
	for i := range s {
		v := k >> (i * bits)
		u := &s[i]
		u.Phase = order.Phase(v & (1<<turnAt - 1))
		u.Turn = order.Turn(v >> turnAt & 7)
		u.Held = order.Held(v >> heldAt & 3)
		u.Wanted, u.Blocked, u.Again = v&wantedBit != 0, v&blockBit != 0, v&againBit != 0
		u.With = uint8(v >> withAt & (1<<Most - 1))
	}
	return s
}
