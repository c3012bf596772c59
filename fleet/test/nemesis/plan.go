// Package nemesis runs a fleet of real boxes on a real etcd in a Docker network, and
// does to it what networks, disks, kernels and people do: it cuts, pauses, kills and
// fills, by a seed, and undoes each of these. What the gateways recorded meanwhile is
// judged by package check.
//
// CLOCK_BOOTTIME, by which PID 1 keeps deadlines, counts the time since the machine
// began and cannot be set: no jump of a clock reaches it, and CLOCK_REALTIME, which
// can jump, is in no bound. So there is no fault that sets clocks: in a container it
// would set that of the machine, and of everybody on it. That clocks run at other
// speeds is the agent's exploration to try.
package nemesis

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// lane is a group of targets of which one at most has a fault at any time. So at most
// one of etcd's nodes (but for the fault that takes most of them) and two of five
// members are hit at once.
type lane struct {
	targets []string
	kinds   []kind
}

// Step is one fault as it is drawn: what, to whom, when after the beginning, and for
// how long.
type Step struct {
	Kind   string
	Target string
	At     time.Duration
	For    time.Duration
}

// longest is the longest pause and the longest cut.
const longest = time.Minute

// Plan draws the faults of a run, in the order of time. All are undone before its end,
// from which on the fleet has calm to recover.
func Plan(seed uint64, run time.Duration, members, nodes []string) []Step {
	most := min(longest, run/4)
	middle := half(len(members))
	var all []Step
	for i, l := range []lane{{members[:middle], ofMembers}, {members[middle:], ofMembers}, {nodes, ofNodes}} {
		luck := rand.New(rand.NewPCG(seed, uint64(i)))
		at := time.Duration(i+1) * time.Second
		var bag []kind // each kind comes up before one comes up twice
		for {
			if len(bag) == 0 {
				bag = slices.Clone(l.kinds)
				luck.Shuffle(len(bag), func(a, b int) { bag[a], bag[b] = bag[b], bag[a] })
			}
			s := Step{Kind: bag[0].name, Target: l.targets[luck.IntN(len(l.targets))], At: at, For: bag[0].length(luck, most)}
			bag = bag[1:]
			if s.At+s.For > run {
				break
			}
			all = append(all, s)
			at += s.For + between(luck, time.Second, 8*time.Second)
		}
	}
	slices.SortStableFunc(all, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return all
}

// NeedDeadlines are faults that deadlines alone make harmless: for longer than the lease
// a member's agent can stop no gateway. All members but the last have one, in turn: each
// profile is on one of them now and then.
func NeedDeadlines(lease time.Duration, members []string) []Step {
	const rest = 5 * time.Second
	var all []Step
	for i, m := range members[:len(members)-1] {
		all = append(all, Step{Kind: "agent paused", Target: m, At: rest + time.Duration(i)*(lease+2*rest), For: lease + rest})
	}
	return all
}

// length is how long a fault lasts: one of a moment, none; of the others half less
// than five seconds, and the rest up to the longest.
func (k kind) length(luck *rand.Rand, most time.Duration) time.Duration {
	switch {
	case k.moment:
		return 0
	case luck.IntN(2) == 0:
		return between(luck, time.Second, 5*time.Second)
	default:
		return between(luck, 5*time.Second, most)
	}
}

func between(luck *rand.Rand, from, till time.Duration) time.Duration {
	if till <= from {
		return from
	}
	return from + time.Duration(luck.Int64N(int64(till-from)))
}

// half of the members are one lane, and the others the second.
func half(members int) int { return (members + 1) / 2 }
