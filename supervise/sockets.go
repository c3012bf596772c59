package supervise

import (
	"rlminit/rights"
	"rlminit/service"
	"rlminit/wire"
)

// passed are the descriptors beyond stdio that a process of u gets, and their
// names: its sockets, then what it stored with FDSTORE=1, sd_notify(3).
func (d *descriptors) passed(u *unit, user *rights.User) (fds []int, names []string, err error) {
	fds, err = u.open.sockets.Listen(user, u.definition.Sockets, func(socket service.Socket, fd int) {
		d.tier1.link.Send(&wire.Hold{Key: u.open.sockets.Key(u.name, socket)}, []int{fd}, nil)
	})
	if err != nil {
		return nil, nil, err
	}
	for _, socket := range u.definition.Sockets {
		names = append(names, socket.Name)
	}
	for _, stored := range u.open.stored.Files() {
		fds, names = append(fds, stored.FD), append(names, stored.Name)
	}
	return fds, names, nil
}

// closeSockets closes what u has open but for what keep lists, here and in tier 1.
func (d *descriptors) closeSockets(u *unit, keep []service.Socket) {
	u.open.sockets.Drop(keep, func(socket service.Socket, fd int) {
		// Tier 1 may still have to be sent it: the link closes it in its turn.
		d.tier1.link.Send(&wire.Release{Key: u.open.sockets.Key(u.name, socket)}, nil, []int{fd})
	})
}

// readoptSockets takes back the listeners that tier 1 held for u.
func (d *descriptors) readoptSockets(u *unit) {
	for _, socket := range u.definition.Sockets {
		if fds := d.tier1.held.Take(u.open.sockets.Key(u.name, socket)); len(fds) > 0 {
			u.open.sockets.Adopt(socket, fds[0])
		}
	}
}
