package volume

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

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

// Bounds of how the volume is tried again: within a boot, for a cause that passes; and
// afterwards, for any, without end.
const (
	againInBoot = 2 * time.Second
	againFirst  = 10 * time.Millisecond
	againLast   = 30 * time.Second
)

// Take takes the volume, if there is one and it is ours. One that cannot be opened is tried
// again, beside the boot, until it can.
func (v *Volume) Take() {
	var back heldBack
	defer func() {
		back.release(v.Store() == nil || v.Writable() != nil)
	}()
	pause, deadline := againFirst, time.Now().Add(againInBoot)
	store, err := v.open(back.line)
	for ; passes(err) && time.Now().Before(deadline); pause *= 2 {
		time.Sleep(pause)
		store, err = v.open(back.line)
	}
	if err == nil {
		v.take(store, back.line)
		return
	}
	v.refuse(err)
	if v.Unknown() != nil {
		slog.Error("the volume is not as it was; what runs goes on, and it is looked at again until it is", "err", err)
	} else {
		slog.Warn("there is no volume; nothing is recorded", "err", err)
	}
	if v.Config().Home != "" {
		go v.again(err)
	}
}

// open opens the store: for a successor, that of its predecessor.
func (v *Volume) open(say func(string)) (*profiles.Store, error) {
	cfg := v.Config()
	user, owners := v.Files()
	return profiles.Reopen(user, owners, cfg.Home, profiles.SettingsOf(cfg), say, v.known())
}

// known is the place of the volume that was taken before.
func (v *Volume) known() string {
	if v.Known == nil {
		return ""
	}
	return v.Known()
}

// passes tells whether a cause may be over at any moment.
func passes(err error) bool {
	return slices.ContainsFunc([]error{
		unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.EAGAIN, unix.ETOOMANYREFS, unix.EINTR,
	}, func(cause error) bool { return errors.Is(err, cause) })
}

// refuse notes why there is no store.
func (v *Volume) refuse(why error) {
	v.absent.Store(why.Error())
	if v.known() != "" {
		v.unknown.Store(&why)
	}
}

// again opens the store as soon as it can be, and goes on with it.
func (v *Volume) again(why error) {
	say := func(line string) { slog.Warn(line) }
	for pause := time.Second; ; pause = min(2*pause, againLast) {
		time.Sleep(pause)
		store, err := v.open(say)
		if err != nil {
			if err.Error() != why.Error() {
				slog.Warn("the volume cannot be opened", "err", err)
				why = err
			}
			v.refuse(err)
			continue
		}
		slog.Info("the volume is there now")
		begun := v.known() != "" // else no profile was started here
		if v.take(store, say); v.Store() == nil {
			return // another container has it, or profiles are off
		}
		if !begun {
			v.Rewind()
		}
		v.Watch()
		v.Took()
		return
	}
}

// take claims the volume of a store that is open.
func (v *Volume) take(store *profiles.Store, say func(string)) {
	cfg := v.Config()
	var err error
	if !cfg.Profiles {
		slog.Info("no profile is started here: they are switched off")
		v.absent.Store("profiles are off, by RLMINIT_PROFILES, --profiles or a route of main")
		v.unknown.Store(nil)
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
		v.refuse(err)
		if other := (*lease.Held)(nil); errors.As(err, &other) {
			v.unknown.Store(nil) // another container runs what there is
		}
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
	if place := store.Place(); v.Note != nil && place != "" {
		v.Note(place)
	}
	v.Use(store)
	v.unknown.Store(nil) // from here on the store says what there is
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
		Held: func() bool { return !c.lost.Load() }, Fault: c.Fault, Gone: v.Gone,
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
