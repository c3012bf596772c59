package apply

import (
	"cmp"
	"slices"
	"time"
)

// Place is how far a step is.
type Place string

// The places of a step, as APPLY.md has them.
const (
	Waiting Place = ""
	Begun   Place = "begun"
	Passed  Place = "passed"
	Undone  Place = "undone"
	Stuck   Place = "stuck"
)

// Step is one change.
type Step struct {
	Wave   int    `json:"wave"`
	Place  Place  `json:"place"`
	Reason string `json:"reason,omitempty"` // of one that is stuck
	// Temporary: of one that is stuck, for a reason that may pass. See Resume.
	Temporary bool `json:"temporary,omitempty"`

	busy  bool // an action, a gate or an undoing of it is under way
	acted bool
	tries int  // how often its action, or its undoing, was tried again
	waits bool // until it is tried again
}

// Outcome is how a revision ended.
type Outcome string

// The outcomes.
const (
	Running    Outcome = ""
	Applied    Outcome = "applied"
	RolledBack Outcome = "rolled-back"
	Partly     Outcome = "partly" // a person is needed
)

// Cause is why a revision turned around.
type Cause string

// The causes.
const (
	NoCause  Cause = ""
	GateLost Cause = "gate"      // not passed
	NotDone  Cause = "failed"    // an action failed
	TimedOut Cause = "timed-out" // a step, or the whole
	BootLost Cause = "container" // it ended
	Called   Cause = "cancelled" // off, by a person
)

