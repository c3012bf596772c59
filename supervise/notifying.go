package supervise

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/supervise/machine"
	"rlminit/supervise/notify"
	"rlminit/supervise/process"
	"rlminit/supervise/slots"
	"rlminit/wire"
)

// descriptors are what services have open beyond their stdio: the sockets that they
// listen on, the one that they notify us by, and what they have stored with us. Each
// of them tier 1 holds too, so that it outlives us. The loop's, but for a message's
// way in.
type descriptors struct {
	loop  *mailbox
	tier1 *tier1
	prep  *preparer
	slots *slots.Dir
	step  func(*unit, machine.Event)

	notifier func(name, path string, mode os.FileMode, held []int) (*process.Notifier, error) // process.OpenNotifier; a simulation has its own
}

// endpoints are the descriptors of one unit. Invariant: what is here tier 1 holds
// under a key of the unit's name, and nothing else under such a key.
type endpoints struct {
	notify  *process.Notifier // nil: it has none
	stored  process.Store
	sockets process.Sockets

	formerPID int // of the run before this one, which may have notified us late
}

// mayStore is how many descriptors a service may store: they are passed with
// its next spawn, beside its sockets and stdio, in one message.
func (u *unit) mayStore() int {
	return wire.MaxDescriptors - 3 - 3 - len(u.definition.Sockets) // three for its walls
}

func notifyKey(name string) string { return "notify/" + name }

// notifiesAlone tells whether u's notify socket is of its tag's group, so that nobody
// else can write to it: where there are tags, and u has another uid than we.
func (d *descriptors) notifiesAlone(u *unit) bool {
	return u.tag != 0 && d.tier1.tagged && (d.prep.privileged(u) || d.prep.user != nil)
}

// openNotify returns the path of u's notify socket, which it opens if u is to
// have one; "" if not. starts tells that u is about to be started: one that runs does
// not get a new socket's group.
func (d *descriptors) openNotify(u *unit, starts bool) (string, error) {
	wants := u.definition.Watchdog > 0 || u.definition.Ready != nil && u.definition.Ready.Notify
	if !wants {
		return "", nil
	}
	if u.open.notify != nil && u.open.notify.Present() {
		return u.open.notify.Path(), nil
	}
	if u.open.notify != nil {
		u.open.notify.Close()
		u.open.notify = nil
	}
	mode := os.FileMode(0o600)
	switch {
	case starts && d.notifiesAlone(u):
		mode = 0o660
	case d.prep.privileged(u) || d.prep.user != nil:
		mode = 0o666 // it has another uid; the credentials of each message tell who sends
	}
	n, err := d.notifier(u.name, d.slots.File(u.name, slots.NotifySocket), mode, d.tier1.held.Take(notifyKey(u.name)))
	if err != nil {
		return "", err
	}
	if fd, err := n.Duplicate(); err == nil {
		d.tier1.link.Send(&wire.Hold{Key: notifyKey(u.name)}, []int{fd}, []int{fd})
	} else {
		slog.Warn("a notify socket will not outlive this supervisor", "service", u.name, "err", err)
	}
	u.open.notify = n
	var pace notify.Pace
	go n.Receive(func(m *notify.Message) {
		files, tag := len(m.Files()), uint32(0)
		d.loop.ask(func() {
			d.notified(u, m)
			tag = u.tag
		})
		// Others, who can write to the socket too, shall not make the service wait.
		if pause := pace.Pause(time.Now(), files); pause > 0 && (tag == 0 || hasGroup(m.PID, tag)) {
			time.Sleep(pause)
		}
	})
	return n.Path(), nil
}

// closeNotify closes u's notify socket for good, and what it stored.
func (d *descriptors) closeNotify(u *unit) {
	if u.open.notify != nil {
		u.open.notify.Close()
		u.open.notify = nil
		d.tier1.link.Send(&wire.Release{Key: notifyKey(u.name)}, nil, nil)
	}
	d.dropStored(u, func(process.StoredFile) bool { return true })
}

