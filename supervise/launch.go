package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"rlminit/config"
	"rlminit/internal/redact"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/open"
	"rlminit/supervise/slots"
	"rlminit/supervise/spawn"
	"rlminit/supervise/volume"
	"rlminit/wire"
)

// launched is what is known of a unit's process besides its state.
type launched struct {
	launch  *spawn.Launch // the latest, or an empty one
	uid     uint32        // of a profile with its own user; 0: the services' user's
	secrets redact.Set    // what of its texts is shown to nobody
}

// preparer makes ready what processes are started with, and knows where what they have lies.
type preparer struct {
	spawn.Preparer
	slots  slots.Dir // the service directory in the runtime directory
	volume *volume.Volume
	null   int // what a process has as stdin
}

// privileged tells whether tier 1 holds u's definition by name.
func (p *preparer) privileged(u *unit) bool { return u.recorded && p.Settings.Holds(u.name) }

// starts is u as the driver of spawns knows it.
func (p *preparer) starts(u *unit) spawn.Service {
	return spawn.Service{Name: u.name, Definition: u.definition, Privileged: p.privileged(u)}
}

// opens is u as the driver of its descriptors knows it, for the run of a spawn id.
func (p *preparer) opens(u *unit, run uint64) open.Service {
	s := open.Service{Name: u.name, Definition: u.definition, Tag: u.tag, Run: run, Apart: p.User != nil}
	if !p.privileged(u) {
		if s.UID, _ = p.RecordedUser(u.definition); s.UID == 0 {
			s.UID = p.Policy.User.UID
		}
		return s
	}
	i := slices.IndexFunc(p.Policy.Privileged, func(p wire.Program) bool { return p.Name == u.name })
	s.UID, s.Apart = p.Policy.Privileged[i].Identity.UID, true
	s.Alike = s.UID == p.Policy.User.UID
	return s
}

// openFor opens what a process that is prepared gets beside that, and says of it in the
// message what tier 1 is to know. The loop calls it.
func (s *Supervisor) openFor(l *spawn.Launch, m *wire.Spawn, hold func(*wire.Hold, []int)) (fds []int, err error) {
	u := s.fleet.units[l.Name]
	if u == nil || u.process.launch != l {
		return nil, spawn.ErrUnknown
	}
	u.process.uid = l.UID
	switch {
	case l.Err != nil:
		return nil, l.Err
	case s.records.memory.Unsaved(u.name):
		return nil, spawn.ErrUnknown
	case u.allotTag(s.tier1.Tags) != nil:
		return nil, handover.ErrNoTag
	}
	if err := s.logging.openLog(u, hold); err != nil {
		return nil, err
	}
	m.Tag, m.Terminal = u.tag, s.tier1.Welcome.Terminal && u.name == config.MainService && u.ours
	if !m.Terminal {
		fds, m.Targets = []int{s.prep.null, u.output.slot.Stdout(), u.output.slot.Stderr()}, []int32{0, 1, 2}
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
	of, tag, name := s.prep.starts(u), u.tag, wire.HealthProbe(u.name)
	if by == machine.ProbeReady {
		name = wire.ReadyProbe(u.name)
	}
	return func(ctx context.Context, argv []string) error {
		is := of
		is.Probe = argv
		return s.spawner.Programs.Probe(ctx, name, is, tag, []int{s.prep.null, s.prep.null, s.prep.null})
	}
}

// whose says of an address that is in use whether it is we who use it.
func (s *Supervisor) whose(err error) error {
	used, is := errors.AsType[*open.InUse](err)
	if !is {
		return err
	}
	holder := ""
	if started, _ := s.prep.Settings.Started(); started.Metrics.Network != "" && open.Collide(started.Metrics, used.Socket) {
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
