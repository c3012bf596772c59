package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/wire"
)

// placer has tier 1 put a configuration that root has approved in the place of the
// one that there is. It is the Owner of the processes that do so, of which tier 1
// has one at a time.
type placer struct {
	loop  *mailbox
	tier1 *tier1
	runs  map[uint64]chan error // by spawn id; the loop's
}

// errPlacing is that another process, of a predecessor, is at it.
var errPlacing = errors.New("another configuration is being put in place")

// place returns when it is there, or why it is not.
func (p *placer) place(ctx context.Context, digest string) error {
	for {
		err := p.once(ctx, digest)
		if !errors.Is(err, errPlacing) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *placer) once(ctx context.Context, digest string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	target, err := unix.FcntlInt(write.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	write.Close()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	p.loop.ask(func() {
		id := p.tier1.NewID(p)
		p.runs[id] = ended
		p.tier1.link.Send(&wire.Spawn{
			ID: id, Name: wire.ConfigurationProgram, Privileged: true, NoNewPrivs: true, Argv: []string{digest}, Targets: []int32{1},
		}, []int{target}, []int{target})
	})
	select {
	case err = <-ended:
	case <-ctx.Done():
		return errors.New("the configuration's file system does not answer")
	}
	if errors.Is(err, errFailed) {
		why := make([]byte, 1024)
		_ = read.SetReadDeadline(time.Now().Add(time.Second))
		if n, _ := read.Read(why); n > 0 {
			line, _, _ := strings.Cut(string(why[:n]), "\n")
			err = errors.New(line)
		}
	}
	return err
}

// errFailed is a process that has said why.
var errFailed = errors.New("the configuration could not be put in place; the container's log says why")

// Takes is Owner's: nobody waits for a predecessor's.
func (p *placer) Takes(c wire.Child) bool {
	if c.Name != wire.ConfigurationProgram {
		return false
	}
	p.runs[c.ID] = make(chan error, 1)
	if c.State == wire.ChildExited || c.State == wire.ChildFailed {
		p.end(c.ID, nil)
	}
	return true
}

// Hear is Owner's.
func (p *placer) Hear(m wire.Message) {
	switch m := m.(type) {
	case *wire.SpawnFailed:
		err := fmt.Errorf("PID 1 does not put it in place: %s", m.Reason)
		if unix.Errno(m.Errno) == unix.EAGAIN && m.Step == wire.StepPolicy {
			err = errPlacing
		}
		p.end(m.ID, err)
	case *wire.Exited:
		var err error
		if m.Exit.Code != 0 || m.Exit.Signal != 0 {
			err = errFailed
		}
		p.end(m.ID, err)
	}
}

// end tells whoever waits, and tier 1 that it is known.
func (p *placer) end(id uint64, err error) {
	if ended := p.runs[id]; ended != nil {
		ended <- err
		delete(p.runs, id)
	}
	p.tier1.Disown(id)
	p.tier1.link.Send(&wire.Acknowledge{ID: id}, nil, nil)
}
