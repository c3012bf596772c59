package apply

import (
	"slices"

	"rlminit/journal/places"
)

// The types of the records in the journal.
const (
	TypeBegun   = "revision_begun"
	TypeStep    = "revision_step"
	TypeTurned  = "revision_turned"
	TypeEnded   = "revision_ended"
	TypeResumed = "revision_resumed"
	TypeRefused = "apply_refused"
	// TypePlanRefused is a RecordedRefusal without a hash.
	TypePlanRefused = "plan_refused"
	TypeProposed    = "plan_proposed"
	TypeWithdrawn   = "plan_withdrawn"
)

// RecordedProposal says that a plan waits for approval, or that it was taken back.
type RecordedProposal struct {
	Hash string `json:"hash"`
	UID  uint32 `json:"uid"` // who asked
	By   string `json:"by"`  // for whom, as the caller says
}

// RecordedBegun says that a revision exists.
type RecordedBegun struct {
	Revision int       `json:"revision"`
	Hash     string    `json:"hash"` // of the plan
	UID      uint32    `json:"uid"`  // who asked
	By       string    `json:"by"`   // who approved, as the caller says
	Source   string    `json:"source"`
	Request  string    `json:"request"`               // the caller's own id of it
	Rollback *int      `json:"rollback_to,omitempty"` // a rollback: to which revision
	Steps    []Planned `json:"steps"`
	Left     []string  `json:"left,omitempty"` // what a rollback does not take back, for people
	// Single: it gave one profile other values, or took that back. A rollback without a number
	// passes over it, and it is counted apart.
	Single bool `json:"single,omitempty"`
	// Quiet: it changes what services are started with from now on, and no process.
	Quiet      bool  `json:"quiet,omitempty"`
	Rolling    int   `json:"rolling"`
	SteadyMS   int64 `json:"steady_ms"`
	TimeoutMS  int64 `json:"timeout_ms"`
	DeadlineMS int64 `json:"deadline_ms"`
}

// Planned is a step as it was begun.
type Planned struct {
	Name   string `json:"name"` // of the profile
	Action string `json:"action"`
	Wave   int    `json:"wave"`
	Note   string `json:"note,omitempty"` // for people, once it is done

	Secrets []string `json:"secrets,omitempty"` // names of those that it brings back
}

// RecordedStep says where some steps are now.
type RecordedStep struct {
	Revision int    `json:"revision"`
	Steps    []int  `json:"steps"`
	Place    Place  `json:"place"`
	Reason   string `json:"reason,omitempty"`
	// Temporary: of steps that are stuck, for a reason that may pass.
	Temporary bool `json:"temporary,omitempty"`
}

// RecordedResume says that a revision that had ended unfinished goes on.
type RecordedResume struct {
	Revision int `json:"revision"`
}

// RecordedTurn says that a revision is being rolled back.
type RecordedTurn struct {
	Revision int    `json:"revision"`
	Cause    Cause  `json:"cause"`
	Reason   string `json:"reason"`
}

// RecordedEnd says what became of a revision.
type RecordedEnd struct {
	Revision int     `json:"revision"`
	Outcome  Outcome `json:"outcome"`
}

// RecordedRefusal says that nothing was touched, and why.
type RecordedRefusal struct {
	Hash     string `json:"hash,omitempty"`
	Source   string `json:"source,omitempty"` // the declared file
	UID      uint32 `json:"uid"`
	By       string `json:"by,omitempty"`
	ExitCode int    `json:"exit_code"`
	Reason   string `json:"reason"`
}

// Known is a revision, as the records have it.
type Known struct {
	Begun RecordedBegun `json:"begun"`
	State State         `json:"state"`

	At    string `json:"at"` // RFC 3339, of its begin and its end
	Ended string `json:"ended,omitempty"`
	Boot  string `json:"boot"` // the last start of the container that did anything of it
}

// maxKnown bounds how many revisions are remembered, and how many single ones.
const maxKnown = 1000

// Fold is every revision, as the records make them. Its zero value is that of
// a volume without records.
type Fold struct {
	Revisions []Known `json:"revisions"`
	// Gone is where the profiles that revisions are about have gone by hand, by the name
	// that these have them by, and that no profile has had since.
	Gone map[string]places.Place `json:"places,omitempty"`
}

// Moved takes that a directory is in another place: by hand, or by a step, which nobody
// asks about.
func (f *Fold) Moved(m places.Move) {
	for name, at := range f.Gone {
		if at == m.From {
			f.Gone[name] = m.To
		}
	}
	if name, is := m.From.Profile(); is && f.about(name) {
		f.Left(name, m.To)
	}
	if name, is := m.To.Profile(); is {
		f.Appear(name)
	}
}

