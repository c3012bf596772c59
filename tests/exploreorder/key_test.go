package exploreorder

import (
	"math/rand/v2"
	"testing"

	"rlminit/supervise/order"
)

// A key keeps all of a state that decides anything, and nothing else.
func TestKeyKeepsWhatDecides(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	coin := func() bool { return r.IntN(2) == 0 }
	for range 100_000 {
		var s State
		turned := false
		for i := range s {
			s[i] = Service{
				Fact: order.Fact{
					Phase: order.Phases[r.IntN(len(order.Phases))], Wanted: coin(),
					Turn: order.Turn(r.IntN(int(order.Remove) + 1)), Held: order.Held(r.IntN(int(order.Stuck) + 1)),
				},
				Blocked: coin(), Again: coin(), With: uint8(r.IntN(1 << Most)),
			}
			turned = turned || s[i].Turn != order.NoTurn
		}
		k := s.key()
		if got := k.state(); got != s {
			t.Fatalf("%v comes back as %v", s, got)
		}
		if k&turns != 0 != turned {
			t.Fatalf("turns of %v", s)
		}
		i := r.IntN(Most)
		s[i].Old, s[i].Asked = true, AskedRestart
		if s.key() != k {
			t.Fatalf("what decides nothing counts: %v", s)
		}
	}
}
