package open

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/notify"
	"rlminit/supervise/order"
	"rlminit/supervise/process"
	"rlminit/wire"
)

// receive takes the messages of a notify socket until it is closed. The next one is read
// when what follows from the one before is decided: that makes BARRIER=1 true.
func (d *Driver) receive(node order.Node, name string, socket *notify.Socket) {
	var pace notify.Pace
	err := socket.Receive(func(m *notify.Message) {
		files := len(m.Files())
		d.mu.Lock()
		e := d.of[node]
		if e == nil || e.notify != socket {
			d.mu.Unlock()
			return
		}
		said, tag := d.understand(e, m), e.Tag
		d.mu.Unlock()
		if len(said) > 0 {
			d.Hear(core.Input{Kind: core.Notified, Node: node, PID: m.PID, Events: said})
		}
		// Others, who can write to the socket too, shall not make the service wait.
		if pause := pace.Pause(time.Now(), files); pause > 0 && (tag == 0 || hasGroup(m.PID, tag)) {
			time.Sleep(pause)
		}
	})
	if err != nil {
		slog.Warn("cannot read notifications", "service", name, "err", err)
	}
}

// understand is what a message says of its service. Of what it has the driver do that is
// done when this returns. The caller holds the lock.
func (d *Driver) understand(e *endpoints, m *notify.Message) []machine.Event {
	if !e.isOwn(m) {
		e.complain("a notification that is not the service's own is ignored", "pid", m.PID, "uid", m.UID)
		return nil
	}
	for _, fault := range m.Faults {
		e.complain("a notification was not understood", "pid", m.PID, "err", fault)
	}
	if m.MainPID != 0 && e.Tag != 0 && !hasGroup(m.MainPID, e.Tag) { // it speaks for its own tree alone
		e.complain("MAINPID= names a process that is not of the service; ignored", "pid", m.MainPID)
		m.MainPID = 0
	}
	switch {
	case m.FDStoreRemove:
		d.drop(e, func(f stored) bool { return f.name == m.FDName })
	case m.FDStore:
		d.store(e, m)
	}
	return events(m)
}

// events are what the core is told of a message, in order.
func events(m *notify.Message) (all []machine.Event) {
	tell := func(is bool, e machine.Event) {
		if is {
			all = append(all, e)
		}
	}
	trouble, status := machine.Event{Kind: machine.Trouble, ExitStatus: m.ExitStatus}, machine.Event{Kind: machine.StatusText}
	if m.Errno != nil {
		trouble.Errno = *m.Errno
	}
	if m.Status != nil {
		status.Reason = *m.Status
	}
	tell(m.Errno != nil || m.ExitStatus != nil, trouble)
	tell(m.WatchdogInterval > 0, machine.Event{Kind: machine.WatchdogSet, Within: int64(m.WatchdogInterval)})
	tell(m.ExtendTimeout > 0, machine.Event{Kind: machine.ExtendTimeout, Within: int64(m.ExtendTimeout)})
	tell(m.Status != nil, status)
	tell(m.MainPID != 0, machine.Event{Kind: machine.MainPID, PID: m.MainPID})
	tell(m.Reloading, machine.Event{Kind: machine.Reloading})
	tell(m.Ready, machine.Event{Kind: machine.Ready})
	tell(m.Stopping, machine.Event{Kind: machine.StoppingItself})
	tell(m.Watchdog, machine.Event{Kind: machine.WatchdogPing})
	tell(m.WatchdogTrigger, machine.Event{Kind: machine.WatchdogTrigger})
	return all
}

// isOwn tells whether a message is from the service itself, or root. Of one that has what
// the others have not, another user or a capability, they must not end it, nor have
// descriptors passed to it, by a socket that they can write to.
func (s Service) isOwn(m *notify.Message) bool {
	switch {
	case m.UID == 0, !s.Apart: // where anybody could write to the socket
		return true
	case s.Alike:
		return s.Tag == 0 || hasGroup(m.PID, s.Tag)
	}
	return m.UID == s.UID
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

// complaintsMax bounds what is said of one run's notifications: no service shall
// fill the container's log.
const complaintsMax = 10

// complain says what is wrong with the notifications of a run, as long as that is news.
func (e *endpoints) complain(what string, args ...any) {
	if e.run != e.Run {
		e.run, e.said = e.Run, 0
	}
	if e.said++; e.said <= complaintsMax {
		slog.Warn(what, append([]any{"service", e.Name}, args...)...)
	}
}

// storePrefix begins the keys of what a service has stored among what tier 1 holds;
// number and name follow, so that a successor knows both.
func storePrefix(service string) string { return storeUnder + service + "/" }

// storeUnder is where all of them are.
const storeUnder = "fdstore/"

// store keeps the descriptors of one FDSTORE=1, here and in tier 1:
// sd_pid_notify_with_fds(3).
func (d *Driver) store(e *endpoints, m *notify.Message) {
	for _, file := range m.Files() {
		if kind, ok := process.MayStore(int(file.Fd())); !ok {
			e.complain("a descriptor is not stored: to close it might take for ever", "kind", kind)
			continue
		}
		if most := mayStore(e.Definition); len(e.stored) >= most {
			e.complain("too many descriptors are stored; the rest is dropped", "most", most)
			return
		}
		fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			slog.Warn("cannot store a descriptor", "service", e.Name, "err", err)
			return
		}
		e.count++
		f := stored{fd: fd, name: cmp.Or(m.FDName, "stored")}
		f.key = storePrefix(e.Name) + strconv.FormatUint(e.count, 10) + "/" + f.name
		e.stored = append(e.stored, f)
		d.Send(&wire.Hold{Key: f.key}, []int{fd}, nil)
	}
}

// drop lets go of the stored descriptors that gone picks.
func (d *Driver) drop(e *endpoints, gone func(stored) bool) {
	e.stored = slices.DeleteFunc(e.stored, func(f stored) bool {
		is := gone(f)
		if is {
			// Tier 1 may still have to be sent it: the link closes it in its turn.
			d.Send(&wire.Release{Key: f.key}, nil, []int{f.fd})
		}
		return is
	})
}

// storedIn are the keys of what services have stored, by service, among what tier 1 held.
func storedIn(held handover.Held) map[string][]string {
	keys := map[string][]string{}
	for key := range held {
		if rest, ok := strings.CutPrefix(key, storeUnder); ok {
			service, _, _ := strings.Cut(rest, "/")
			keys[service] = append(keys[service], key)
		}
	}
	return keys
}

// restore takes back, out of what tier 1 held, what a service had stored under keys before
// this process began.
func (e *endpoints) restore(held handover.Held, keys []string) {
	numbers := map[string]uint64{}
	for _, key := range keys {
		number, name, _ := strings.Cut(strings.TrimPrefix(key, storePrefix(e.Name)), "/")
		n, err := strconv.ParseUint(number, 10, 64)
		if len(held[key]) != 1 || err != nil {
			continue
		}
		numbers[key], e.count = n, max(e.count, n)
		e.stored = append(e.stored, stored{held[key][0], name, key})
		delete(held, key)
	}
	slices.SortFunc(e.stored, func(a, b stored) int { return cmp.Compare(numbers[a.key], numbers[b.key]) })
}
