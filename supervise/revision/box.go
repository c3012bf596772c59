package revision

import (
	"context"
	"errors"
	"time"

	"rlminit/plan"
	"rlminit/plan/apply"
	"rlminit/service"
)

// Found is a profile that there is.
type Found struct {
	Name    string
	Content Content
	Fault   string // why it cannot be run
	Astray  string // what is wanted is not so: "failed: …"
	Up      bool   // it is ready
	Kept    bool   // it cannot be deleted
}

// Content is all of a profile that a revision changes.
type Content struct {
	Text    []byte            `json:"text"` // profile.yaml; null: there is none
	State   service.Intent    `json:"state"`
	Secrets map[string]string `json:"secrets,omitempty"`
}

// Box is what a revision changes. Its calls may take their time; all of them
// may be done again.
type Box interface {
	// Profiles is every profile, Profile one of them, or ErrGone.
	Profiles() ([]Found, error)
	Profile(name string) (Found, error)
	// Judge says what is wrong with a declared profile, and whether a process of
	// the profile of that name, as it is, would have to be replaced.
	Judge(plan.Wanted) (restarts bool, faults error)
	// Secrets tells whether there is a way to give services secrets.
	Secrets() bool

	// Put makes a profile what it is to be: creates it where create says so,
	// writes what differs, and has it supervised. Cold: nothing is supervised
	// yet, only what is recorded is to change.
	Put(ctx context.Context, name string, c Content, how Put) error
	// Discard stops a profile's service and moves it into the trash, as trash.
	Discard(ctx context.Context, name, trash string, how Put) error
	// Restore takes a profile back out of the trash; Put comes after it.
	Restore(name, trash string) error
	// Begin notes what is done about a profile as an operation, and returns its id;
	// End notes what came of it, and why it failed, if it did. halted is called if
	// somebody cancels it, or commands the profile meanwhile.
	Begin(verb, name string, actor uint32, halted func(cancelled bool, why string)) (id uint64)
	End(id uint64, name, why string)
	// Gate waits until a service has been ready for as long as steady says, or is
	// down. The error is why that will not be, or ctx's.
	Gate(ctx context.Context, name string, up bool, steady time.Duration) error
}

// Put says how a profile is changed.
type Put struct {
	Create    bool
	Cold      bool
	Actor     uint32
	Operation uint64 // that this is a part of; 0: none
}

// ErrGone is a profile, or what was in the trash, that is not there.
var ErrGone = errors.New("it is not there")

// Ledger is where revisions are recorded.
type Ledger interface {
	// Record returns when the record is durable, and the fold has it.
	Record(kind string, body any) error
	// View shows the fold of the records. f returns at once.
	View(f func(*apply.Fold))
	// Boot is the id of this start of the container, Volume that of the volume.
	Boot() string
	Volume() string
}

// Archive keeps what a record has no room for.
type Archive interface {
	Save(number int, data []byte) error
	Load(number int) ([]byte, error)
}

// Settings are what root's configuration says.
type Settings struct {
	Allow []plan.Rule // nil: whoever may command
	User  uint32      // who may command beside root
}

// Document is what is kept of a revision.
type Document struct {
	Revision int                     `json:"revision"`
	Plan     string                  `json:"plan"` // as it was approved; "": a rollback
	Scope    plan.Scope              `json:"scope"`
	Salt     string                  `json:"salt"`
	Declared map[string]plan.Profile `json:"declared"` // all of its scope, whether changed or not
	Steps    []Kept                  `json:"steps"`
}

// Kept is one step's profile before and after; null: there is none.
type Kept struct {
	Name   string   `json:"name"`
	Action string   `json:"action"`
	Before *Content `json:"before"`
	After  *Content `json:"after"`
	Up     bool     `json:"up"`    // it was ready before
	Trash  string   `json:"trash"` // the name that it has in the trash, once it is deleted
	From   string   `json:"from"`  // the name that it had there; "": it is created anew
}
