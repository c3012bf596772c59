package revision

import (
	"context"
	"errors"
	"time"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/plan/apply"
	"rlminit/service"
)

// Found is a profile that there is.
type Found struct {
	Name    string
	Content Content
	Fault   string // why it cannot be run
	Astray  string // the difference from the desired state: "failed: …"
	Up      bool   // it is ready
	Kept    bool   // it cannot be deleted
	Unread  string // why its files cannot be read, so that Content is not known; "": it is
	Down    bool   // it is to run, and is not up
	Older   string // of what runs: which values it has had before, and has no more; "": none
}

// Content is all of a profile that a revision changes.
type Content struct {
	Text    []byte            `json:"text"`  // profile.yaml; null: there is none
	State   service.Intent    `json:"state"` // IntentNone: whatever it is, stays
	Secrets map[string]string `json:"secrets,omitempty"`

	Forgotten []string `json:"forgotten,omitempty"` // secrets that it had, and that are kept no longer
}

// Box is the object of a revision. Its calls may take their time; all of them
// may be done again.
type Box interface {
	// Profiles is every profile, Profile one of them, or ErrGone.
	Profiles() ([]Found, error)
	Profile(name string) (Found, error)
	// Judge names the faults of a declared profile, and whether a process of
	// the profile of that name, as it is, would have to be replaced.
	Judge(plan.Wanted) (restarts bool, faults error)
	// Taken tells whether a service of the configuration has a name, so that no
	// profile can get it.
	Taken(name string) bool
	// Ports is why not all of some new profiles, each with its kind, can have a port, if their
	// kinds want one.
	Ports(kinds map[string]string) error

	// Configuration is root's, which has its path for a name, and Replaceable why
	// another cannot be put in its place. Preview is what another text would come
	// to; the error is of the text, which file is the name of.
	Configuration() (Found, error)
	Replaceable() error
	Preview(file string, text []byte) (Effects, error)
	// Running tells which of some services are up.
	Running([]plan.Affected) []Touched

	// Put brings a profile to its target: creates it where create says so,
	// writes what differs, and has it supervised. Cold: nothing is supervised
	// yet, only records are to change.
	Put(ctx context.Context, name string, c Content, how Put) error
	// Discard stops a profile's service and moves it into the trash, as trash.
	Discard(ctx context.Context, name, trash string, how Put) error
	// Restore takes a profile back out of the trash with these secrets, in the place of
	// its own; Put comes after it. Trashed is what it is there, or ErrGone.
	Restore(name, trash string, secrets map[string]string, actor uint32) error
	Trashed(name, trash string) (Content, error)
	// Meant are the profiles that somebody means by names, patterns and a kind. Other is the
	// profile.yaml of one with another environment, of which a nil value is removed, or what is
	// wrong with that.
	Meant(names []string, kind string) ([]string, error)
	Other(f Found, environment map[string]*string) ([]byte, error)
	// Restart begins to have the gateways of profiles started again, and returns the id of
	// that operation.
	Restart(ctx context.Context, profiles []string, how Restart) (uint64, error)
	// Announce has others wait for the gateways of profiles that are about to be created and
	// started, as for any that are on their way. Withdraw is for those that were not.
	Announce(profiles []string)
	Withdraw(profiles []string)
	// Begin notes the act of a step as an operation, and returns its id; End
	// notes what came of it, and why it failed, if it did. halted is called if
	// somebody cancels it, or commands a service of it meanwhile.
	Begin(verb string, k Kept, actor uint32, halted func(Halted)) (id uint64)
	End(id uint64, k Kept, why string)
	// Gate waits until a service is up, and has been for as long as how says, or is
	// down. The error is why that will not be, Halted, or ctx's.
	Gate(ctx context.Context, name string, how Gating) error
}

// Gating is the target of a service; of the configuration, of each that it touches.
type Gating struct {
	Up        bool // else down
	Steady    time.Duration
	Operation uint64 // that this is a part of
	Services  []Touched
	Back      bool // to its former state
}

// Restart says how gateways are started again.
type Restart struct {
	Rolling int // at most so many are out of service at once; 0: in one go
	Steady  time.Duration
	Actor   control.Actor
}

