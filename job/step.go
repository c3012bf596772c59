package job

import (
	"cmp"
	"strconv"
	"strings"
)

// Stage is how far a job has come, JOBS.md.
type Stage uint8

// The stages of a job.
const (
	Submitting Stage = iota
	Queued
	Preparing
	Starting
	Alive
	Sweeping
	Recording
	Over
	stages
)

// Kind is what happens to a job.
type Kind uint8

// The events of a job.
const (
	Kept Kind = iota
	NotKept
	Turn
	Refused
	Prepared
	Spawned
	NotSpawned
	Exited
	LeftSome
	Cleared
	Patience
	Cancel
	Shutdown
	Recorded
	NotRecorded
	kinds
)

// Action is what is to be done about an event.
type Action uint16

// The actions, in the order in which they are done.
const (
	Mark    Action = 1 << iota // remember the cancel or the shutdown
	Queue                      // put it in line
	Prepare                    // look up its program and directory
	Spawn                      // ask tier 1 for it
	Note                       // that it runs
	End                        // tell tier 1 to end all of it
	Record                     // the outcome
	Forget                     // the process, its tag, its output; and publish the outcome
	Publish                    // the outcome, which is not recorded
	Again                      // record it once more in a while
)

type transition struct {
	next Stage
	do   Action
}

// table decides every pair; one that is absent changes nothing.
var table = [stages][kinds]transition{
	Submitting: {
		Kept: {Queued, Queue}, NotKept: {Over, Publish},
		Cancel: {Submitting, Mark}, Shutdown: {Submitting, Mark},
	},
	Queued: {
		Turn: {Preparing, Prepare}, Refused: {Recording, Record},
		Cancel: {Recording, Record}, Shutdown: {Recording, Record},
	},
	Preparing: {
		Prepared: {Starting, Spawn}, Refused: {Recording, Record}, NotSpawned: {Recording, Record},
		Cancel: {Recording, Record}, Shutdown: {Recording, Record},
	},
	Starting: {
		Spawned: {Alive, Note}, NotSpawned: {Recording, Record},
		Exited: {Recording, Record}, LeftSome: {Sweeping, End},
		Cancel: {Starting, Mark | End}, Shutdown: {Starting, Mark | End},
	},
	Alive: {
		Exited: {Recording, Record}, LeftSome: {Sweeping, End},
		Cancel: {Alive, Mark | End}, Shutdown: {Alive, Mark | End},
	},
	Sweeping: {
		Cleared: {Recording, Record}, Patience: {Recording, Record},
	},
	Recording: {
		Recorded: {Over, Forget}, NotRecorded: {Recording, Publish | Again},
	},
}

// Status is what people see of a job's stage and outcome.
type Status string

// What people see.
const (
	Pending     Status = "pending"
	Validated   Status = "validated"
	Running     Status = "running"
	Succeeded   Status = "succeeded"
	Failed      Status = "failed"
	Cancelled   Status = "cancelled"
	TimedOut    Status = "timed_out"
	RefusedAs   Status = "refused"
	Interrupted Status = "interrupted"
	UndoneAs    Status = "rolled_back"
)

// Exit is how a job's process ended.
type Exit struct {
	Code     int  // -1 where a signal ended it
	Signal   int  // 0 where it exited
	TimedOut bool // as tier 1 says
}

// Event is one thing that happens to a job.
type Event struct {
	Kind Kind
	Exit Exit // of Exited and LeftSome; of NotSpawned TimedOut alone: its time was over before it could start
}

// State is all of a job's life that decisions rest on.
type State struct {
	Stage   Stage
	Marked  Kind   // Cancel or Shutdown, the first of them; 0: neither
	Exit    Exit   // once it has ended
	Outcome Status // "" until it is decided
}

// Step is the life of a job. It returns what follows from an event, and what is
// to be done.
func Step(s State, e Event) (State, Action) {
	to := table[s.Stage][e.Kind]
	if to == (transition{}) {
		return s, 0
	}
	switch e.Kind {
	case Cancel, Shutdown:
		if s.Marked == 0 {
			s.Marked = e.Kind
		}
	case Exited, LeftSome, NotSpawned:
		s.Exit = e.Exit
	}
	do := to.do
	s.Stage = to.next
	switch {
	case e.Kind == Kept && s.Marked != 0:
		s.Stage, do = Recording, Record
	case e.Kind == NotKept:
		s.Outcome = Failed
	}
	if s.Stage == Recording && s.Outcome == "" {
		s.Outcome = outcome(s, e)
	}
	return s, do
}

// outcome is decided once.
func outcome(s State, e Event) Status {
	switch {
	case e.Kind == Refused:
		return RefusedAs
	case s.Exit.TimedOut:
		return TimedOut
	case s.Marked == Cancel:
		return Cancelled
	case s.Marked == Shutdown:
		return Interrupted
	case e.Kind == NotSpawned:
		return Failed
	case s.Exit.Code == 0 && s.Exit.Signal == 0:
		return Succeeded
	}
	return Failed
}

// Status is what people see of the state.
func (s State) Status() Status {
	switch {
	case s.Outcome != "":
		return s.Outcome
	case s.Stage <= Queued:
		return Pending
	case s.Stage <= Starting:
		return Validated
	}
	return Running
}

// InMemory begins the number of a job that is recorded in memory alone.
const InMemory = "m"

// Number is what the number of a job or session counts; 0: it is none.
func Number(id string) uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(id, InMemory), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Compare puts the numbers of jobs, or of sessions, in order; those in memory
// come last.
func Compare(a, b string) int {
	if x, y := strings.HasPrefix(a, InMemory), strings.HasPrefix(b, InMemory); x != y {
		if x {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