// State is a revision under way. What is exported follows from the records.
type State struct {
	Steps   []Step  `json:"steps"`
	Turned  Cause   `json:"turned,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Outcome Outcome `json:"outcome,omitempty"`

	rolling int  // of wave 2, how many at once
	cold    bool // undone before anything is started
}

// Kind is a kind of event.
type Kind int

// The events.
const (
	Go        Kind = iota // begin, or go on with another's records
	BootAgain             // as Go, of the first supervisor of another start of the container
	ActDone               // Step's action ended: OK, or Late, or Reason; Untouched: nothing of it was done
	GateDone              // Step's gate ended: OK, or Late, or Reason
	UndoDone              // Step is as it was, and its service too: OK, or Reason
	Again                 // the pause of TryAgain is over
	Halt                  // it goes no further, for Cause: the whole is late, was cancelled, or somebody has commanded what is under way
)

// Event is what happened. Time does not appear: those who wait keep it.
type Event struct {
	Kind      Kind
	Step      int
	OK        bool
	Late      bool
	Untouched bool
	Cause     Cause // of Halt
	Reason    string

	Temporary bool          // of ActDone and UndoDone: Reason may pass
	Left      time.Duration // how long the step may still take
}

// Do is what is to be done.
type Do int

// The actions. Those that record are done before the others that follow them.
const (
	RecordStep    Do = iota // Step is at Place now
	RecordTurn              // Cause, Reason
	RecordEnd               // Outcome
	Act                     // carry Step out; ActDone
	Gate                    // watch Step's service; GateDone
	Abandon                 // stop watching Step's service: no GateDone will be looked at
	Undo                    // put Step back and gate that; UndoDone
	UndoUnstarted           // put Step back, before anything is started; UndoDone
	TryAgain                // wait for Pause, for Reason; Again
)

// Action is one thing to do.
type Action struct {
	Do     Do
	Step   int
	Place  Place
	Reason string

	Temporary bool          // of RecordStep
	Pause     time.Duration // of TryAgain
}

// Pauses are how long it takes until a step is tried again that has failed for a reason
// that may pass.
var Pauses = []time.Duration{5 * time.Second, 15 * time.Second, 45 * time.Second}

// tryAgain has a step tried again, if its reason may pass and its time allows it.
func (s *State) tryAgain(e Event) (do []Action, ok bool) {
	t := &s.Steps[e.Step]
	if !e.Temporary || s.cold || t.tries >= len(Pauses) || Pauses[t.tries] >= e.Left {
		return nil, false
	}
	t.waits = true
	t.tries++
	return []Action{{Do: TryAgain, Step: e.Step, Pause: Pauses[t.tries-1], Reason: e.Reason}}, true
}

// again begins anew what has waited.
func (s *State) again(e Event) []Action {
	t := &s.Steps[e.Step]
	if !t.waits {
		return nil // the revision has turned around meanwhile
	}
	t.waits = false
	if s.Turned != NoCause {
		return []Action{{Do: Undo, Step: e.Step}}
	}
	return []Action{{Do: Act, Step: e.Step}}
}

// Unfinished tells whether a revision has ended with steps that could not be put back
// for a reason that may pass.
func (s State) Unfinished() bool {
	return s.Outcome == Partly && slices.ContainsFunc(s.Steps, func(t Step) bool { return t.Place == Stuck && t.Temporary })
}

// Resume is the state of an unfinished revision that goes on: what could not be put back
// is tried again.
func (s State) Resume() State {
	s = s.clone()
	s.Outcome = Running
	for i := range s.Steps {
		if t := &s.Steps[i]; t.Place == Stuck && t.Temporary {
			*t = Step{Wave: t.Wave, Place: Begun}
		}
	}
	return s
}

// New is a revision of steps, of which of wave 2 rolling are done at once.
func New(waves []int, rolling int) State {
	s := State{rolling: max(rolling, 1)}
	for _, wave := range waves {
		s.Steps = append(s.Steps, Step{Wave: wave})
	}
	return s
}

// Restart is a state made of records, as a successor takes it over.
func (s State) Restart(rolling int) State {
	s = s.clone()
	s.rolling = max(rolling, 1)
	for i := range s.Steps {
		t := &s.Steps[i]
		t.busy, t.acted, t.tries, t.waits = false, false, 0, false
	}
	return s
}

func (s State) clone() State {
	s.Steps = slices.Clone(s.Steps)
	return s
}

// Over tells whether the revision has ended.
func (s State) Over() bool { return s.Outcome != Running }

// rollingWave is the one that goes step by step.
const rollingWave = 2

// Next takes an event, and says what is to be done now, in this order.
func Next(s State, e Event) (State, []Action) {
	s = s.clone()
	if s.Over() {
		return s, nil
	}
	var do []Action
	switch e.Kind {
	case Go:
	case BootAgain:
		s.cold = true
		if s.Turned == NoCause && !s.all(Passed) {
			do = s.turn(BootLost, "the container ended before the gates were passed")
		}
	case ActDone:
		do = s.actDone(e)
	case GateDone:
		do = s.gateDone(e)
	case UndoDone:
		do = s.undoDone(e)
	case Again:
		do = s.again(e)
	case Halt:
		do = s.turn(e.Cause, e.Reason)
	}
	return s, append(do, s.proceed()...)
}

func (s *State) all(p Place) bool {
	return !slices.ContainsFunc(s.Steps, func(t Step) bool { return t.Place != p })
}

// turn begins the way back, unless it has begun. What is being watched is let
// go; what is being done is waited for.
func (s *State) turn(c Cause, reason string) []Action {
	if s.Turned != NoCause {
		return nil
	}
	s.Turned, s.Reason = c, reason
	do := []Action{{Do: RecordTurn, Reason: reason}}
	for i := range s.Steps {
		if t := &s.Steps[i]; t.busy && t.acted {
			t.busy = false
			do = append(do, Action{Do: Abandon, Step: i})
		} else if t.waits {
			t.busy, t.waits = false, false
		}
		s.Steps[i].tries = 0 // its undoing is tried as often
	}
	return do
}

func (s *State) actDone(e Event) []Action {
	t := &s.Steps[e.Step]
	if t.Place != Begun || !t.busy || t.acted || t.waits {
		return nil
	}
	if s.Turned == NoCause {
		if do, ok := s.tryAgain(e); ok {
			return do
		}
	}
	t.busy, t.acted = false, true
	switch {
	case e.OK && s.Turned != NoCause:
		return nil // it is undone with the others
	case e.OK:
		t.busy = true
		return []Action{{Do: Gate, Step: e.Step}}
	}
	var do []Action
	if e.Untouched {
		t.Place, t.acted = Waiting, false
		do = append(do, Action{Do: RecordStep, Step: e.Step, Place: Waiting, Reason: e.Reason})
	}
	cause := NotDone
	if e.Late {
		cause = TimedOut
	}
	return append(do, s.turn(cause, e.Reason)...)
}

func (s *State) gateDone(e Event) []Action {
	t := &s.Steps[e.Step]
	if t.Place != Begun || !t.busy || !t.acted || s.Turned != NoCause {
		return nil // abandoned
	}
	t.busy = false
	switch {
	case e.OK:
		t.Place = Passed
		return []Action{{Do: RecordStep, Step: e.Step, Place: Passed}}
	case e.Late:
		return s.turn(TimedOut, e.Reason)
	}
	return s.turn(GateLost, e.Reason)
}

func (s *State) undoDone(e Event) []Action {
	t := &s.Steps[e.Step]
	if s.Turned == NoCause || !t.busy || t.waits {
		return nil
	}
	if do, ok := s.tryAgain(e); ok {
		return do
	}
	t.busy, t.Place = false, Undone
	if !e.OK {
		t.Place, t.Reason, t.Temporary = Stuck, e.Reason, e.Temporary
	}
	return []Action{{Do: RecordStep, Step: e.Step, Place: t.Place, Reason: e.Reason, Temporary: t.Temporary}}
}

// proceed begins what can begin now.
func (s *State) proceed() []Action {
	if s.Turned == NoCause {
		return s.forward()
	}
	return s.back()
}

func (s *State) forward() (do []Action) {
	if s.all(Passed) {
		return s.end(Applied)
	}
	wave := s.wave(func(t Step) bool { return t.Place != Passed }, false)
	room := s.room(wave)
	for i := range s.Steps {
		t := &s.Steps[i]
		if t.Wave != wave || t.Place == Passed || t.busy || room == 0 {
			continue
		}
		room--
		if t.Place == Waiting {
			t.Place = Begun
			do = append(do, Action{Do: RecordStep, Step: i, Place: Begun})
		}
		t.busy, t.acted = true, false
		do = append(do, Action{Do: Act, Step: i})
	}
	return ordered(do)
}

// back undoes what was begun, the last wave first.
func (s *State) back() (do []Action) {
	touched := func(t Step) bool { return t.Place == Begun || t.Place == Passed }
	if slices.ContainsFunc(s.Steps, func(t Step) bool { return t.busy && !t.acted }) {
		return nil // an action is under way
	}
	if !slices.ContainsFunc(s.Steps, touched) {
		outcome := RolledBack
		if slices.ContainsFunc(s.Steps, func(t Step) bool { return t.Place == Stuck }) {
			outcome = Partly
		}
		return s.end(outcome)
	}
	wave := s.wave(touched, true)
	room := s.room(wave)
	for i := len(s.Steps) - 1; i >= 0; i-- {
		t := &s.Steps[i]
		if t.Wave != wave || !touched(*t) || t.busy || room == 0 {
			continue
		}
		room--
		t.busy, t.acted = true, true
		kind := Undo
		if s.cold {
			kind = UndoUnstarted
		}
		do = append(do, Action{Do: kind, Step: i})
	}
	return do
}

// wave is the first, or the last, that has a step of which is says yes.
func (s *State) wave(is func(Step) bool, last bool) int {
	found := -1
	for _, t := range s.Steps {
		if is(t) && (found < 0 || last && t.Wave > found || !last && t.Wave < found) {
			found = t.Wave
		}
	}
	return found
}

// room is how many steps of a wave may begin now.
func (s *State) room(wave int) int {
	if wave != rollingWave || s.cold {
		return len(s.Steps)
	}
	room := s.rolling
	for _, t := range s.Steps {
		if t.Wave == wave && t.busy {
			room--
		}
	}
	return max(room, 0)
}

func (s *State) end(o Outcome) []Action {
	s.Outcome = o
	return []Action{{Do: RecordEnd}}
}

// ordered puts what is recorded before what is done: one record is enough for
// all of a wave.
func ordered(do []Action) []Action {
	slices.SortStableFunc(do, func(a, b Action) int { return cmp.Compare(rank(a), rank(b)) })
	return do
}

func rank(a Action) int {
	if a.Do == RecordStep {
		return 0
	}
	return 1
}
