package supervise

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"rlminit/control"
	"rlminit/journal"
	"rlminit/plan"
	"rlminit/profiles"
	"rlminit/profiles/lease"
	"rlminit/supervise/handover"
	"rlminit/supervise/revision"
	"rlminit/supervise/spawn"
	"rlminit/wire"
)

// lockKey names the volume's locks among what tier 1 holds.
const lockKey = "lock"

// tenure is the time for which the volume is ours: it takes the volume's lock, waits
// for it, loses it and gives it back, and opens what is kept on the volume. Tier 1
// holds the lock too. Its methods may wait, and so are for any goroutine but the loop.
type tenure struct {
	loop      *mailbox
	tier1     *spawn.Tier1
	prep      *preparer
	fleet     *fleet
	records   *records
	directory *directory
	commands  *commands
	logging   *logging
	jobs      *jobHost
	box       revision.Box // what revisions change

	revisions atomic.Pointer[revision.Revisions] // nil: the volume is not ours
	giveBack  func()                             // the lock; nil: it was not taken. The loop's
}

// openVolume takes the volume, if there is one and it is ours.
func (t *tenure) openVolume() {
	cfg := t.prep.config()
	back := heldBack{say: warn}
	say := back.line
	defer func() {
		back.release(t.prep.volume.Store() == nil || t.prep.volume.canRecord())
	}()
	store, err := profiles.Open(t.prep.user, t.prep.profileUsers(), cfg.Home, profiles.SettingsOf(cfg), say)
	if err != nil {
		t.prep.volume.absent.Store(err.Error())
		slog.Warn("there is no volume; nothing is recorded", "err", err)
		return
	}
	if !cfg.Profiles {
		slog.Info("no profile is started here: they are switched off")
		t.prep.volume.absent.Store("profiles are off, by RLMINIT_PROFILES, --profiles or a route of main")
		return
	}
	claim := lease.NewClaim(store.Ours(), lease.Self(), say)
	var held *lease.Lease
	taken := t.tier1.Held.Take(lockKey)
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
		t.prep.volume.absent.Store(err.Error())
		slog.Warn(err.Error())
		go t.awaitVolume(claim, store, err)
		return
	}
	// One that was locked for writing before could be written to then: a disk that
	// fails now is no leave to acknowledge what is not recorded.
	if err := store.CheckWritable(); err != nil && (!adopted || held.ReadOnly()) {
		t.prep.volume.readOnly.Store(true)
		slog.Warn(err.Error() + "; nothing is recorded on it, no profile can be made, and it is not locked against other containers")
	}
	if adopted {
		store.SweepUnfinished()
	}
	t.own(store, held)
}

// heldBack keeps lines until it is clear whether another has said it all.
type heldBack struct {
	say func(string)

	mu       sync.Mutex
	lines    []string
	released bool
}

func (h *heldBack) line(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		h.say(text)
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
			h.say(text)
		}
	}
	h.lines = nil
}

// own uses the volume from now on, and keeps its lock.
func (t *tenure) own(store *profiles.Store, held *lease.Lease) {
	t.records.chronicle.lost.Store(false)
	t.openJournal(store)
	t.prep.volume.store.Store(store)
	t.openRevisions(store)
	hold := func(files []*os.File) {
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		if len(fds) > 0 {
			t.tier1.Send(&wire.Hold{Key: lockKey}, fds, nil)
		}
	}
	hold(held.Files())
	ctx, release := context.WithCancel(context.Background())
	released := make(chan struct{})
	t.loop.ask(func() {
		t.giveBack = func() {
			release()
			<-released
		}
	})
	go func() {
		defer close(released)
		if err := held.Keep(ctx, hold); err != nil {
			slog.Error("the volume was taken by another container while this one was silent; its profiles end here", "err", err)
			t.loseVolume(err)
			return
		}
		if err := held.Release(); err != nil {
			slog.Warn("cannot release the volume's lock", "err", err)
		}
	}()
}

// loseVolume ends all profiles: another container runs them.
func (t *tenure) loseVolume(why error) {
	t.records.chronicle.lose()
	t.prep.volume.absent.Store(why.Error())
	t.prep.volume.store.Store(nil)
	if r := t.revisions.Swap(nil); r != nil {
		r.Stop()
	}
	t.jobs.record()
	t.directory.registry.Look()
}

