package volume

import (
	"errors"
	"log/slog"
	"sync/atomic"

	"rlminit/config"
	"rlminit/control"
	"rlminit/journal"
	"rlminit/profiles"
	"rlminit/rights"
	"rlminit/supervise/handover"
	"rlminit/supervise/revision"
	"rlminit/wire"
)

// Volume is the store of the volume, as far as it is ours, with its lock, its journal and
// its revisions. Anybody may call it but the loop, which asks for what is there only.
type Volume struct {
	Journal *Journal
	Given

	store     atomic.Pointer[profiles.Store]     // nil: there is none, or it is another container's
	revisions atomic.Pointer[revision.Revisions] // nil: the volume is not ours
	prior     atomic.Value                       // string: how the boot before ended
	absent    atomic.Value                       // string: why there is no store
	unknown   atomic.Pointer[error]              // why a successor cannot tell what the volume has; nil: it can, or nothing was taken before it
	readOnly  atomic.Bool                        // it cannot be written to: configuration and volume alone decide what runs
	giveBack  atomic.Value                       // func(): gives the lock back; nil: it was not taken
	look      atomic.Value                       // func(): has the lock's file looked at; nil likewise
}

// Given is what a Volume is given before it is taken.
type Given struct {
	Config func() *config.Config
	Files  func() (*rights.User, profiles.Owners) // who touches the files on it
	User   uint32                                 // the services'
	Page   uint32                                 // the page's; 0: it has none of its own
	Box    revision.Box                           // what revisions change
	Held   handover.Held                          // of tier 1
	BootID func() string                          // the id of this start of the container
	Send   func(m wire.Message, fds, after []int) // to tier 1

	Known func() string      // the place of the volume that a predecessor has taken; "": none
	Note  func(place string) // notes it for a successor

	Recall func(before []control.Operation, last uint64) // told of operations of before
	Look   func(names ...string)                         // told of profiles that may have changed; none: all
	Took   func()                                        // told when it has come to be ours, and was not at the boot
	Lost   func()                                        // told when it is another container's
	Gone   func()                                        // makes the supervisor's directories on it again that somebody has removed; nil: nobody does
}

// Revisions is what carries plans out; nil: the volume is not ours.
func (v *Volume) Revisions() *revision.Revisions { return v.revisions.Load() }

// LookAtLock has somebody see whether the lock's file is still there. It does not wait.
func (v *Volume) LookAtLock() {
	if look, _ := v.look.Load().(func()); look != nil {
		look()
	}
}

// Store is nil where there is no volume, or it is another container's.
func (v *Volume) Store() *profiles.Store { return v.store.Load() }

// Unknown says why nothing can be said of what the volume has, though a predecessor had taken
// it: what runs of it goes on. Store is nil then.
func (v *Volume) Unknown() error {
	if why := v.unknown.Load(); why != nil {
		return *why
	}
	return nil
}

// NotOurs says why nothing may be made on it: another container has taken it, or it is not
// what a predecessor had. Nil: nothing is known against it.
func (v *Volume) NotOurs() error {
	if v.Journal.lost.Load() {
		return errors.New("another container has the volume")
	}
	return v.Unknown()
}

// Absent says why there is no store.
func (v *Volume) Absent() string {
	why, _ := v.absent.Load().(string)
	return why
}

// PriorExit is how the boot before ended, as container-boot.log says it.
func (v *Volume) PriorExit() string {
	if prior, ok := v.prior.Load().(string); ok {
		return prior
	}
	return string(journal.ExitUnknown)
}

// Secrets is where the secrets lie that a profile was declared with; "": it has
// none.
func (v *Volume) Secrets(profile string) string {
	if store := v.Store(); store != nil {
		return store.Secrets.Dir(profile)
	}
	return ""
}

// ReadOnly tells whether it could not be written to when that was tried last.
func (v *Volume) ReadOnly() bool { return v.readOnly.Load() }

// Writable is the store where the volume can be written to, else nil. One that could not be
// when it was opened is tried again: somebody may have given it to us meanwhile.
func (v *Volume) Writable() *profiles.Store {
	store := v.Store()
	if store == nil || !v.readOnly.Load() {
		return store
	}
	if store.CheckWritable() != nil {
		return nil
	}
	v.readOnly.Store(false)
	slog.Info("the volume can be written to now; what is asked for is recorded from here on")
	return store
}
