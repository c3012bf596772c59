package nemesis

import (
	"errors"
	"slices"
)

// action does something to a container, and returns how to undo it.
type action func(w *World, on *Container) (undo func() error, err error)

// kind is one kind of fault.
type kind struct {
	name    string
	moment  bool // it is over as soon as it is done
	freezes bool // PID 1 cannot run
	do      action
	whom    func(w *World, drawn *Container) ([]*Container, error) // nil: the one that was drawn
}

// targets are the containers that a fault is to hit.
func (k kind) targets(w *World, drawn *Container) ([]*Container, error) {
	if k.whom == nil {
		return []*Container{drawn}, nil
	}
	return k.whom(w, drawn)
}

var nothing = func() error { return nil }

// ofMembers are the faults of a member of the fleet.
var ofMembers = []kind{
	{name: "member cut from etcd", do: cut("INPUT", "OUTPUT")},
	{name: "what etcd answers is lost", do: cut("INPUT")},
	{name: "what etcd is asked is lost", do: cut("OUTPUT")},
	{name: "member's network disconnected", do: disconnect},
	{name: "agent paused", do: pause(agent)},
	{name: "agent killed", moment: true, do: kill(agent)},
	{name: "supervisor paused", do: pause(supervisor)},
	{name: "supervisor killed", moment: true, do: kill(supervisor)},
	{name: "gateways killed", moment: true, do: kill(gateway)},
	{name: "member's container frozen", freezes: true, do: freeze},
	{name: "member's container killed", do: killContainer},
	{name: "member's disk full", do: fill},
}

// ofNodes are those of a node of etcd.
var ofNodes = []kind{
	{name: "etcd node paused", do: freeze},
	{name: "etcd node killed", do: killContainer},
	{name: "etcd leader paused", do: freeze, whom: leading},
	{name: "etcd leader killed", do: killContainer, whom: leading},
	{name: "etcd leader cut from its peers", do: isolate, whom: leading},
	{name: "etcd node's disk full", do: fill},
	{name: "most nodes of etcd paused", do: freeze, whom: butOne},
}

func kindOf(name string) kind {
	all := slices.Concat(ofMembers, ofNodes)
	return all[slices.IndexFunc(all, func(k kind) bool { return k.name == name })]
}

// cut drops all packets between a member and etcd, one way or both.
func cut(chains ...string) action {
	return func(w *World, on *Container) (func() error, error) {
		return w.drop(on, w.Nodes, chains)
	}
}

// isolate drops the packets between a node of etcd and the others, not those of its
// clients: it does not know yet that it does not lead any more.
func isolate(w *World, on *Container) (func() error, error) {
	return w.drop(on, w.Nodes, []string{"INPUT", "OUTPUT"})
}

// drop adds rules to a container's own tables, and returns how to take them away.
func (w *World) drop(on *Container, others []*Container, chains []string) (func() error, error) {
	var done [][]string
	undo := func() error {
		var errs []error
		for _, rule := range done {
			errs = append(errs, on.iptables(append([]string{"-D"}, rule...)...))
		}
		return errors.Join(errs...)
	}
	for _, chain := range chains {
		flag := map[string]string{"INPUT": "-s", "OUTPUT": "-d"}[chain]
		for _, other := range others {
			if other == on {
				continue
			}
			rule := []string{chain, flag, other.Address, "-j", "DROP"}
			if err := on.iptables(append([]string{"-A"}, rule...)...); err != nil {
				return nil, errors.Join(err, undo())
			}
			done = append(done, rule)
		}
	}
	return undo, nil
}

// disconnect takes a container's interface away.
func disconnect(w *World, on *Container) (func() error, error) {
	if _, err := docker("network", "disconnect", w.network, on.full); err != nil {
		return nil, err
	}
	return func() error {
		_, err := docker("network", "connect", "--ip", on.Address, w.network, on.full)
		return err
	}, nil
}

// pause stops some processes of a container, of which there must be one.
func pause(which func(process) bool) action {
	return func(_ *World, on *Container) (func() error, error) {
		found, err := on.processes(which)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			p.signal(stop)
		}
		return func() error {
			for _, p := range found {
				p.signal(proceed) // PID 1 may have replaced it
			}
			return nil
		}, nil
	}
}

// kill kills some processes of a container, of which there must be one.
func kill(which func(process) bool) action {
	return func(_ *World, on *Container) (func() error, error) {
		found, err := on.processes(which)
		for _, p := range found {
			p.signal(die)
		}
		return nothing, err
	}
}

// freeze stops everything in a container, PID 1 too.
func freeze(_ *World, on *Container) (func() error, error) {
	if _, err := docker("pause", on.full); err != nil {
		return nil, err
	}
	return func() error {
		_, err := docker("unpause", on.full)
		return err
	}, nil
}

// killContainer ends a container at once; undone, it starts on the data that it had.
func killContainer(_ *World, on *Container) (func() error, error) {
	if _, err := docker("kill", on.full); err != nil {
		return nil, err
	}
	return on.start, nil
}

// fill fills a container's volume. What has ended for that is started again.
func fill(_ *World, on *Container) (func() error, error) {
	if err := on.fillVolume(); err != nil {
		return nil, err
	}
	return func() error {
		if err := on.emptyVolume(); err != nil {
			return err
		}
		return on.start()
	}, nil
}

// leading is the node that leads now, in place of the one that was drawn.
func leading(w *World, _ *Container) ([]*Container, error) {
	on, err := w.leader()
	if err != nil {
		return nil, err
	}
	return []*Container{on}, nil
}

// butOne are all nodes but the one that was drawn.
func butOne(w *World, drawn *Container) ([]*Container, error) {
	return slices.DeleteFunc(slices.Clone(w.Nodes), func(c *Container) bool { return c == drawn }), nil
}
