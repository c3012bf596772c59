package supervise

import (
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/rights"
	"rlminit/wire"
)

// userFiles has tier 1 start the process that touches the service user's files,
// where that is somebody else than we are, and answers for it.
type userFiles struct {
	loop  *mailbox
	tier1 *tier1
	spare chan uint64 // a spawn's id: the loop may be who has to wait for the process
}

// openUser makes ready whoever touches the service user's files. It is nil, and
// so ourselves, where there is one uid for all.
func (s *Supervisor) openUser() {
	if id := s.policy.Supervisor.UID; id == 0 || id == s.policy.User.UID {
		return
	}
	f := &userFiles{loop: &s.mailbox, tier1: &s.tier1, spare: make(chan uint64, 1)}
	s.user = rights.New(f.start, func(line string) { slog.Warn(line) })
	s.Host(f)
	go f.refill()
}

func (f *userFiles) refill() { f.loop.do(func() { f.spare <- f.tier1.NewID(f) }) }

// spareWithin bounds the wait for an id, of which one is always ready but right
// after a process was started.
const spareWithin = time.Second

// start is rights.Start.
func (f *userFiles) start() (fd int, end func(), err error) {
	var id uint64
	select {
	case id = <-f.spare:
		go f.refill()
	case <-time.After(spareWithin):
		return -1, nil, errors.New("the process that touches the services' files is being replaced; try again")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	f.tier1.link.Send(&wire.Spawn{
		ID: id, Name: wire.FilesProgram, Privileged: true, NoNewPrivs: true, Targets: []int32{wire.FilesFD},
	}, pair[1:], pair[1:])
	return pair[0], func() { f.end(id) }, nil
}

func (f *userFiles) end(id uint64) {
	f.tier1.link.Send(&wire.Signal{ID: id, Signal: int32(unix.SIGKILL), Scope: wire.ScopeMain}, nil, nil)
}

// Takes is Owner's. A predecessor's ends by itself, for nobody asks it any more; if
// it does not, it hangs.
func (f *userFiles) Takes(c wire.Child) bool {
	if c.Name != wire.FilesProgram {
		return false
	}
	switch c.State {
	case wire.ChildExited, wire.ChildFailed:
		f.tier1.link.Send(&wire.Acknowledge{ID: c.ID}, nil, nil)
		f.tier1.Disown(c.ID)
	default:
		f.end(c.ID)
	}
	return true
}

// Hear is Owner's.
func (f *userFiles) Hear(m wire.Message) {
	switch m := m.(type) {
	case *wire.SpawnFailed:
		slog.Error("cannot start the process that touches the services' files", "err", unix.Errno(m.Errno), "reason", m.Reason)
		f.tier1.link.Send(&wire.Acknowledge{ID: m.ID}, nil, nil)
	case *wire.Exited:
		f.tier1.link.Send(&wire.Acknowledge{ID: m.ID}, nil, nil)
		f.tier1.Disown(m.ID)
	}
}
