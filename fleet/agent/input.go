package agent

// Kind says what an Input is.
type Kind uint8

// The kinds of input, with the fields that each takes.
const (
	Tick Kind = iota // time has passed

	// Began is the first input: the member's agent begins. Lease, TTL and Sent are those of
	// the agent before in this box, if it left them; Lease 0: there is none.
	Began
	// Surveyed has all of the fleet's gateways of which anything is left in the box: Runs, at
	// Sent or later.
	Surveyed

	Granted    // the session Lease for TTL; the grant was sent at Sent
	NotGranted // or could not be said
	Renewed    // the beat of Lease that was sent at Sent is confirmed; Full: it could put nothing
	NotRenewed // it could not be confirmed
	Expired    // etcd does not know Lease any more

	Changed // Changes, in the order of their revisions; Whole: they are all that there is

	Claimed // Name: on Lease, with Fence
	Taken   // Name: somebody has it
	Unsure  // Name: nobody knows what came of the claim

	Prepared // Name, Fence: it can be started; Failed, Text: it cannot
	Started  // Name, Fence: Outcome
	Extended // Names: of these the box did not move the deadline
	Seen     // Runs: how they were at Sent or later
	Stopped  // Name, Fence: nothing is left of it; Failed: nobody knows
	Saved    // Name, Fence: its data is stored; Failed: it is not
	Tried    // Name, Fence, Revision: the box would take the declaration; Failed, Text: it would not
	Released // Name, Fence: the claim is gone; Failed: nobody knows

	Leave // the agent is to end: whatever it holds goes
)

// Outcome is what came of a start.
type Outcome uint8

// The outcomes. Late: the deadline had passed. Refused: nothing has run. Ended: it may have run,
// and does not any more. Lost: nobody knows.
const (
	OK Outcome = iota
	Late
	Refused
	Ended
	Lost
)

// Input is one thing that the agent is told.
type Input struct {
	Kind Kind
	Now  int64 // always set

	Lease int64
	TTL   int64 // nanoseconds
	Sent  int64

	Changes  []Change
	Whole    bool
	Revision int64 // of Whole: at which it was so; of Tried: of the declaration

	Name    string
	Fence   int64
	Outcome Outcome
	Failed  bool
	Full    bool
	Text    string
	Names   []string
	Runs    []Run
}

// Run is a gateway in the box.
type Run struct {
	Name  string
	Fence int64
	Ended bool // it does not run, and will not by itself

	// Foreign: something that is not the fleet's has the name. Nothing else is said of it.
	Foreign bool
	Text    string
}

// EffectKind says what an Effect is.
type EffectKind uint8

// The kinds of effect.
const (
	Survey  EffectKind = iota // answered by Surveyed
	Grant                     // answered by Granted, NotGranted
	Renew                     // Lease, TTL, Names, which are declared and foreign here: answered by Renewed, NotRenewed, Expired
	Revoke                    // Lease: nothing runs under it; not answered
	Evict                     // Name, Lease, Revision, Space: end the session of that member if its key is of that revision, and the key space of that one; not answered
	Claim                     // Name, Lease, Fence, Space: if nobody has it, and its mark has that fence and the key space that revision, or there is no mark and Fence is 0; answered by Claimed, Taken, Unsure
	Release                   // Name, Fence: if it is still so; answered by Released
	Try                       // Name, Fence, Profile, Revision: would the box take it; answered by Tried
	Prepare                   // Name, Fence, Lease, Profile, Restore: definition and, with Restore, stored data; answered by Prepared
	Start                     // Name, Fence, At: answered by Started
	Extend                    // Deadlines: answered by Extended
	Stop                      // Name, Fence: until nothing is left; answered by Stopped
	Save                      // Name, Fence, Unsure: answered by Saved
	Fail                      // Name, Count, Text: record the back-off; not answered
	Recover                   // Name: it runs, and the back-off is over; not answered
	Moved                     // Name, Revision: the move is done; not answered
	Report                    // Name, Fence, Lease, Revision, Text: it runs as the declaration of Revision says, 0: it does not run; Text: why its data cannot be stored; not answered
	Say                       // Text
)

// Effect is one thing to do.
type Effect struct {
	Kind      EffectKind
	Name      string
	Lease     int64
	TTL       int64 // of it
	Fence     int64
	At        int64 // the deadline
	Count     int
	Revision  int64
	Space     int64
	Profile   Profile
	Restore   bool
	Unsure    bool // whether anything ran under the claim is not known
	Deadlines []Deadline
	Names     []string
	Text      string
}

// Deadline is until when a gateway may run.
type Deadline struct {
	Name  string
	Fence int64
	At    int64
}
