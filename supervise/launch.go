package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"rlminit/config"
	"rlminit/internal/redact"
	"rlminit/supervise/handover"
	"rlminit/supervise/link"
	"rlminit/supervise/machine"
	"rlminit/supervise/process"
	"rlminit/wire"
)

// launch is the preparation of a spawn: what touches files that may lie on a
// file system that does not answer is done beside the loop.
type launch struct {
	id    uint64
	abort chan struct{}
}

// A launch is stuck, and its service parked, when neither it nor any other has come
// to its end for stuckAfter since it had its turn; at the latest after stuckAtLast.
// Many at once wait for each other, and for the few processes that touch their files:
// that is no file system which does not answer.
const (
	stuckAfter  = 2 * time.Second
	stuckAtLast = 20 * time.Second
)

// stuckIn is how long is left until a launch is stuck that has had its turn for so
// long, where the last one came to its end such a while ago; not above 0: it is.
func stuckIn(had, lastEnd time.Duration) time.Duration {
	return min(stuckAfter-min(had, lastEnd), stuckAtLast-had)
}

// beginLaunch prepares the spawn id of u, and has it spawned when that is done.
func (s *Supervisor) beginLaunch(u *unit, id uint64) {
	l := &launch{id: id, abort: make(chan struct{})}
	u.launch = l
	definition, privileged := u.definition, s.privileged(u)
	go func() {
		begun, ready := make(chan struct{}), make(chan process.Prepared, 1)
		go func() {
			defer s.turns.Take(s.turn)()
			select {
			case <-l.abort:
			default:
				close(begun)
				p := s.preparation(definition, privileged)
				s.lastReady.Store(time.Now())
				ready <- p
			}
		}()
		select {
		case <-begun:
		case <-l.abort:
			return
		}
		turned := time.Now()
		stuck := time.NewTimer(stuckAfter)
		defer stuck.Stop()
		for {
			select {
			case p := <-ready:
				s.do(func() { s.finishLaunch(u, l, p) })
				return
			case <-l.abort:
				return
			case <-stuck.C:
				lastEnd, _ := s.lastReady.Load().(time.Time)
				if left := stuckIn(time.Since(turned), time.Since(lastEnd)); left > 0 {
					stuck.Reset(left)
					continue
				}
				s.do(func() {
					if u.launch == l {
						s.step(u, machine.Event{
							Kind: machine.SpawnStuck, ID: id,
							Reason: "its working directory, program or environment file lies on a file system that does not answer",
						})
					}
				})
			}
		}
	}()
}

// abandonLaunch ends a launch that nobody wants any more. What is stuck in the
// kernel stays there, and its result is thrown away.
func (s *Supervisor) abandonLaunch(u *unit) {
	l := u.launch
	if l == nil {
		return
	}
	u.launch = nil
	close(l.abort)
	s.soon(func() {
		delete(s.byID, l.id)
		s.step(u, machine.Event{Kind: machine.SpawnFailed, ID: l.id, Reason: "stopped before it was started", Temporary: true})
	})
}

// finishLaunch hands a prepared spawn to tier 1.
func (s *Supervisor) finishLaunch(u *unit, l *launch, p process.Prepared) {
	if u.launch != l {
		return
	}
	u.launch = nil
	u.unrunnable, u.uid = p.Unrunnable, p.UID
	defer p.Walls.Close()
	fail := func(err error) {
		delete(s.byID, l.id)
		s.step(u, machine.Event{Kind: machine.SpawnFailed, ID: l.id, Reason: err.Error(), Temporary: link.Temporary(err) || errors.Is(err, handover.ErrNoTag) || errors.Is(err, errNotGiven)})
	}
	if p.Err != nil {
		fail(p.Err)
		return
	}
	if s.allotTag(u) != nil {
		fail(handover.ErrNoTag)
		return
	}
	if err := s.openLog(u); err != nil {
		fail(err)
		return
	}
	var fds []int
	var targets []int32
	onTerminal := s.terminal && u.name == config.MainService && u.ours
	if !onTerminal {
		fds, targets = s.stdio(u)
	}
	listeners, names, err := s.descriptors.passed(u, p.User)
	if err != nil {
		fail(s.whose(err))
		return
	}
	for i, fd := range listeners {
		fds, targets = append(fds, fd), append(targets, int32(3+i))
	}
	env := p.Env
	if len(listeners) > 0 {
		env = append(env, fmt.Sprintf("LISTEN_FDS=%d", len(listeners)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	}
	path, err := s.descriptors.openNotify(u, true)
	if err == nil && path != "" && s.descriptors.notifiesAlone(u) {
		err = p.Walls.Notifies(path)
	}
	if err != nil {
		fail(err)
		return
	}
	if path != "" {
		env = append(env, "NOTIFY_SOCKET="+path)
		if u.definition.Watchdog > 0 {
			env = append(env, fmt.Sprintf("WATCHDOG_USEC=%d", u.definition.Watchdog.Microseconds()))
		}
	}
	u.program, u.secrets = p.Path, redact.Of(p.Env, p.Walls.Secrets...)
	u.log.Mark("starting " + cmp.Or(p.Path, u.name))
	spawn := &wire.Spawn{
		ID: l.id, Name: u.name, UID: p.UID, Privileged: s.privileged(u),
		Path: p.Path, Argv: p.Argv, Env: env, Dir: p.Dir,
		Umask: u.definition.Umask, Rlimits: config.Rlimits(u.definition.Limits), Bounds: config.Bounds(u.definition.Limits), Tag: u.tag,
		Targets: targets, ListenPID: len(listeners) > 0,
		NoNewPrivs: !s.privileged(u), Terminal: onTerminal, Label: u.memory().encode(labelMax),
	}
	built, err := p.Walls.Fill(spawn)
	if err != nil {
		fail(err)
		return
	}
	for _, note := range p.Walls.Notes {
		u.log.Mark("isolation: " + note)
	}
	s.link.Send(spawn, append(fds, built...), built)
}

// whose says of an address that is in use whether it is we who use it.
func (s *Supervisor) whose(err error) error {
	used, is := errors.AsType[*process.InUse](err)
	if !is {
		return err
	}
	holder := ""
	if started, _ := s.settings.Started(); started.Metrics.Network != "" && process.Collide(started.Metrics, used.Socket) {
		holder = "metrics.listen"
	}
	for _, u := range s.all() {
		if u.open.sockets.Occupy(used.Socket) {
			holder = u.title()
		}
	}
	if holder == "" {
		return err
	}
	return fmt.Errorf("cannot listen on %s:%s: rlminit holds that address for %s; give one of the two another", used.Socket.Network, used.Socket.Address, holder)
}
