package operation

// State is that of an operation, or of a member.
type State = string

// The states. StatePending is a member's alone: it is yet to be taken.
const (
	StatePending     State = "pending"
	StateRunning     State = "running"
	StateDone        State = "done"
	StateFailed      State = "failed"
	StateCancelled   State = "cancelled"
	StateSuperseded  State = "superseded"
	StateInterrupted State = "interrupted"
)

// Operation is what was asked of services, and what became of it.
type Operation struct {
	ID      uint64
	Verb    string
	Actor   Actor
	Wall    int64 // when it began, nanoseconds since 1970
	State   State
	Reason  string
	Members []Member
	Omitted int // members that are not kept any more
}

// Member is one service of an operation.
type Member struct {
	Name    string
	State   State
	Reason  string
	OldPID  int
	PID     int
	Changed bool // something was done for it; false: it was so already
	Why     Why  // of one that has failed
}

// Actor is who gave a command.
type Actor struct {
	UID uint32
	PID int32
}

// Over tells whether an operation has ended.
func (o *Operation) Over() bool { return o.State != StateRunning }

// Open tells whether something is still to come of a member.
func (m *Member) Open() bool { return m.State == StatePending || m.State == StateRunning }

// Outcome is that of an operation all of whose members are over.
func (o *Operation) Outcome() (State, string) {
	count := map[State]int{}
	why := ""
	for i := range o.Members {
		m := &o.Members[i]
		if count[m.State]++; m.State == StateFailed && why == "" {
			why = m.Reason
		}
	}
	switch {
	case count[StateFailed] > 0:
		return StateFailed, why
	case count[StateCancelled] > 0:
		return StateCancelled, "it was cancelled"
	case len(o.Members) > 0 && count[StateSuperseded] == len(o.Members):
		return StateSuperseded, o.Members[0].Reason
	}
	return StateDone, ""
}

// Interrupt ends what is open of an operation.
func (o *Operation) Interrupt(why string) {
	o.State, o.Reason = StateInterrupted, why
	for i := range o.Members {
		if m := &o.Members[i]; m.Open() {
			m.State, m.Reason = StateInterrupted, why
		}
	}
}
