package operation

import (
	"fmt"
	"time"
)

// Gate decides whether a service has come to what a change wants of it: to be in
// service for Steady, with one run, or to be down. It is asked again whenever
// something has changed, and after Verdict.Wait.
type Gate struct {
	Down   bool          // it is to be down
	Steady time.Duration // how long it must be in service
	Fresh  bool          // with another run than Old
	Old    uint64        // the run that it had before

	run uint64 // that it is to keep; 0: none yet
}

// Judgement is what a Gate says.
type Judgement struct {
	Passed bool
	Why    string        // it is not passed, and will not be
	Wait   time.Duration // ask again after this at the latest; 0: when something changes
}

// Look judges by what is seen of the service. standing is the member of the
// operation that the change is, and comes first: what follows from a later command
// is that command's doing, and no fault of the service.
func (g *Gate) Look(s Seen, standing Standing) Judgement {
	switch {
	case standing.Over():
		return Judgement{Why: standing.Why()}
	case g.Down && s.Wanted:
		return Judgement{Why: "somebody has started it"}
	case g.Down:
		return Judgement{Passed: s.Down}
	case g.Fresh && s.Run == g.Old && !s.Stuck:
		return Judgement{}
	case g.run != 0 && s.Run != g.run:
		return Judgement{Why: fmt.Sprintf("it ended before it had been ready for %s", g.Steady)}
	case s.Ended:
		return Judgement{Why: "it is " + s.How}
	case g.run != 0 && s.Unhealthy:
		return Judgement{Why: "it has become unhealthy"}
	}
	if s.InService || g.Fresh {
		g.run = s.Run
	}
	switch {
	case !s.InService:
		return Judgement{}
	case s.For < g.Steady:
		return Judgement{Wait: g.Steady - s.For}
	}
	return Judgement{Passed: true}
}

// Standing is what has become of a member of an operation.
type Standing struct {
	Operation uint64 // 0: it is of none
	State     State
	Reason    string
}

// Over tells whether the operation goes no further for that member.
func (s Standing) Over() bool { return s.State == Superseded || s.State == Cancelled }

// Why says what has ended it.
func (s Standing) Why() string {
	if s.State == Cancelled {
		return fmt.Sprintf("operation %d was cancelled", s.Operation)
	}
	return "somebody has commanded it meanwhile, " + s.Reason
}