// awaitVolume takes the volume over when the container that has it gives it up, or
// what is wrong with it is mended. why is what it is waiting for so far.
func (t *tenure) awaitVolume(claim *lease.Claim, store *profiles.Store, why error) {
	held, err := claim.Wait(context.Background(), 2*time.Second, func(now error) {
		t.prep.volume.absent.Store(now.Error())
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
	t.own(store, held)
	t.loop.ask(func() {
		for _, u := range t.fleet.units {
			if u.output.slot != nil {
				t.logging.reconfigureLog(u)
			}
		}
	})
	t.jobs.record()
	if r := t.revisions.Load(); r != nil {
		r.Rewind() // no profile was started here
	}
	t.watchVolume()
	t.directory.registry.TakeUp()
	t.resume()
	t.jobs.open()
}

// watchVolume registers profiles that appear on the volume by other means. Of
// those that it does not hear of nothing is taken up: somebody may be in the
// middle of a change, and says reload at its end.
func (t *tenure) watchVolume() {
	changes := t.prep.volume.Store().Watch().Changes()
	go func() {
		for change := range changes {
			t.directory.registry.Look(change.Names...) // none, if all may have changed
		}
	}()
}

// openJournal opens the journal of a volume that was just taken, and has the
// store keep its intents there. One that cannot be used is said, and from then on
// nothing can be recorded.
func (t *tenure) openJournal(store *profiles.Store) {
	c := t.records.chronicle
	boot, err := journal.BootID()
	if err != nil {
		slog.Warn("cannot keep a journal", "err", err)
		store.Records.RefuseIntents(err)
		return
	}
	say := warn
	if c.silent = t.prep.volume.readOnly.Load(); c.silent {
		say = func(string) {} // that nothing can be written here was said
	}
	j, err := journal.Open(store.Ours(), journal.Options{
		Boot: boot, Folds: c.folds, Say: say,
		Held: func() bool { return !c.lost.Load() }, Fault: c.fault,
	})
	if err != nil {
		slog.Error("the journal is not used, and nothing is recorded: " + err.Error())
		store.Records.RefuseIntents(err)
		return
	}
	c.boot = boot
	store.Records.UseJournal(j, c.intents, c.users)
	c.journal.Store(j)
	t.recordBoot(j, boot)
	before, last := c.earlier(j)
	t.loop.do(func() { t.commands.recall(before, last) })
}

// recordBoot records that this boot has begun, unless a supervisor before did.
func (t *tenure) recordBoot(j *journal.Journal, boot string) {
	machine, err := journal.MachineBoot()
	if err != nil {
		slog.Warn(err.Error())
	}
	var begun journal.BootBegun
	recorded := false
	j.View(func() { begun, recorded = t.records.chronicle.boots.Begin(boot, machine) })
	t.prep.volume.prior.Store(string(begun.PriorExit))
	if recorded || t.records.chronicle.silent {
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
func (t *tenure) openRevisions(store *profiles.Store) {
	c := t.records.chronicle
	j := c.journal.Load()
	if j == nil {
		return // which was said
	}
	ledger := revision.Journal{Journal: j, Records: c.revisions, BootID: c.boot}
	t.revisions.Store(revision.New(t.box, ledger, revision.Files{Home: store.Ours()}, t.applying))
}

// rewind puts back, before anything is started, what an apply was in the middle
// of when the container ended.
func (t *tenure) rewind() {
	if r := t.revisions.Load(); r != nil && !t.records.memory.Done(handover.Registered) {
		r.Rewind()
	}
}

// resume goes on with what an apply was in the middle of when our predecessor
// ended.
func (t *tenure) resume() {
	if r := t.revisions.Load(); r != nil {
		r.Resume()
	}
}

// unrevised says why there are no revisions.
func (t *tenure) unrevised() error {
	if _, err := t.directory.registry.Profiles.Store(); err != nil {
		return err
	}
	return control.Conflict("plans cannot be applied: the volume has no journal; the log of rlminit says why")
}

// applying is what root's configuration says of who may apply.
func (t *tenure) applying() revision.Settings {
	settings := revision.Settings{User: t.prep.policy.User.UID}
	if rules := t.prep.config().Apply; rules != nil {
		settings.Allow = []plan.Rule{}
		for _, r := range rules {
			settings.Allow = append(settings.Allow, plan.Rule{UID: r.UID, Scope: r.Scope})
		}
	}
	return settings
}
