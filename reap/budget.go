package reap

import "rlminit/wire"

// What tier 2 may ask for in the long run, in ns of the budget: a message costs
// a fortieth of a spawn. A boot of ten thousand services is within the burst; a
// tier 2 that was taken over gets a hundred spawns a second, which is no more
// than a few hundredths of a processor.
const (
	messageCost = 250e3
	spawnCost   = 40 * messageCost
	apartCost   = 5 * spawnCost // of a file that is to be closed, by a process that may stay
	budgetBurst = 500e3 * messageCost
	budgetPause = 50e6 // what must be there again before anything more is read
)

// budget is what tier 2 has spent, as the time at which all of it would be paid
// for. It is the pair's and not tier 2's, and so outlives one.
//
// Invariant: spent counts in the future alone; what lies in the past is nothing.
type budget struct {
	spent  int64 // CLOCK_MONOTONIC, ns
	resume int64 // when messages are read again; never, where they are read
}

// spend takes the price of a message, whatever comes of it.
func (b *budget) spend(now int64, m wire.Message) {
	cost := int64(messageCost)
	if _, spawn := m.(*wire.Spawn); spawn {
		cost = spawnCost
	}
	b.spent = max(b.spent, now) + cost
	if b.spent-now > budgetBurst {
		b.resume = b.spent - budgetBurst + budgetPause
	}
}

// empty tells whether nothing may be asked for now.
func (b *budget) empty(now int64) bool {
	if now >= b.resume {
		b.resume = never
	}
	return b.resume != never
}
