package spawn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/service"
	"rlminit/wire"
)

// Programs are run beside services, each for somebody who waits for its end: those of
// probes, and what puts a configuration in its place. It is their Owner.
type Programs struct {
	driver *Driver

	mu   sync.Mutex
	runs map[uint64]*program
}

// program is one that runs.
type program struct {
	ended     chan wire.Message // takes one without blocking: SpawnFailed or Exited
	abandoned bool              // nobody waits for it
}

// run has a program spawned, with descriptors, of which those in after are closed, and
// waits for its end, or that of ctx.
func (p *Programs) run(ctx context.Context, m *wire.Spawn, fds, after []int) (wire.Message, error) {
	m.ID = p.driver.tier1.NewID(p)
	run := p.begin(m.ID)
	p.driver.tier1.Send(m, fds, after)
	select {
	case end := <-run.ended:
		return end, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *Programs) begin(id uint64) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs[id] = &program{ended: make(chan wire.Message, 1)}
	return p.runs[id]
}

// abandon kills a program. It stays in the table until tier 1 tells of its end.
func (p *Programs) abandon(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if run := p.runs[id]; run != nil {
		run.abandoned = true
		p.driver.tier1.kill(id, wire.ScopeGroup)
	}
}

// Takes is Owner's: nobody waits for a predecessor's.
func (p *Programs) Takes(c wire.Child) bool {
	probe := wire.IsProbe(c.Name)
	if !probe && c.Name != wire.ConfigurationProgram {
		return false
	}
	p.begin(c.ID)
	switch {
	case c.State == wire.ChildExited, c.State == wire.ChildFailed:
		p.end(c.ID, nil)
	case probe:
		p.abandon(c.ID)
	}
	return true
}

// Hear is Owner's.
func (p *Programs) Hear(m wire.Message) {
	switch m := m.(type) {
	case *wire.Spawned:
		p.mu.Lock()
		defer p.mu.Unlock()
		if run := p.runs[m.ID]; run != nil && run.abandoned {
			p.driver.tier1.kill(m.ID, wire.ScopeGroup) // it could not be signalled before
		}
	case *wire.SpawnFailed:
		p.end(m.ID, m)
	case *wire.Exited:
		p.end(m.ID, m)
	}
}

// end tells whoever waits how a program has ended, and tier 1 that this is known.
func (p *Programs) end(id uint64, m wire.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if run := p.runs[id]; run != nil {
		run.ended <- m
		delete(p.runs, id)
	}
	p.driver.tier1.forget(id)
}

// Probe runs a program of that name as a service, with its tag, its limits and these
// descriptors: it can do no more than the service itself. It returns why the probe has not
// passed.
func (p *Programs) Probe(ctx context.Context, name string, s Service, tag uint32, fds []int) error {
	ready := p.driver.Prepare(s, nil)
	defer ready.Walls.Close()
	if ready.Err != nil {
		return ready.Err
	}
	m := message(s, ready)
	m.Name, m.Tag, m.Targets = name, tag, []int32{0, 1, 2}
	built, err := ready.Walls.Fill(m)
	if err != nil {
		return err
	}
	end, err := p.run(ctx, m, append(fds, built...), built)
	if err != nil {
		p.abandon(m.ID)
		return fmt.Errorf("%s did not end in time", s.Probe[0])
	}
	exited, did := end.(*wire.Exited)
	switch {
	case !did:
		return errors.New("cannot be started")
	case exited.Exit.Signal != 0:
		return fmt.Errorf("killed by %s", service.SignalName(unix.Signal(exited.Exit.Signal)))
	case exited.Exit.Code != 0:
		return fmt.Errorf("exited with code %d", exited.Exit.Code)
	}
	return nil
}

// errPlacing is that another process, of a predecessor, is at it.
var errPlacing = errors.New("another configuration is being put in place")

// Place has tier 1 put a configuration that root has approved in the place of the one that
// there is. Tier 1 does one at a time. It returns when that is done, or why it is not.
func (p *Programs) Place(ctx context.Context, digest string) error {
	for {
		err := p.place(ctx, digest)
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

func (p *Programs) place(ctx context.Context, digest string) error {
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
	end, err := p.run(ctx, &wire.Spawn{
		Name: wire.ConfigurationProgram, Privileged: true, NoNewPrivs: true, Argv: []string{digest}, Targets: []int32{1},
	}, []int{target}, []int{target})
	switch m := end.(type) {
	case *wire.SpawnFailed:
		if syscall.Errno(m.Errno) == unix.EAGAIN && m.Step == wire.StepPolicy {
			return errPlacing
		}
		return fmt.Errorf("PID 1 does not put it in place: %s", m.Reason)
	case *wire.Exited:
		if m.Exit.Code == 0 && m.Exit.Signal == 0 {
			return nil
		}
	}
	if err != nil {
		return errors.New("the configuration's file system does not answer")
	}
	why := make([]byte, 1024)
	_ = read.SetReadDeadline(time.Now().Add(time.Second))
	if n, _ := read.Read(why); n > 0 {
		line, _, _ := strings.Cut(string(why[:n]), "\n")
		return errors.New(line)
	}
	return errors.New("the configuration could not be put in place; the container's log says why")
}