// Left takes where the profile of a name is, which is that no more.
func (f *Fold) Left(name string, at places.Place) {
	if f.Gone == nil {
		f.Gone = map[string]places.Place{}
	}
	f.Gone[name] = at
}

// Appear takes that there is a profile of a name.
func (f *Fold) Appear(name string) { delete(f.Gone, name) }

// about tells whether a revision is about a profile of a name.
func (f *Fold) about(name string) bool {
	return slices.ContainsFunc(f.Revisions, func(k Known) bool {
		return slices.ContainsFunc(k.Begun.Steps, func(p Planned) bool { return p.Name == name })
	})
}

// Begin takes a RecordedBegun.
func (f *Fold) Begin(r RecordedBegun, at, boot string) {
	if f.Find(r.Revision) != nil || r.Revision <= 0 {
		return
	}
	k := Known{Begun: r, At: at, Boot: boot}
	for _, p := range r.Steps {
		k.State.Steps = append(k.State.Steps, Step{Wave: p.Wave})
	}
	f.Revisions = append(f.Revisions, k)
	if len(f.Revisions) > maxKnown {
		newest := f.Newest(maxKnown)
		f.Revisions = slices.DeleteFunc(f.Revisions, func(k Known) bool { return !newest[k.Begun.Revision] })
	}
}

// Newest are the numbers of the newest n revisions, and of the newest n single ones.
func (f *Fold) Newest(n int) map[int]bool {
	left := map[bool]int{false: n, true: n}
	newest := map[int]bool{}
	for i := len(f.Revisions) - 1; i >= 0; i-- {
		begun := &f.Revisions[i].Begun
		if left[begun.Single] > 0 {
			left[begun.Single]--
			newest[begun.Revision] = true
		}
	}
	return newest
}

// Move takes a RecordedStep.
func (f *Fold) Move(r RecordedStep, boot string) {
	k := f.Find(r.Revision)
	if k == nil {
		return
	}
	k.Boot = boot
	for _, i := range r.Steps {
		if i >= 0 && i < len(k.State.Steps) {
			t := &k.State.Steps[i]
			t.Place, t.Reason, t.Temporary = r.Place, r.Reason, r.Temporary
		}
	}
}

// Turn takes a RecordedTurn.
func (f *Fold) Turn(r RecordedTurn, boot string) {
	if k := f.Find(r.Revision); k != nil && k.State.Turned == NoCause {
		k.State.Turned, k.State.Reason, k.Boot = r.Cause, r.Reason, boot
	}
}

// End takes a RecordedEnd.
func (f *Fold) End(r RecordedEnd, at, boot string) {
	if k := f.Find(r.Revision); k != nil && !k.State.Over() {
		k.State.Outcome, k.Ended, k.Boot = r.Outcome, at, boot
	}
}

// Resume takes a RecordedResume.
func (f *Fold) Resume(r RecordedResume, boot string) {
	if k := f.Find(r.Revision); k != nil && k.State.Unfinished() {
		k.State, k.Ended, k.Boot = k.State.Resume(), "", boot
	}
}

// Unfinished is the newest revision if it has ended unfinished, or nil: what is of older
// ones the newest has taken over.
func (f *Fold) Unfinished() *Known {
	if n := len(f.Revisions); n > 0 && f.Revisions[n-1].State.Unfinished() {
		return &f.Revisions[n-1]
	}
	return nil
}

// Find is the revision of that number, or nil.
func (f *Fold) Find(number int) *Known {
	i := slices.IndexFunc(f.Revisions, func(k Known) bool { return k.Begun.Revision == number })
	if i < 0 {
		return nil
	}
	return &f.Revisions[i]
}

// Open is the revision that has not ended, or nil. There is never more than one.
func (f *Fold) Open() *Known {
	if n := len(f.Revisions); n > 0 && !f.Revisions[n-1].State.Over() {
		return &f.Revisions[n-1]
	}
	return nil
}

// Last is the newest number; 0: none.
func (f *Fold) Last() int {
	if n := len(f.Revisions); n > 0 {
		return f.Revisions[n-1].Begun.Revision
	}
	return 0
}

// LastApplied is the newest revision that was applied, 0 if none was. One that
// left something behind counts: what is there is no longer what was before. A single one
// is to a plan a change by hand.
func (f *Fold) LastApplied() int {
	for _, k := range slices.Backward(f.Revisions) {
		if !k.Begun.Single && (k.State.Outcome == Applied || k.State.Outcome == Partly) {
			return k.Begun.Revision
		}
	}
	return 0
}
