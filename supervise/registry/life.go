package registry

// Life is the progress of a name: the registry's part of it, and the next step.
type Life int

// The lives. A name has one of them at any time; NAMES.md says what is true in
// each.
const (
	Absent     Life = iota // nothing: no slot of ours, no service
	Resting                // a profile that is not to run and was not asked for: neither slot nor service
	Supervised             // a slot, and a service with its definition
	Leaving                // the service was told to end; the slot is still there
	TakenOut               // the same, and somebody took the slot away by hand
	Returning              // as Leaving; when it is gone, the volume and the configuration are asked again
	Deleting               // as Leaving, and its profile is to be deleted when it is gone
	Deleted                // the service is gone, its profile is being deleted

	lives = int(Deleted) + 1
)

func (l Life) String() string {
	return [lives]string{"absent", "resting", "supervised", "leaving", "taken-out", "returning", "deleting", "deleted"}[l]
}

// Event is what may befall a name.
type Event int

// The events.
const (
	Rested   Event = iota // the volume has a profile that is not to run
	Defined               // the volume or the configuration has a definition
	Put                   // somebody has put a definition into its slot by hand
	Vanished              // its slot, or the definition in it, was taken away by hand
	Dropped               // neither the volume nor the configuration has it any more
	Delete                // a person deletes the profile
	Gone                  // nothing of its service is left
	Over                  // the deletion of the profile has succeeded or failed

	events = int(Over) + 1
)

func (e Event) String() string {
	return [events]string{"rested", "defined", "put", "vanished", "dropped", "delete", "gone", "over"}[e]
}

// Action is the registry's act on it.
type Action int

// The actions.
const (
	Nothing  Action = iota
	Publish         // the definition into the slot, and into force
	Take            // the definition in the slot into force
	Remove          // the service is told to end, whatever it is doing
	Withdraw        // the slot is taken away, but for what others put there, which is looked at
	Clear           // the rest of the slot is taken away, unless it has a definition again
	Renew           // Withdraw, or Clear where it was taken out; then volume and configuration are asked
	Ask             // volume and configuration are asked what there is of the name

	actions = int(Ask) + 1
)

func (a Action) String() string {
	return [actions]string{"–", "publish", "take", "remove", "withdraw", "clear", "renew", "ask"}[a]
}

type step struct {
	next Life
	do   Action
}

// steps is what each event makes of each life: every pair is decided.
var steps = [lives][events]step{
	Absent: {
		Rested:  {Resting, Nothing},
		Defined: {Supervised, Publish}, Put: {Supervised, Take}, Vanished: {Absent, Nothing}, Dropped: {Absent, Nothing},
		Delete: {Deleted, Nothing}, Gone: {Absent, Nothing}, Over: {Absent, Nothing},
	},
	Resting: {
		Rested:  {Resting, Nothing},
		Defined: {Supervised, Publish}, Put: {Supervised, Take}, Vanished: {Resting, Nothing}, Dropped: {Absent, Nothing},
		Delete: {Deleted, Nothing}, Gone: {Resting, Nothing}, Over: {Resting, Nothing},
	},
	Supervised: {
		Rested:  {Supervised, Nothing},
		Defined: {Supervised, Publish}, Put: {Supervised, Take}, Vanished: {TakenOut, Remove}, Dropped: {Leaving, Remove},
		Delete: {Deleting, Remove}, Gone: {Absent, Withdraw}, Over: {Supervised, Nothing},
	},
	Leaving: {
		Rested:  {Returning, Nothing},
		Defined: {Returning, Nothing}, Put: {Leaving, Nothing}, Vanished: {Leaving, Nothing}, Dropped: {Leaving, Nothing},
		Delete: {Deleting, Nothing}, Gone: {Absent, Withdraw}, Over: {Leaving, Nothing},
	},
	TakenOut: {
		Rested:  {Returning, Nothing},
		Defined: {Returning, Nothing}, Put: {TakenOut, Nothing}, Vanished: {TakenOut, Nothing}, Dropped: {Leaving, Nothing},
		Delete: {Deleting, Nothing}, Gone: {Absent, Clear}, Over: {TakenOut, Nothing},
	},
	Returning: {
		Rested:  {Returning, Nothing},
		Defined: {Returning, Nothing}, Put: {Returning, Nothing}, Vanished: {Returning, Nothing}, Dropped: {Leaving, Nothing},
		Delete: {Deleting, Nothing}, Gone: {Absent, Renew}, Over: {Returning, Nothing},
	},
	Deleting: {
		Rested:  {Deleting, Nothing},
		Defined: {Deleting, Nothing}, Put: {Deleting, Nothing}, Vanished: {Deleting, Nothing}, Dropped: {Deleting, Nothing},
		Delete: {Deleting, Nothing}, Gone: {Deleted, Withdraw}, Over: {Returning, Nothing},
	},
	Deleted: {
		Rested:  {Deleted, Nothing},
		Defined: {Deleted, Nothing}, Put: {Deleted, Nothing}, Vanished: {Deleted, Nothing}, Dropped: {Deleted, Nothing},
		Delete: {Deleted, Nothing}, Gone: {Deleted, Nothing}, Over: {Absent, Ask},
	},
}

// Next is the life after an event, and the act.
func Next(l Life, e Event) (Life, Action) {
	s := steps[l][e]
	return s.next, s.do
}