// Effects are what another configuration would come to.
type Effects struct {
	Services  []plan.Affected
	Container []string // what of it would need a new container
	Later     []string // what of it would count from a next start on
	Judge     func(plan.Wanted) (restarts bool, faults error)
	Taken     func(name string) bool
	Ports     func(kinds map[string]string) error
}

// Touched is a service that a change of the configuration touches.
type Touched struct {
	Service string `json:"service"`
	Effect  string `json:"effect"`
	Up      bool   `json:"up"` // it was ready before
}

// Halted is why a change goes no further, by no fault of its service.
type Halted struct {
	Cancelled bool // else somebody has commanded it
	Why       string
}

func (h Halted) Error() string { return h.Why }

// Put says how a profile is changed.
type Put struct {
	Create    bool
	Cold      bool
	Quiet     bool // what runs goes on as it is
	Actor     uint32
	Operation uint64 // that this is a part of; 0: none
	Services  []Touched
	Rolling   int // how many of them are restarted at once
}

// ErrGone is a profile, or an entry of the trash, that is not there.
var ErrGone = errors.New("it is not there")

// Recorder is where revisions are recorded: the journal.
type Recorder interface {
	// Record returns when the record is durable, and the fold has it.
	Record(kind string, body any) error
	// View shows the fold of the records. f returns at once.
	View(f func(*apply.Fold))
	// Boot is the id of this start of the container, Volume that of the volume.
	Boot() string
	Volume() string
}

// Archive keeps the contents that a record has no room for.
type Archive interface {
	Save(number int, data []byte) error
	Load(number int) ([]byte, error)
	Room() error // why nothing can be written
	// Keep removes the files of all revisions but those that it names.
	Keep(those map[int]bool)
	// Path is that of a revision's file.
	Path(number int) string

	// SavePlan keeps what there is of a plan that waits for approval, LoadPlans reads
	// all, or those of some hashes, and RemovePlan forgets one, which need not be there.
	SavePlan(hash string, data []byte) error
	LoadPlans(each func(hash string, data []byte), only ...string) error
	RemovePlan(hash string) error
}

// Settings are what root's configuration says.
type Settings struct {
	Allow []plan.Rule // nil: every user that may command
	User  uint32      // the user that may command beside root
	Page  uint32      // the page, if it may approve; 0: nobody
}

// Document is the content of a revision's file.
type Document struct {
	Revision int        `json:"revision"`
	Plan     string     `json:"plan"` // as it was approved; "": a rollback
	Scope    plan.Scope `json:"scope"`
	// Quiet: as in its record.
	Quiet    bool                    `json:"quiet,omitempty"`
	Salt     string                  `json:"salt"`
	Declared map[string]plan.Profile `json:"declared"` // all of its scope, whether changed or not
	Steps    []Kept                  `json:"steps"`
	Gone     []string                `json:"gone,omitempty"` // profiles that a rollback would take away, and somebody has
	Left     []string                `json:"left,omitempty"` // and the names that these have by now
}

// changes are those of the plan that the steps carry out.
func (d *Document) changes() []plan.Change {
	all := make([]plan.Change, len(d.Steps))
	for i := range d.Steps {
		all[i] = d.Steps[i].change
	}
	return all
}

// Kept is one step's profile, or configuration, before and after; null: there is
// none.
type Kept struct {
	Name   string   `json:"name"`
	Action string   `json:"action"`
	Before *Content `json:"before"`
	After  *Content `json:"after"`
	Up     bool     `json:"up"`    // it was ready before
	Trash  string   `json:"trash"` // the name that it has in the trash, once it is deleted, or its creation undone
	From   string   `json:"from"`  // the name that it had there; "": it is created anew
	Was    *Content `json:"was"`   // its state there
	Note   string   `json:"note"`  // a note for people on its directory

	change plan.Change // of the plan, until the revision begins

	Services []Touched `json:"services,omitempty"` // of the configuration
	Secrets  []string  `json:"secrets,omitempty"`  // names of those that a rollback brings back
}
