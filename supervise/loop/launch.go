package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"rlminit/config"
	"rlminit/internal/redact"
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
	secrets redact.Kept   // what of its texts is shown to nobody
}

// preparer makes ready what processes are started with.
type preparer struct {
	*spawn.Preparer
	null int // what a process has as stdin
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
// message what tier 1 is to know.
func (l *Loop) openFor(of *spawn.Launch, m *wire.Spawn, hold func(*wire.Hold, []int)) (fds []int, err error) {
	u := l.fleet.units[of.Name]
	if u == nil || u.process.launch != of {
		return nil, spawn.ErrUnknown
	}
	u.process.uid = of.UID
	switch {
	case of.Err != nil:
		return nil, of.Err
	case l.Records.memory.Unsaved(u.name):
		return nil, spawn.ErrUnknown
	case u.allotTag(l.tier1.Tags) != nil:
		return nil, handover.ErrNoTag
	case u.tag == 0 && of.UID == 0 && l.prep.IsPage(of.Definition):
		return nil, spawn.ErrPageUntold
	}
	if err := l.logging.openLog(u, hold); err != nil {
		return nil, err
	}
	m.Tag, m.Terminal = u.tag, l.tier1.Welcome.Terminal && u.name == config.MainService && u.ours
	if !m.Terminal {
		fds, m.Targets = []int{l.prep.null, u.output.slot.Stdout(), u.output.slot.Stderr()}, []int32{0, 1, 2}
	}
	opens := l.prep.opens(u, of.ID)
	opened, err := l.opened.Open(u.life.Node(), opens, of.User)
	if err == nil && opens.NotifiesAlone() {
		err = of.Walls.Notifies(opened.Notify)
	}
	if err != nil {
		return nil, l.whose(err)
	}
	for i, fd := range opened.Descriptors {
		fds, m.Targets = append(fds, fd), append(m.Targets, int32(3+i))
	}
	m.ListenPID, m.Env = len(opened.Descriptors) > 0, append(of.Env, opened.Environment...)
	if lease := u.state.Lease; u.definition.Deadline != "" {
		m.Deadline, m.Env = lease.At, append(m.Env, wire.Fence+"="+lease.Fence)
	}
	u.process.secrets.Store(new(redact.Of(of.Env, of.Walls.Secrets...)))
	u.output.slot.Mark("starting " + cmp.Or(of.Path, u.name))
	for _, note := range of.Walls.Notes {
		u.output.slot.Mark("isolation: " + note)
	}
	return fds, nil
}

// probing runs programs as a service. It is for a probe that begins.
func (l *Loop) probing(u *unit, by machine.Probe) func(ctx context.Context, argv []string) error {
	of, tag, name := l.prep.starts(u), u.tag, wire.HealthProbe(u.name)
	if by == machine.ProbeReady {
		name = wire.ReadyProbe(u.name)
	}
	return func(ctx context.Context, argv []string) error {
		is := of
		is.Probe = argv
		return l.spawner.Programs.Probe(ctx, name, is, tag, []int{l.prep.null, l.prep.null, l.prep.null})
	}
}

// whose says of an address that is in use whether it is we who use it.
func (l *Loop) whose(err error) error {
	used, is := errors.AsType[*open.InUse](err)
	if !is {
		return err
	}
	holder := ""
	if started, _ := l.prep.Settings.Started(); started.Metrics.Network != "" && open.Collide(started.Metrics, used.Socket) {
		holder = "metrics.listen"
	}
	if node, is := l.opened.Occupies(used.Socket); is {
		holder = l.fleet.byNode[node].title()
	}
	if holder == "" {
		return err
	}
	return fmt.Errorf("cannot listen on %s:%s: rlminit holds that address for %s; give one of the two another", used.Socket.Network, used.Socket.Address, holder)
}

// holdAddress opens the socket of the page as soon as there is a definition of it. So no
// service that is started earlier, or while the page is stopped, can listen there and ask
// people for their tokens.
func (v *Services) holdAddress(u *unit) {
	if !v.prep.IsPage(u.definition) {
		return
	}
	_, user := v.prep.RecordedUser(u.definition)
	if err := v.opened.Hold(u.life.Node(), v.prep.opens(u, u.state.ID), user); err != nil {
		slog.Warn("the address of the page is not held until the page starts", "err", err)
	}
}

// allotTag sees to it that u has a tag, where tags can be given.
func (u *unit) allotTag(tags *handover.Tags) (err error) {
	if u.tag == 0 {
		u.tag, err = tags.Allot(u.name)
	}
	return err
}
