package loop

import (
	"log/slog"

	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
)

// A container without a volume of its own runs the services of its configuration by
// what that says, and by what a person commands there, which is recorded nowhere. When
// it takes a volume over, each of them has two words on it:
//
//	commanded here | recorded there | from then on
//	---------------+----------------+---------------------------------------------
//	yes            | whatever       | as commanded, which is recorded
//	no             | running        | it runs
//	no             | stopped        | it is stopped
//	no             | nothing        | as it is
//
// So a restart of the container changes nothing. What the container is for runs, as at
// a boot, unless it was commanded otherwise; what has a schedule is nobody's intent.

// TookVolume goes on with a volume that has come to be ours, and was not at the boot: logs
// have files there.
func (l *Loop) TookVolume() {
	l.ask(func() {
		for _, u := range l.fleet.units {
			if u.output.slot != nil {
				l.logging.reconfigureLog(u)
			}
		}
	})
}

// Follow has services be as is recorded of them, as the table says. It is
// registry.Services'.
func (v *Services) Follow(names []string) {
	cmd := &core.Command{Verb: core.VerbFollow, Event: machine.Event{Cause: "recorded on the volume that was taken over"}}
	over := make(chan struct{})
	v.loop.ask(func() {
		for _, name := range names {
			if u := v.fleet.units[name]; u != nil && v.prep.Volume.Store() != nil {
				cmd.Lives = append(cmd.Lives, u.life)
			}
		}
		if len(cmd.Lives) == 0 {
			close(over)
			return
		}
		cmd.ID = v.commands.newID(true)
		v.commands.watched[cmd.ID] = &watched{changed: over, waiting: 1}
		v.fleet.apply(core.Input{Kind: core.Commanded, Command: cmd})
	})
	<-over
	v.loop.ask(func() { delete(v.commands.problems, cmd.ID) }) // of a container that is stopping
}

// recordFollowed finds what is recorded of units, records of those that were commanded
// here what is wanted of them, and says what each is to follow; IntentNone: nothing.
// Whoever commands one meanwhile waits, and is recorded. The loop calls it, and then is
// called by it.
func (r *Records) recordFollowed(units []*unit, then func([]service.Intent)) {
	store, late := r.volume.Store(), map[string]service.Intent{}
	for _, u := range units {
		if u.kept.commanded {
			late[u.name] = u.desired()
		}
	}
	go func() {
		intents := make([]service.Intent, len(units))
		for i, u := range units {
			intents[i] = store.Records.LoadService(u.name).Desired
		}
		var err error
		if len(late) > 0 {
			err = store.Records.TakeOver(late, nil)
		}
		if err != nil {
			slog.Warn("cannot record what services were commanded before the volume was taken over", "err", err)
		}
		r.loop.do(func() {
			for i, u := range units {
				switch {
				case u.kept.commanded:
					intents[i] = service.IntentNone
					if u.kept.commanded = err != nil; err == nil {
						r.keepState(u)
						r.recordSeen(u)
					}
				case r.isFor(u.name):
					intents[i] = service.IntentNone
				case intents[i] != service.IntentNone && intents[i] != u.desired():
					slog.Info("a service follows what is recorded on the volume that was taken over", "service", u.name, "wanted", intents[i])
				}
			}
			then(intents)
		})
	}()
}
