package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"rlminit/config"
	"rlminit/internal/durable"
	"rlminit/internal/redact"
	"rlminit/rights"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/open"
	"rlminit/supervise/spawn"
	"rlminit/wire"
)

// launched is what is known of a unit's process besides its state.
type launched struct {
	launch  *spawn.Launch // the latest, or an empty one
	uid     uint32        // of a profile with its own user; 0: the services' user's
	secrets redact.Set    // what of its texts is shown to nobody
}

// openFor opens what a process that is prepared gets beside that, and says of it in the
// message what tier 1 is to know. The loop calls it.
func (s *Supervisor) openFor(l *spawn.Launch, m *wire.Spawn) (fds []int, err error) {
	u := s.fleet.units[l.Name]
	if u == nil || u.process.launch != l {
		return nil, errUnknown
	}
	u.process.uid = l.UID
	switch {
	case l.Err != nil:
		return nil, l.Err
	case s.records.memory.Unsaved(u.name):
		return nil, errUnknown
	case u.allotTag(s.tier1.Tags) != nil:
		return nil, handover.ErrNoTag
	}
	if err := s.logging.openLog(u); err != nil {
		return nil, err
	}
	m.Tag, m.Terminal = u.tag, s.tier1.Welcome.Terminal && u.name == config.MainService && u.ours
	if !m.Terminal {
		fds, m.Targets = s.logging.stdio(u)
	}
	opens := s.prep.opens(u, l.ID)
	opened, err := s.opened.Open(u.life.Node(), opens, l.User)
	if err == nil && opens.NotifiesAlone() {
		err = l.Walls.Notifies(opened.Notify)
	}
	if err != nil {
		return nil, s.whose(err)
	}
	for i, fd := range opened.Descriptors {
		fds, m.Targets = append(fds, fd), append(m.Targets, int32(3+i))
	}
	m.ListenPID, m.Env = len(opened.Descriptors) > 0, append(l.Env, opened.Environment...)
	u.process.secrets = redact.Of(l.Env, l.Walls.Secrets...)
	u.output.slot.Mark("starting " + cmp.Or(l.Path, u.name))
	for _, note := range l.Walls.Notes {
		u.output.slot.Mark("isolation: " + note)
	}
	return fds, nil
}

// probing runs programs as a service. Only the loop calls it, for a probe that begins.
func (s *Supervisor) probing(u *unit, by machine.Probe) func(ctx context.Context, argv []string) error {
	of, tag := s.prep.starts(u), u.tag
	if of.Privileged { // that is under which tier 1 has the program
		of.Name = wire.HealthProbe(u.name)
		if by == machine.ProbeReady {
			of.Name = wire.ReadyProbe(u.name)
		}
	}
	return func(ctx context.Context, argv []string) error {
		is := of
		is.Probe = argv
		return s.spawner.Programs.Probe(ctx, is, tag, []int{s.prep.null, s.prep.null, s.prep.null})
	}
}

// errUnknown is of a process that nobody would know again.
var errUnknown = errors.New("there is no memory to keep for a successor that it is started")

// passing tells whether a launch that failed with err may well succeed soon, without
// anything being put right: the kernel has no room, or a process of ours has ended.
func passing(err error) bool {
	return durable.Temporary(err) || errors.Is(err, handover.ErrNoTag) || errors.Is(err, errUnknown) || errors.Is(err, errNotGiven) || errors.Is(err, rights.ErrEnded)
}

// whose says of an address that is in use whether it is we who use it.
func (s *Supervisor) whose(err error) error {
	used, is := errors.AsType[*open.InUse](err)
	if !is {
		return err
	}
	holder := ""
	if started, _ := s.prep.settings.Started(); started.Metrics.Network != "" && open.Collide(started.Metrics, used.Socket) {
		holder = "metrics.listen"
	}
	if node, is := s.opened.Occupies(used.Socket); is {
		holder = s.fleet.byNode[node].title()
	}
	if holder == "" {
		return err
	}
	return fmt.Errorf("cannot listen on %s:%s: rlminit holds that address for %s; give one of the two another", used.Socket.Network, used.Socket.Address, holder)
}

// allotTag sees to it that u has a tag, where tags can be given.
func (u *unit) allotTag(tags *handover.Tags) (err error) {
	if u.tag == 0 {
		u.tag, err = tags.Allot(u.name)
	}
	return err
}
