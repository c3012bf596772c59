package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/supervise/machine"
	"rlminit/supervise/notify"
	"rlminit/wire"
)

// notifier is a service's sd_notify(3) socket. It belongs to the slot: a message
// that was sent while nobody listened is read by our successor.
type notifier struct {
	path   string
	socket *notify.Socket
	file   os.FileInfo // at path when it was made

	run  uint64 // of which so much was said
	said int
}

// complaintsMax bounds what is said of one run's notifications: no service shall
// fill the container's log.
const complaintsMax = 10

// complain says what is wrong with u's notifications, as long as that is news.
func (u *unit) complain(what string, args ...any) {
	n := u.notify
	if n == nil {
		return
	}
	if n.run != u.state.ID {
		n.run, n.said = u.state.ID, 0
	}
	if n.said++; n.said > complaintsMax {
		return
	}
	slog.Warn(what, append([]any{"service", u.name}, args...)...)
}

// there tells whether the socket can still be found by its path: a service, to
// whom the directory belongs as much as to us, may have removed it.
func (n *notifier) there() bool {
	info, err := os.Lstat(n.path)
	return err == nil && os.SameFile(info, n.file)
}

// storedFD is a descriptor that a service stored with FDSTORE=1.
type storedFD struct {
	fd     int
	number uint64 // in order of arrival
	name   string
	key    string // under which tier 1 holds it
}

// mayStore is how many descriptors a service may store: they are passed with
// its next spawn, beside its sockets and stdio, in one message.
func (u *unit) mayStore() int {
	return wire.MaxDescriptors - 3 - len(u.definition.Sockets)
}

func notifyKey(name string) string { return "notify/" + name }

// storeKey names a stored descriptor among what tier 1 holds, so that its name
// is known to our successor.
func storeKey(unit string, number uint64, name string) string {
	return "fdstore/" + unit + "/" + strconv.FormatUint(number, 10) + "/" + name
}

// openNotify returns the path of u's notify socket, which it opens if u is to
// have one; "" if not.
func (s *Supervisor) openNotify(u *unit) (string, error) {
	wants := u.definition.Watchdog > 0 || u.definition.Ready != nil && u.definition.Ready.Notify
	if !wants {
		return "", nil
	}
	if u.notify != nil && u.notify.there() {
		return u.notify.path, nil
	}
	if u.notify != nil {
		u.notify.socket.Close()
		u.notify = nil
	}
	path := s.slots.path(u.name, notifySocket)
	var socket *notify.Socket
	var err error
	if held := s.takeHeld(notifyKey(u.name)); len(held) > 0 {
		file := os.NewFile(uintptr(held[0]), path)
		socket, err = notify.FromFile(file) // which duplicates it
		file.Close()
	} else {
		mode := os.FileMode(0o600)
		if s.privileged(u) {
			mode = 0o666 // it has another uid; the credentials of each message tell who sends
		}
		os.Remove(path) // whatever it is
		socket, err = notify.Listen(path, mode)
	}
	if err != nil {
		return "", fmt.Errorf("cannot make the notify socket: %w", err)
	}
	if fd, err := duplicate(socket); err == nil {
		s.link.send(&wire.Hold{Key: notifyKey(u.name)}, []int{fd}, []int{fd})
	} else {
		slog.Warn("a notify socket will not outlive this supervisor", "service", u.name, "err", err)
	}
	u.notify = &notifier{path: path, socket: socket}
	u.notify.file, _ = os.Lstat(path) // without it there is no such file: the next start makes one
	go func() {
		// Each message is dealt with before the next is read, which is what makes
		// BARRIER=1 true.
		if err := socket.Receive(func(m *notify.Message) { s.ask(func() { s.notified(u, m) }) }); err != nil {
			slog.Warn("cannot read notifications", "service", u.name, "err", err)
		}
	}()
	return path, nil
}

// duplicate returns a descriptor of the socket. os.File.Fd would make the socket
// blocking for all who share it, and its reader could never be woken again.
func duplicate(socket *notify.Socket) (fd int, err error) {
	file, err := socket.File()
	if err != nil {
		return -1, err
	}
	defer file.Close()
	raw, err := file.SyscallConn()
	if err != nil {
		return -1, err
	}
	var failure error
	err = raw.Control(func(own uintptr) {
		fd, failure = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 3)
	})
	return fd, errors.Join(err, failure)
}

// closeNotify closes u's notify socket for good, and what it stored.
func (s *Supervisor) closeNotify(u *unit) {
	if u.notify != nil {
		u.notify.socket.Close()
		u.notify = nil
		s.link.send(&wire.Release{Key: notifyKey(u.name)}, nil, nil)
	}
	s.dropStored(u, func(storedFD) bool { return true })
}

