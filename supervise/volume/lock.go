package volume

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"rlminit/journal"
	"rlminit/plan"
	"rlminit/profiles"
	"rlminit/profiles/lease"
	"rlminit/service"
	"rlminit/supervise/jobs"
	"rlminit/supervise/revision"
	"rlminit/wire"
)

// lockKey names the volume's locks among what tier 1 holds.
const lockKey = "lock"

// Take takes the volume, if there is one and it is ours.
func (v *Volume) Take() {
	cfg := v.Config()
	var back heldBack
	say := back.line
	defer func() {
		back.release(v.Store() == nil || v.Writable() != nil)
	}()
	user, owners := v.Files()
	store, err := profiles.Open(user, owners, cfg.Home, profiles.SettingsOf(cfg), say)
	if err != nil {
		v.absent.Store(err.Error())
		slog.Warn("there is no volume; nothing is recorded", "err", err)
		return
	}
	if !cfg.Profiles {
		slog.Info("no profile is started here: they are switched off")
		v.absent.Store("profiles are off, by RLMINIT_PROFILES, --profiles or a route of main")
		return
	}
	claim := lease.NewClaim(store.Ours(), lease.Self(), say)
	var held *lease.Lease
	taken := v.Held.Take(lockKey)
	adopted := len(taken) > 0
	if adopted {
		var files []*os.File
		for _, fd := range taken {
			files = append(files, os.NewFile(uintptr(fd), lockKey))
		}
		held, err = claim.Adopt(files)
	} else {
		held, err = claim.Try()
	}
	if err != nil {
		v.absent.Store(err.Error())
		slog.Warn(err.Error())
		go v.await(claim, store, err)
		return
	}
	// One that was locked for writing before could be written to then: a disk that
	// fails now is no leave to acknowledge what is not recorded.
	if err := store.CheckWritable(); err != nil && (!adopted || held.ReadOnly()) {
		v.readOnly.Store(true)
		slog.Warn(err.Error() + "; nothing is recorded on it, no profile can be made, and it is not locked against other containers")
	}
	if adopted {
		store.SweepUnfinished()
	}
	v.own(store, held)
}

// heldBack keeps lines until it is clear whether another has said it all.
type heldBack struct {
	mu       sync.Mutex
	lines    []string
	released bool
}

func (h *heldBack) line(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		slog.Warn(text)
	} else {
		h.lines = append(h.lines, text)
	}
}

// release says what was kept, if it is of use, and everything from now on.
func (h *heldBack) release(useful bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	for _, text := range h.lines {
		if useful {
			slog.Warn(text)
		}
	}
	h.lines = nil
}

// own uses the volume from now on, and keeps its lock.
func (v *Volume) own(store *profiles.Store, held *lease.Lease) {
	v.Use(store)
	v.openRevisions(store)
	hold := func(files []*os.File) {
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		if len(fds) > 0 {
			v.Send(&wire.Hold{Key: lockKey}, fds, nil)
		}
	}
	hold(held.Files())
	ctx, release := context.WithCancel(context.Background())
	released := make(chan struct{})
	v.giveBack.Store(func() {
		release()
		<-released
	})
	looks := make(chan struct{}, 1)
	v.look.Store(func() {
		select {
		case looks <- struct{}{}:
		default:
		}
	})
	go func() {
		defer close(released)
		if err := held.Keep(ctx, looks, hold); err != nil {
			slog.Error("the volume was taken by another container while this one was silent; its profiles end here", "err", err)
			v.lose(err)
			return
		}
		if err := held.Release(); err != nil {
			slog.Warn("cannot release the volume's lock", "err", err)
		}
	}()
}

// lose ends all profiles: another container runs them.
func (v *Volume) lose(why error) {
	v.Journal.lose()
	v.absent.Store(why.Error())
	v.store.Store(nil)
	if r := v.revisions.Swap(nil); r != nil {
		r.Stop()
	}
	v.Lost()
}

// await takes the volume over when the container that has it gives it up, or
// what is wrong with it is mended. why is what it is waiting for so far.
func (v *Volume) await(claim *lease.Claim, store *profiles.Store, why error) {
	held, err := claim.Wait(context.Background(), 2*time.Second, func(now error) {
		v.absent.Store(now.Error())
		var before, other *lease.Held // who says since when somebody has it, and that changes
		if errors.As(now, &other) != errors.As(why, &before) || other == nil && now.Error() != why.Error() {
			slog.Warn(now.Error())
		}
		why = now
	})
	if err != nil {
		slog.Error("cannot wait for the volume", "err", err)
		return
	}
	slog.Info("the volume is free, and in order; its profiles are started here now")
	v.own(store, held)
	v.Rewind() // no profile was started here
	v.Watch()
	v.Took()
}

