package supervise

import (
	"log/slog"
	"maps"
	"slices"

	"rlminit/profiles"
	"rlminit/service"
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

// Follow has services be as is recorded of them, as the table says. It is
// registry.Services'.
func (v *services) Follow(names []string) {
	store := v.prep.volume.Store()
	if store == nil {
		return
	}
	var units []*unit
	v.loop.ask(func() {
		for _, name := range names {
			if u := v.fleet.units[name]; u != nil {
				units = append(units, u)
			}
		}
	})
	// Whoever commands one now waits, and is recorded.
	release := oneAtATime(slices.Clone(units))
	defer release()
	recorded := map[*unit]service.Intent{}
	for _, u := range units {
		record, err := store.Records.LoadService(u.name)
		if err != nil {
			slog.Warn("cannot read what is recorded of a service; it stays as it is", "service", u.name, "err", err)
		}
		recorded[u] = record.Desired
	}
	late := map[profiles.Subject]service.Intent{}
	v.loop.ask(func() {
		var starts, stops []*unit
		for _, u := range units {
			is := recorded[u]
			switch {
			case v.fleet.set.Stopping() || u.state.Removed:
			case u.kept.commanded:
				late[profiles.SubjectOf(u.name, "")] = u.desired
			case is == service.IntentNone, is == u.desired, v.purpose.isFor(u.name):
			case is == service.Running:
				starts = append(starts, u)
			default:
				stops = append(stops, u)
			}
		}
		v.follow(verbStart, starts)
		v.follow(verbStop, stops)
	})
	if len(late) == 0 {
		return
	}
	if err := store.Records.TakeOver(late, slices.Collect(maps.Keys(late))); err != nil {
		slog.Warn("cannot record what services were commanded before the volume was taken over", "err", err)
		return
	}
	v.loop.ask(func() {
		for _, u := range units {
			if u.kept.commanded {
				u.kept.commanded = false
				v.records.keepState(u)
				v.records.recordSeen(u)
			}
		}
	})
}

// follow has units be as a verb has it, which is recorded of them. Only the loop
// calls it.
func (v *services) follow(as verb, units []*unit) {
	for _, u := range units {
		slog.Info("a service follows what is recorded on the volume that was taken over", "service", u.name, "wanted", as.intent)
	}
	event := machine.Event{Cause: "recorded on the volume that was taken over"}
	v.records.intend(as.intent, units, nil, func() { as.apply(v.fleet, units, event) })
}