// notified takes one message of a service. What a process of an earlier run
// sent late says nothing of this one.
func (s *Supervisor) notified(u *unit, m *notify.Message) {
	if !s.isOf(u, m) {
		u.complain("a notification that is not the service's own is ignored", "pid", m.PID, "uid", m.UID)
		return
	}
	for _, fault := range m.Faults {
		u.complain("a notification was not understood", "pid", m.PID, "err", fault)
	}
	if m.Errno != nil || m.ExitStatus != nil {
		s.troubled(u, m)
	}
	if m.PID != 0 && m.PID == u.formerPID && m.PID != u.state.PID {
		return
	}
	tell := func(e machine.Event) {
		e.ID = u.state.ID
		s.step(u, e)
	}
	if m.WatchdogInterval > 0 {
		tell(machine.Event{Kind: machine.WatchdogSet, Within: int64(m.WatchdogInterval)})
	}
	if m.ExtendTimeout > 0 {
		tell(machine.Event{Kind: machine.ExtendTimeout, Within: int64(m.ExtendTimeout)})
	}
	if m.Status != nil {
		tell(machine.Event{Kind: machine.StatusText, Reason: *m.Status})
	}
	if m.MainPID != 0 {
		s.claimMain(u, m.MainPID, tell)
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
		s.dropStored(u, func(f storedFD) bool { return f.name == m.FDName })
	case m.FDStore:
		s.keep(u, m)
	}
}

// isOf tells whether a message is from u itself, or root. It is asked of a
// service that has what the others have not, another user or a capability: they
// must not end it, nor have descriptors passed to it, by a socket that they can
// write to.
func (s *Supervisor) isOf(u *unit, m *notify.Message) bool {
	if !s.privileged(u) || m.UID == 0 {
		return true
	}
	i := slices.IndexFunc(s.policy.Privileged, func(p wire.Program) bool { return p.Name == u.name })
	if uid := s.policy.Privileged[i].Identity.UID; uid != s.policy.User.UID {
		return m.UID == uid
	}
	return u.tag == 0 || hasGroup(m.PID, u.tag)
}

// troubled takes ERRNO= and EXIT_STATUS=. They are sent right before an exit, so
// they count as long as no other run has begun.
func (s *Supervisor) troubled(u *unit, m *notify.Message) {
	if u.state.ID != 0 && m.PID != 0 && m.PID == u.formerPID && m.PID != u.state.PID && u.state.Phase != machine.Sweeping {
		return
	}
	e := machine.Event{Kind: machine.Trouble, ID: u.state.LastID, ExitStatus: m.ExitStatus}
	if m.Errno != nil {
		e.Errno = *m.Errno
	}
	s.step(u, e)
}

// claimMain takes MAINPID= if the process bears the service's tag: a service
// speaks for its own tree alone.
func (s *Supervisor) claimMain(u *unit, pid int, tell func(machine.Event)) {
	if u.tag != 0 && !hasGroup(pid, u.tag) {
		u.complain("MAINPID= names a process that is not of the service; ignored", "pid", pid)
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
func (s *Supervisor) keep(u *unit, m *notify.Message) {
	for _, file := range m.Files() {
		if most := u.mayStore(); len(u.stored) >= most {
			u.complain("too many descriptors are stored; the rest is dropped", "most", most)
			return
		}
		fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			slog.Warn("cannot store a descriptor", "service", u.name, "err", err)
			return
		}
		u.storedCount++
		stored := storedFD{fd: fd, number: u.storedCount, name: cmp.Or(m.FDName, "stored")}
		stored.key = storeKey(u.name, u.storedCount, stored.name)
		u.stored = append(u.stored, stored)
		s.link.send(&wire.Hold{Key: stored.key}, []int{fd}, nil)
	}
}

// dropStored lets go of the stored descriptors that gone picks.
func (s *Supervisor) dropStored(u *unit, gone func(storedFD) bool) {
	u.stored = slices.DeleteFunc(u.stored, func(f storedFD) bool {
		if !gone(f) {
			return false
		}
		// Tier 1 may still have to be sent it: the link closes it in its turn.
		s.link.send(&wire.Release{Key: f.key}, nil, []int{f.fd})
		return true
	})
}

// restoreStored takes back the descriptors that a service had stored before
// this process began.
func (s *Supervisor) restoreStored(u *unit) {
	prefix := "fdstore/" + u.name + "/"
	for key, fds := range s.held {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok || len(fds) != 1 {
			continue
		}
		number, name, _ := strings.Cut(rest, "/")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			continue
		}
		u.storedCount = max(u.storedCount, n)
		u.stored = append(u.stored, storedFD{fds[0], n, name, key})
		delete(s.held, key)
	}
	slices.SortFunc(u.stored, func(a, b storedFD) int { return cmp.Compare(a.number, b.number) })
}