// notified takes one message of a service. What a process of an earlier run
// sent late says nothing of this one.
func (d *descriptors) notified(u *unit, m *notify.Message) {
	if !d.isOf(u, m) {
		u.open.notify.Complain(u.state.ID, "a notification that is not the service's own is ignored", "pid", m.PID, "uid", m.UID)
		return
	}
	for _, fault := range m.Faults {
		u.open.notify.Complain(u.state.ID, "a notification was not understood", "pid", m.PID, "err", fault)
	}
	if m.Errno != nil || m.ExitStatus != nil {
		d.troubled(u, m)
	}
	if m.PID != 0 && m.PID == u.open.formerPID && m.PID != u.state.PID {
		return
	}
	tell := func(e machine.Event) {
		e.ID = u.state.ID
		d.step(u, e)
	}
	if m.WatchdogInterval > 0 {
		tell(machine.Event{Kind: machine.WatchdogSet, Within: int64(m.WatchdogInterval)})
	}
	if m.ExtendTimeout > 0 {
		tell(machine.Event{Kind: machine.ExtendTimeout, Within: int64(m.ExtendTimeout)})
	}
	if m.Status != nil {
		tell(machine.Event{Kind: machine.StatusText, Reason: u.process.secrets.Text(*m.Status)})
	}
	if m.MainPID != 0 {
		d.claimMain(u, m.MainPID, tell)
	}
	if m.Reloading {
		tell(machine.Event{Kind: machine.Reloading})
	}
	if m.Ready {
		tell(machine.Event{Kind: machine.Ready})
	}
	if m.Stopping {
		tell(machine.Event{Kind: machine.StoppingItself})
	}
	if m.Watchdog {
		tell(machine.Event{Kind: machine.WatchdogPing})
	}
	if m.WatchdogTrigger {
		tell(machine.Event{Kind: machine.WatchdogBark})
	}
	switch {
	case m.FDStoreRemove:
		d.dropStored(u, func(f process.StoredFile) bool { return f.Name == m.FDName })
	case m.FDStore:
		d.keep(u, m)
	}
}

// isOf tells whether a message is from u itself, or root. It is asked of a
// service that has what the others have not, another user or a capability: they
// must not end it, nor have descriptors passed to it, by a socket that they can
// write to.
func (d *descriptors) isOf(u *unit, m *notify.Message) bool {
	if m.UID == 0 {
		return true
	}
	if !d.prep.privileged(u) {
		return d.prep.user == nil || m.UID == d.prep.uidOf(u.definition) // or anybody could write to the socket
	}
	i := slices.IndexFunc(d.prep.policy.Privileged, func(p wire.Program) bool { return p.Name == u.name })
	if uid := d.prep.policy.Privileged[i].Identity.UID; uid != d.prep.policy.User.UID {
		return m.UID == uid
	}
	return u.tag == 0 || hasGroup(m.PID, u.tag)
}

// troubled takes ERRNO= and EXIT_STATUS=. They are sent right before an exit, so
// they count as long as no other run has begun.
func (d *descriptors) troubled(u *unit, m *notify.Message) {
	if u.state.ID != 0 && m.PID != 0 && m.PID == u.open.formerPID && m.PID != u.state.PID && u.state.Phase != machine.Sweeping {
		return
	}
	e := machine.Event{Kind: machine.Trouble, ID: u.state.LastID, ExitStatus: m.ExitStatus}
	if m.Errno != nil {
		e.Errno = *m.Errno
	}
	d.step(u, e)
}

// claimMain takes MAINPID= if the process bears the service's tag: a service
// speaks for its own tree alone.
func (d *descriptors) claimMain(u *unit, pid int, tell func(machine.Event)) {
	if u.tag != 0 && !hasGroup(pid, u.tag) {
		u.open.notify.Complain(u.state.ID, "MAINPID= names a process that is not of the service; ignored", "pid", pid)
		return
	}
	tell(machine.Event{Kind: machine.MainPID, PID: pid})
}

// hasGroup tells whether a process has a supplementary group, proc_pid_status(5).
func hasGroup(pid int, gid uint32) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if groups, ok := strings.CutPrefix(line, "Groups:"); ok {
			return slices.Contains(strings.Fields(groups), strconv.FormatUint(uint64(gid), 10))
		}
	}
	return false
}

// keep keeps the descriptors of one FDSTORE=1, here and in tier 1.
func (d *descriptors) keep(u *unit, m *notify.Message) {
	for _, file := range m.Files() {
		if kind, ok := process.MayStore(int(file.Fd())); !ok {
			u.open.notify.Complain(u.state.ID, "a descriptor is not stored: to close it might take for ever", "kind", kind)
			continue
		}
		if most := u.mayStore(); len(u.open.stored.Files()) >= most {
			u.open.notify.Complain(u.state.ID, "too many descriptors are stored; the rest is dropped", "most", most)
			return
		}
		fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			slog.Warn("cannot store a descriptor", "service", u.name, "err", err)
			return
		}
		stored := u.open.stored.Add(u.name, m.FDName, fd)
		d.tier1.link.Send(&wire.Hold{Key: stored.Key}, []int{fd}, nil)
	}
}

// dropStored lets go of the stored descriptors that gone picks.
func (d *descriptors) dropStored(u *unit, gone func(process.StoredFile) bool) {
	u.open.stored.Drop(gone, func(f process.StoredFile) {
		// Tier 1 may still have to be sent it: the link closes it in its turn.
		d.tier1.link.Send(&wire.Release{Key: f.Key}, nil, []int{f.FD})
	})
}
