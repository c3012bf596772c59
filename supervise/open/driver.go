package open

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"rlminit/control"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/notify"
	"rlminit/supervise/order"
	"rlminit/supervise/slots"
	"rlminit/wire"
)

// Driver has the descriptors of services open. Anybody may call it.
type Driver struct {
	// Send sends a message to tier 1, with descriptors, and closes those in after.
	Send func(m wire.Message, fds, after []int)
	// Hear takes an input to the core, and returns when what follows is decided.
	Hear func(core.Input)
	// Path is where the notify socket of a service is to be.
	Path func(name string) string
	// Listen makes a notify socket at a path. It is notify.Listen; a simulation has its own.
	Listen func(path string, mode os.FileMode) (*notify.Socket, error)

	mu   sync.Mutex
	of   map[order.Node]*endpoints
	left map[string][]string // what services have stored before this process began: keys, by service
}

// New is a Driver that has nothing open.
func New(send func(wire.Message, []int, []int), hear func(core.Input), path func(name string) string) *Driver {
	return &Driver{Send: send, Hear: hear, Path: path, Listen: notify.Listen, of: map[order.Node]*endpoints{}}
}

// Service is what a driver knows of one whose descriptors it opens.
type Service struct {
	Name       string
	Definition *service.Definition
	Tag        uint32 // of its processes; 0: there are none
	Run        uint64 // its spawn id
	UID        uint32 // whose its processes are
	Apart      bool   // that is another than the supervisor's, so that not everybody can write to what the supervisor makes
	Alike      bool   // it is that of other services too, which have not what it has
}

// NotifiesAlone tells whether its notify socket is of its tag's group, so that nobody
// else can write to it.
func (s Service) NotifiesAlone() bool { return s.Definition.NotifySocket() && s.Tag != 0 && s.Apart }

// mayStore is how many descriptors a service may store: they are passed with its next
// spawn, beside its sockets and stdio, in one message.
func mayStore(d *service.Definition) int {
	return wire.MaxDescriptors - 3 - 3 - len(d.Sockets) // three for its walls
}

// endpoints are the descriptors of one service. Invariant: what is here tier 1 holds
// under a key of the service's name, and nothing else under such a key.
type endpoints struct {
	Service
	sockets map[service.Socket]int // listeners, open over restarts of the service
	stored  []stored               // in order of arrival
	count   uint64                 // of what it has stored, ever. Invariant: no number in a key is above it

	notify *notify.Socket // nil: it has none
	path   string         // where that is
	file   os.FileInfo    // at path when it was made; nil: there was none
	run    uint64         // of which so many complaints were made
	said   int
}

// stored is a descriptor that a service stored with FDSTORE=1.
type stored struct {
	fd        int
	name, key string
}

// about is what is known of a node, as its service is now. The caller holds the lock.
func (d *Driver) about(node order.Node, s Service) *endpoints {
	e := d.of[node]
	if e == nil {
		e = &endpoints{sockets: map[service.Socket]int{}}
		d.of[node] = e
	}
	e.Service = s
	return e
}

// Opened is what a process gets beyond its stdio, from descriptor 3 on, and what of that
// its environment says.
type Opened struct {
	Descriptors []int
	Environment []string
	Notify      string // the path of its notify socket; "": it has none
}

// Open opens what a service that is about to be started is to have and has not yet:
// sockets for user, and its notify socket.
func (d *Driver) Open(node order.Node, s Service, user *rights.User) (o Opened, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.about(node, s)
	if o.Descriptors, err = d.listen(e, user); err != nil {
		return o, err
	}
	var names []string
	for _, socket := range s.Definition.Sockets {
		names = append(names, socket.Name)
	}
	for _, f := range e.stored {
		o.Descriptors, names = append(o.Descriptors, f.fd), append(names, f.name)
	}
	if len(names) > 0 {
		o.Environment = []string{fmt.Sprintf("LISTEN_FDS=%d", len(names)), "LISTEN_FDNAMES=" + strings.Join(names, ":")}
	}
	if o.Notify, err = d.openNotify(node, e, s.NotifiesAlone(), nil); o.Notify == "" {
		return o, err
	}
	o.Environment = append(o.Environment, "NOTIFY_SOCKET="+o.Notify)
	if s.Definition.Watchdog > 0 {
		o.Environment = append(o.Environment, fmt.Sprintf("WATCHDOG_USEC=%d", s.Definition.Watchdog.Microseconds()))
	}
	return o, nil
}

