package supervise

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/wire"
)

// proposal is a definition that is to be supervised from now on.
type proposal struct {
	name    string
	profile string
	source  []byte             // the service.yaml
	value   service.Definition // decoded from it
	fault   string             // why there is none; the one before stays in force
	refused uint64             // hashOf the bytes that can never be understood; 0: another fault
	ours    bool               // made by us of root's configuration and the volume
	subject bool               // has a record on the volume

	start   bool   // of a new unit: wanted running
	desired string // the recorded intent; "": as start says
	cause   string // of the transition
	actor   *uint32
}

// define takes a proposal into force: a new unit, or an update of one.
func (s *Supervisor) define(p proposal) *unit {
	u := s.units[p.name]
	if u == nil {
		u = s.newUnit(p)
	} else {
		s.redefine(u, p)
	}
	if p.ours && p.fault == "" {
		u.configured = p.source
	}
	s.publishStatus(u)
	return u
}

// newUnit registers a service that is stopped, and starts it if that is wanted.
func (s *Supervisor) newUnit(p proposal) *unit {
	u := s.bare(p)
	if u.desired == "" {
		u.desired = intentOf(p.start)
	}
	u.seen = u.state.Public()
	s.allotTag(u) // without one it is tried again at each start
	for _, other := range s.dependentsBy(p.name) {
		s.weigh(other)
	}
	if p.fault != "" {
		slog.Error("a service cannot be run", "service", p.name, "err", p.fault)
		return u
	}
	s.weigh(u)
	if p.start && !s.stopping {
		s.step(u, machine.Event{Kind: machine.Start, Cause: p.cause, Actor: p.actor})
	}
	return u
}

// bare makes a unit from a proposal, without a state or a process.
func (s *Supervisor) bare(p proposal) *unit {
	u := &unit{
		name: p.name, source: p.source, ours: p.ours, recorded: p.subject, fault: p.fault, refused: p.refused, desired: p.desired,
		probes:  map[machine.Probe]context.CancelFunc{},
		sockets: sockets{open: map[service.Socket]int{}},
		timer:   timerSlot{index: -1},
		marks:   map[uint64]chan struct{}{},
	}
	u.definition = service.Default(p.name)
	u.definition.Profile = p.profile
	if p.fault == "" {
		u.definition = p.value
	}
	u.policy = machine.PolicyOf(u.definition)
	s.units[p.name] = u
	s.sources += len(u.source)
	s.tie(u)
	s.watch.slot(p.name)
	return u
}

// redefine brings a changed definition into force, and restarts what runs if it
// cannot follow.
func (s *Supervisor) redefine(u *unit, p proposal) {
	u.ours = p.ours
	u.recorded = u.recorded || p.subject
	u.refused = p.refused
	if p.fault != "" {
		if u.fault != p.fault {
			slog.Error("a changed definition is refused; the one before stays in force", "service", u.name, "err", p.fault)
		}
		u.fault = p.fault
		return
	}
	wasBroken := u.fault != ""
	u.fault = ""
	if bytes.Equal(u.source, p.source) && !wasBroken {
		return
	}
	restart, why := service.NeedsRestart(u.definition, p.value)
	s.untie(u)
	s.sources += len(p.source) - len(u.source)
	u.definition, u.source = p.value, p.source
	u.policy = machine.PolicyOf(p.value)
	s.tie(u)
	s.closeSockets(u, p.value.Sockets)
	if u.log != nil {
		s.reconfigureLog(u)
	}
	s.weigh(u)
	s.step(u, machine.Event{Kind: machine.Update, NeedsRestart: restart, Cause: "definition changed: " + why, Actor: p.actor})
	if wasBroken && p.start && !s.stopping {
		s.step(u, machine.Event{Kind: machine.Start, Cause: "its definition was mended"})
	}
}

// remove stops a unit for good: its definition is gone.
func (s *Supervisor) remove(u *unit, cause string, actor *uint32) {
	s.step(u, machine.Event{Kind: machine.Remove, Cause: cause, Actor: actor})
}

// forget lets go of a unit that is gone, and of all that was kept for it.
func (s *Supervisor) forget(u *unit) {
	if s.units[u.name] != u {
		return
	}
	delete(s.units, u.name)
	s.sources -= len(u.source)
	s.freeTag(u)
	s.untie(u)
	s.timers.set(u, 0)
	s.closeSockets(u, nil)
	s.closeNotify(u)
	if u.log != nil {
		u.log.Close()
		s.link.send(&wire.Release{Key: logKey(u.name)}, nil, nil)
	}
	gone := make(chan struct{})
	s.withdrawn[u.name] = gone
	go s.vacate(u, gone)
}

func intentOf(start bool) string {
	if start {
		return "running"
	}
	return "stopped"
}

// openLog makes sure that u has its log pipes, and that tier 1 holds them.
func (s *Supervisor) openLog(u *unit) error {
	if u.log != nil {
		return nil
	}
	slot, err := s.logs.Open(u.name, s.logConfig(u), s.takeHeld(logKey(u.name)))
	if err != nil {
		return fmt.Errorf("cannot open the log of %s: %w", u.name, err)
	}
	u.log = slot
	s.link.send(&wire.Hold{Key: logKey(u.name)}, slot.Held(), nil)
	return nil
}

// reconfigureLog brings what the definition says of the log into force.
func (s *Supervisor) reconfigureLog(u *unit) {
	if err := u.log.Reconfigure(s.logConfig(u)); err != nil {
		slog.Warn("cannot change how a log is kept", "service", u.name, "err", err)
	}
}

func logKey(name string) string { return "log/" + name }

// stdio is what a process of u gets as descriptors 0 to 2.
func (s *Supervisor) stdio(u *unit) (fds []int, targets []int32) {
	return []int{s.null, u.log.Stdout(), u.log.Stderr()}, []int32{0, 1, 2}
}

// takeHeld takes over the descriptors that tier 1 gave back under key, if any.
func (s *Supervisor) takeHeld(key string) []int {
	fds := s.held[key]
	delete(s.held, key)
	return fds
}

// openNull opens what every service has as its stdin.
func openNull() (int, error) {
	fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("cannot open %s: %w", os.DevNull, err)
	}
	return fd, nil
}