// Watch tells of profiles that appear on the volume by other means. Of
// those that it does not hear of nothing is said: somebody may be in the
// middle of a change, and says reload at its end.
func (v *Volume) Watch() {
	changes := v.Store().Watch().Changes()
	go func() {
		for change := range changes {
			v.Look(change.Names...) // none, if all may have changed
		}
	}()
}

// Use makes a store that of a volume which is ours: it opens its journal, and has the store
// keep its intents there. One that cannot be used is said, and from then on nothing can be
// recorded.
func (v *Volume) Use(store *profiles.Store) {
	v.Journal.lost.Store(false)
	v.openJournal(store)
	v.store.Store(store)
}

func (v *Volume) openJournal(store *profiles.Store) {
	c := v.Journal
	c.boot = v.BootID()
	say := func(line string) { slog.Warn(line) }
	if c.silent = v.readOnly.Load(); c.silent {
		say = func(string) {} // that nothing can be written here was said
	}
	j, err := journal.Open(store.Ours(), journal.Options{
		Boot: c.boot, Folds: c.folds, Say: say,
		Held: func() bool { return !c.lost.Load() }, Fault: c.Fault,
	})
	if err != nil {
		slog.Error("the journal is not used, and nothing is recorded: " + err.Error())
		store.Records.RefuseIntents(err)
		return
	}
	store.Records.UseJournal(j, c.intents, c.users)
	if c.Hooks != nil {
		c.Hooks.Begin(jobs.Recorded(j, c.jobs, c.boot)) // before anything happens that they are told
	}
	c.Open.Store(j)
	v.recordBoot(j)
	v.Recall(c.earlier(j))
}

// recordBoot records that this boot has begun, unless a supervisor before did.
func (v *Volume) recordBoot(j *journal.Journal) {
	machine, err := journal.MachineBoot()
	if err != nil {
		slog.Warn(err.Error())
	}
	var begun journal.BootBegun
	recorded := false
	j.View(func() { begun, recorded = v.Journal.boots.Begin(v.Journal.boot, machine) })
	v.prior.Store(string(begun.PriorExit))
	if recorded || v.Journal.silent {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootRecordPatience)
	defer cancel()
	if _, err := j.Append(ctx, journal.Entry{Type: journal.TypeBootBegun, Body: begun}); err != nil {
		slog.Warn("cannot record that this boot has begun", "err", err)
	}
}

// openRevisions makes ready what carries plans out. store is the volume's, and
// its lock is ours.
func (v *Volume) openRevisions(store *profiles.Store) {
	c := v.Journal
	if j := c.Open.Load(); j != nil { // else that was said
		ledger := revision.Journal{Journal: j, Records: c.revisions, BootID: c.boot}
		v.revisions.Store(revision.New(v.Box, ledger, revision.Files{Home: store.Ours()}, v.applying))
	}
}

// Rewind puts back, before anything is started, what an apply was in the middle of when
// the container ended.
func (v *Volume) Rewind() {
	if r := v.Revisions(); r != nil {
		r.Rewind()
	}
}

// Resume goes on with what an apply was in the middle of when our predecessor ended.
func (v *Volume) Resume() {
	if r := v.Revisions(); r != nil {
		r.Resume()
	}
}

// applying is what root's configuration says of who may apply.
func (v *Volume) applying() revision.Settings {
	settings := revision.Settings{User: v.User}
	if page := v.Config().Page; page != nil && page.Allow == service.ControlApprove {
		settings.Page = v.Page
	}
	if rules := v.Config().Apply; rules != nil {
		settings.Allow = []plan.Rule{}
		for _, r := range rules {
			settings.Allow = append(settings.Allow, plan.Rule{UID: r.UID, Scope: r.Scope})
		}
		if settings.Page != 0 {
			settings.Allow = append(settings.Allow, plan.Rule{UID: settings.Page, Scope: "all"})
		}
	}
	return settings
}

// GiveBack gives the lock back, if the volume is ours.
func (v *Volume) GiveBack() {
	if giveBack, taken := v.giveBack.Load().(func()); taken {
		giveBack()
	}
}