// Hold opens the sockets of a service that has no process yet, so that nobody else listens
// on their addresses until it has one.
func (d *Driver) Hold(node order.Node, s Service, user *rights.User) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.listen(d.about(node, s), user)
	return err
}

// Adopt takes back what tier 1 held for a service, which has a process if it runs.
func (d *Driver) Adopt(node order.Node, s Service, held handover.Held, runs bool) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.about(node, s)
	if s.Definition.NotifySocket() {
		if before := held.Take(notifyKey(s.Name)); runs || len(before) > 0 {
			_, err = d.openNotify(node, e, false, before)
		}
	}
	for _, socket := range s.Definition.Sockets {
		if fds := held.Take(socketKey(s.Name, socket)); len(fds) > 0 {
			e.sockets[socket] = fds[0]
		}
	}
	if d.left == nil { // all at once: each looking at all would take minutes
		d.left = storedIn(held)
	}
	e.restore(held, d.left[s.Name])
	return err
}

// Close closes all that a service has open, here and in tier 1.
func (d *Driver) Close(node order.Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.of[node]; e != nil {
		d.closeSockets(e, nil)
		if e.notify != nil {
			e.notify.Close()
			d.Send(&wire.Release{Key: notifyKey(e.Name)}, nil, nil)
		}
		d.drop(e, func(stored) bool { return true })
		delete(d.of, node)
	}
}

// Keep closes the sockets of a service that are not among those listed.
func (d *Driver) Keep(node order.Node, sockets []service.Socket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.of[node]; e != nil {
		d.closeSockets(e, sockets)
	}
}

// Stored is how many descriptors a service has stored; nil: it can store none.
func (d *Driver) Stored(node order.Node) *control.Stored {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.of[node]; e != nil && e.notify != nil {
		return &control.Stored{Count: len(e.stored), Most: mayStore(e.Definition)}
	}
	return nil
}

// Occupies is the service of which a listener keeps others from an address.
func (d *Driver) Occupies(address service.Socket) (node order.Node, is bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for node, e := range d.of {
		for socket := range e.sockets {
			if Collide(socket, address) {
				return node, true
			}
		}
	}
	return order.None, false
}

func notifyKey(name string) string { return "notify/" + name }

// openNotify returns the path of a service's notify socket, which it opens if there is
// to be one; "" if not. It belongs to the service: a message that was sent while nobody
// listened is read by a successor. With alone its group will be the service's tag: that is
// changed as a process is started, and so not for one that runs already.
func (d *Driver) openNotify(node order.Node, e *endpoints, alone bool, held []int) (_ string, err error) {
	if !e.Definition.NotifySocket() {
		return "", nil
	}
	if e.notify != nil {
		if info, err := os.Lstat(e.path); err == nil && e.file != nil && os.SameFile(info, e.file) {
			return e.path, nil
		}
		e.notify.Close()
	}
	e.path = d.Path(e.Name)
	if len(held) > 0 {
		file := os.NewFile(uintptr(held[0]), e.path)
		e.notify, err = notify.FromFile(file) // which duplicates it
		file.Close()
	} else {
		mode := map[bool]os.FileMode{true: 0o666, false: 0o600}[e.Apart] // the credentials of each message tell who sends
		if alone {
			mode = 0o660
		}
		os.Remove(e.path)
		e.notify, err = d.Listen(e.path, mode)
	}
	if err != nil {
		e.notify = nil
		if _, gone := os.Lstat(filepath.Dir(e.path)); gone != nil {
			err = slots.ErrNoSlot
		}
		return "", fmt.Errorf("cannot make the notify socket: %w", err)
	}
	e.file, _ = os.Lstat(e.path) // without it there is no such file: the next start makes one
	if fd, err := e.notify.Duplicate(); err == nil {
		d.Send(&wire.Hold{Key: notifyKey(e.Name)}, []int{fd}, []int{fd})
	} else {
		slog.Warn("a notify socket will not outlive this supervisor", "service", e.Name, "err", err)
	}
	go d.receive(node, e.Name, e.notify)
	return e.path, nil
}
