package job

import (
	"os"
	"strings"
	"testing"
)

var stageNames = [stages]string{"submitting", "queued", "preparing", "starting", "alive", "sweeping", "recording", "over"}

var kindNames = [kinds]string{
	"kept", "not kept", "turn", "refused", "prepared", "spawned", "not spawned", "exited", "left some",
	"cleared", "patience", "cancel", "shutdown", "recorded", "not recorded",
}

var actionNames = []string{"mark", "queue", "prepare", "spawn", "note", "end", "record", "forget", "publish", "again"}

func (a Action) String() string {
	var names []string
	for i, name := range actionNames {
		if a&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// JOBS.md and the code say the same of every pair.
func TestTableIsTheDocument(t *testing.T) {
	document, err := os.ReadFile("JOBS.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(string(document)) {
		if cells := strings.Split(strings.Trim(line, "| \n"), " | "); len(cells) == int(stages)+1 {
			rows[cells[0]] = cells[1:]
		}
	}
	for kind := range kinds {
		row := rows[kindNames[kind]]
		if row == nil {
			t.Errorf("JOBS.md has no row for %q", kindNames[kind])
			continue
		}
		for stage := range stages {
			to := table[stage][kind]
			want := "–"
			if to != (transition{}) {
				want = to.do.String()
				if to.next != stage {
					want = "→ " + stageNames[to.next] + ", " + want
				}
			}
			if row[stage] != want {
				t.Errorf("%s in %s: document says %q, code %q", kindNames[kind], stageNames[stage], row[stage], want)
			}
		}
	}
}

// world is a job, tier 1, and a disk, as an exploration sees them.
type world struct {
	state    State
	here     bool // tier 2 is
	child    child
	exit     Exit
	left     bool // processes of it
	ending   bool // tier 1 ends them
	kept     bool // the submission is on the disk
	outcome  Status
	again    bool
	spawns   int
	shutdown bool
}

// child is what tier 1 has of the job.
type child uint8

const (
	none child = iota
	asked
	runs
	ended
	fell
)

// do is what the runner does about actions.
func (w *world) do(t *testing.T, a Action) {
	if a&Spawn != 0 {
		if w.child != none || !w.kept || w.outcome != "" || w.shutdown {
			t.Fatalf("spawned in %+v", *w)
		}
		w.child = asked
		w.spawns++
	}
	if a&End != 0 {
		w.ending = true
	}
	if a&Forget != 0 {
		if w.outcome == "" {
			t.Fatalf("forgotten without an outcome: %+v", *w)
		}
		w.child, w.left = none, false
	}
	w.again = a&Again != 0
}

// step takes one event to the job and does what follows.
func (w world) step(t *testing.T, e Event) world {
	before := w.state
	var a Action
	w.state, a = Step(w.state, e)
	if before.Outcome != "" && w.state.Outcome != before.Outcome {
		t.Fatalf("%v became %v by %s", before.Outcome, w.state.Outcome, kindNames[e.Kind])
	}
	w.do(t, a)
	return w
}

// next are all worlds that can follow on w.
func (w world) next(t *testing.T) []world {
	var all []world
	add := func(w world) { all = append(all, w) }
	// Tier 1 does its part whether tier 2 is there or not.
	if w.child == asked {
		n := w
		if n.child = runs; n.here {
			n = n.step(t, Event{Kind: Spawned})
		}
		add(n)
		n = w
		if n.child = fell; n.here {
			n = n.step(t, Event{Kind: NotSpawned})
		}
		add(n)
	}
	if w.child == runs {
		for _, exit := range []Exit{{}, {Code: 3}, {Code: -1, Signal: 15}, {Code: 0, TimedOut: true}} {
			for _, left := range []bool{false, true} {
				n := w
				if n.child, n.exit, n.left = ended, exit, left; n.here {
					n = n.heardOfEnd(t)
				}
				add(n)
			}
		}
	}
	if w.child == ended && w.left && w.ending {
		n := w
		if n.left = false; n.here {
			n = n.step(t, Event{Kind: Cleared})
		}
		add(n)
	}
	if w.here {
		if w.state.Stage == Submitting {
			n := w
			n.kept = true
			add(n.step(t, Event{Kind: Kept}))
			add(w.step(t, Event{Kind: NotKept}))
			n.here = false // killed after the record, before anything follows
			add(n)
		}
		if w.state.Stage == Recording {
			n := w
			if n.outcome != "" && n.outcome != n.state.Outcome {
				t.Fatalf("recorded as %v and as %v", n.outcome, n.state.Outcome)
			}
			n.outcome = n.state.Outcome
			add(n.step(t, Event{Kind: Recorded}))
			add(w.step(t, Event{Kind: NotRecorded}))
			n.here = false
			add(n)
		}
		for _, kind := range []Kind{Refused, Prepared, Patience, Cancel} {
			add(w.step(t, Event{Kind: kind}))
		}
		if !w.shutdown {
			add(w.step(t, Event{Kind: Turn}))
			n := w
			n.shutdown = true
			add(n.step(t, Event{Kind: Shutdown}))
		}
		n := w
		n.here = false
		add(n)
	} else {
		add(w.adopted(t))
	}
	return all
}

func (w world) heardOfEnd(t *testing.T) world {
	kind := Exited
	if w.left {
		kind = LeftSome
	}
	return w.step(t, Event{Kind: kind, Exit: w.exit})
}

// adopted is the world with a new tier 2, which knows what the journal and tier
// 1 tell.
func (w world) adopted(t *testing.T) world {
	w.here, w.again = true, false
	switch {
	case w.outcome != "":
		w.state = State{Stage: Over, Outcome: w.outcome}
		w.child, w.left = none, false // acknowledged again
		return w
	case !w.kept:
		w.state = State{Stage: Over, Outcome: Failed} // nobody knows of it
		return w
	}
	switch w.child {
	case none:
		w.state = State{Stage: Queued}
	case asked, fell:
		w.state = State{Stage: Starting}
	case runs, ended:
		w.state = State{Stage: Alive}
	}
	switch w.child {
	case fell:
		w = w.step(t, Event{Kind: NotSpawned})
	case ended:
		w = w.heardOfEnd(t)
	}
	if w.shutdown {
		w = w.step(t, Event{Kind: Shutdown})
	}
	return w
}

// Whatever happens in whatever order, tier 2 killed between any two steps: the
// job is run once at most, its outcome is decided once and recorded once, tier 1
// forgets it only then, and from everywhere there is a way to the end.
func TestLifeExplored(t *testing.T) {
	begin := world{here: true}
	follow := map[world][]world{}
	for queue := []world{begin}; len(queue) > 0; {
		w := queue[0]
		queue = queue[1:]
		if _, seen := follow[w]; seen {
			continue
		}
		if w.spawns > 1 {
			t.Fatalf("run twice: %+v", w)
		}
		follow[w] = w.next(t)
		queue = append(queue, follow[w]...)
	}
	// Backwards from the ends.
	from := map[world][]world{}
	reached := map[world]bool{}
	var queue []world
	for w, all := range follow {
		for _, n := range all {
			from[n] = append(from[n], w)
		}
		if w.state.Stage == Over && w.child == none {
			queue = append(queue, w)
		}
	}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		if reached[w] {
			continue
		}
		reached[w] = true
		queue = append(queue, from[w]...)
	}
	for w := range follow {
		if !reached[w] {
			t.Errorf("no way leads to the end from %+v", w)
			break
		}
	}
	t.Logf("%d situations", len(follow))
}

// The first of cancel and shutdown counts, and a time-out before both.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		events []Event
		want   Status
	}{
		{[]Event{{Kind: Exited}}, Succeeded},
		{[]Event{{Kind: Exited, Exit: Exit{Code: 1}}}, Failed},
		{[]Event{{Kind: Exited, Exit: Exit{Code: -1, Signal: 9}}}, Failed},
		{[]Event{{Kind: Cancel}, {Kind: Shutdown}, {Kind: Exited}}, Cancelled},
		{[]Event{{Kind: Shutdown}, {Kind: Cancel}, {Kind: Exited}}, Interrupted},
		{[]Event{{Kind: Cancel}, {Kind: Exited, Exit: Exit{TimedOut: true}}}, TimedOut},
		{[]Event{{Kind: LeftSome}, {Kind: Cancel}, {Kind: Cleared}}, Succeeded},
	} {
		s := State{Stage: Alive}
		for _, e := range c.events {
			s, _ = Step(s, e)
		}
		if s.Stage != Recording || s.Outcome != c.want {
			t.Errorf("%+v: %+v, want %s", c.events, s, c.want)
		}
	}
}

// A job whose time was over before its program could start has timed out, and has not
// failed: it is for its caller as one that was ended.
func TestTimeIsOverBeforeTheStart(t *testing.T) {
	for late, want := range map[bool]Status{true: TimedOut, false: Failed} {
		s, do := Step(State{Stage: Starting}, Event{Kind: NotSpawned, Exit: Exit{TimedOut: late}})
		if s.Outcome != want || s.Stage != Recording || do != Record {
			t.Errorf("late: %v: %+v, action %v", late, s, do)
		}
	}
}
