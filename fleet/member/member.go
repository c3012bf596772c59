// Package member runs the agent of one member: it tells the pure agent what etcd, the box
// and the clock say, and carries out what that decides.
//
// One goroutine owns the agent. Each effect is carried out in a goroutine of its own, which
// ends with an input; what is not answered is bounded by a timeout.
package member

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"rlminit/fleet/agent"
	"rlminit/fleet/local"
	"rlminit/fleet/status"
	"rlminit/fleet/store"
)

// Box is what a member asks of its container; local.Box is one.
type Box interface {
	Survey(ctx context.Context) ([]agent.Run, error)
	Seen(ctx context.Context) ([]agent.Run, error)
	Try(ctx context.Context, name string, p agent.Profile) error // an error says why the box would refuse it
	// Prepare sees that the box has the profile. made: it had none, and so an empty directory.
	Prepare(ctx context.Context, name string, p agent.Profile) (made bool, err error)
	Start(ctx context.Context, name string, fence, at int64) error
	Extend(ctx context.Context, all []agent.Deadline) (refused []string, err error)
	Stop(ctx context.Context, name string) error
}

// Data keeps the profiles' data outside of the box; nil: nothing does.
type Data interface {
	// Restore puts the current data of a profile in place, if there is any newer than what
	// is there. It returns how many bytes were read; 0: nothing was to be restored. told is
	// told how much of how much has been read.
	Restore(ctx context.Context, name string, fence int64, told func(done, all int64)) (bytes int64, err error)
	// Save stores it, and has etcd name it as current. unsure: whether anything ran under the
	// claim is not known; then only what was put in place under it is stored.
	Save(ctx context.Context, name string, fence int64, unsure bool) (bytes int64, err error)
}

// Config is all that a member needs.
type Config struct {
	Fleet  string
	Agent  agent.Config
	Member agent.Member
	Dir    string // where the agent leaves its session for the next one
	Store  *store.Store
	Box    Box
	Data   Data
	Log    *log.Logger
	Tell   func(string)  // is told how the member is, whenever that is something else; nil: nobody
	Listen string        // where it tells how the fleet is, ADDRESS:PORT or unix:PATH; "": nowhere
	Poll   time.Duration // how often the box is asked how its gateways are; 0: 2 s, or a fifth of a lease that is shorter than 10 s

	// Release: before it ends it stops all that it has, stores the data, and gives the
	// claims back, within this time; 0: it does not.
	Release time.Duration
}

// parallel bounds how much the box is asked at once, and how many saves and restores there are
// at once.
const parallel = 32

// Member is one that runs.
type Member struct {
	Config
	agent  *agent.Agent
	memory *memory
	inputs chan agent.Input
	doing  sync.WaitGroup // effects that are carried out

	// Places, of which each takes one while it is under way: requests to the box, restores, saves.
	box, restores, saves chan struct{}

	asks     chan chan<- status.Snapshot // who asks what the member knows
	revision int64
	trouble  string // why the session is not renewed
	told     string // to Tell
	counts   status.Counts
	moving   sync.Mutex // of what counts has of data
}

// Run runs a member until ctx is done. Without Release it leaves everything as it is: what
// runs goes on until its deadline, and the next agent in this box takes it over.
func Run(ctx context.Context, c Config) error {
	if c.Poll == 0 {
		c.Poll = 2 * time.Second
		if short := time.Duration(c.Agent.TTL) / 5; short > 0 {
			c.Poll = min(c.Poll, short)
		}
	}
	memory, err := openMemory(c.Dir, func() { c.Log.Print("waits for another agent of this box to end") })
	if err != nil {
		return err
	}
	defer memory.lock.Close()
	m := &Member{
		Config: c, agent: agent.New(c.Agent, nil), memory: memory,
		inputs: make(chan agent.Input, 1024), box: make(chan struct{}, parallel),
		restores: make(chan struct{}, parallel), saves: make(chan struct{}, parallel), asks: make(chan chan<- status.Snapshot),
	}
	m.counts.Data = c.Data != nil
	asked := ctx.Done()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go c.Store.Watch(ctx, func(changes []agent.Change, whole bool, revision int64) {
		m.send(ctx, agent.Input{Kind: agent.Changed, Changes: changes, Whole: whole, Revision: revision})
	}, m.followed())
	go m.poll(ctx)
	defer m.serve()()
	left := memory.read(c.Fleet, c.Agent.Member)
	m.step(ctx, agent.Input{Kind: agent.Began, Lease: left.Lease, TTL: left.TTL, Sent: left.Sent})
	return m.loop(ctx, asked)
}

// loop gives the agent its inputs until it is asked to end, and is ready to.
func (m *Member) loop(ctx context.Context, asked <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var late <-chan time.Time
	for !m.agent.Done() {
		select {
		case <-asked:
			if m.Release == 0 {
				return nil
			}
			asked, late = nil, time.After(m.Release)
			m.step(ctx, agent.Input{Kind: agent.Leave})
		case <-late:
			return fmt.Errorf("cannot give all claims back within %s: %d are left, until the lease ends", m.Release, len(m.agent.Held()))
		case in := <-m.inputs:
			m.step(ctx, in)
		case ask := <-m.asks:
			ask <- m.snapshot()
			continue
		case <-timer.C:
			m.step(ctx, agent.Input{Kind: agent.Tick})
		}
		if next := m.agent.Next(); next != 0 {
			timer.Reset(max(time.Duration(next-boottime()), time.Millisecond))
		}
	}
	m.doing.Wait() // the end of the session among it
	return nil
}

func (m *Member) send(ctx context.Context, in agent.Input) {
	select {
	case m.inputs <- in:
	case <-ctx.Done():
	}
}

// step gives the agent one input, and begins what it asks for.
func (m *Member) step(ctx context.Context, in agent.Input) {
	in.Now = boottime()
	effects := m.agent.Step(in)
	m.remember()
	m.note(in)
	for _, e := range effects {
		switch e.Kind {
		case agent.Say:
			m.Log.Print(e.Text)
		case agent.Save, agent.Prepare:
			go m.answer(ctx, e) // which may take long, and is not waited for in the end
		default:
			m.doing.Add(1)
			go func() {
				defer m.doing.Done()
				m.answer(ctx, e)
			}()
		}
	}
}

// remember leaves the session for the next agent.
func (m *Member) remember() {
	lease, ttl, sent := m.agent.Confirmed()
	err := m.memory.write(remembered{Fleet: m.Fleet, Member: m.Config.Agent.Member, Lease: lease, TTL: ttl, Sent: sent})
	if err != nil {
		m.Log.Printf("cannot leave the session for the next agent: %v", err)
	}
}

// followed says that the changes cannot be followed, once, and that they can again.
func (m *Member) followed() func(error) {
	said := false
	return func(err error) {
		switch {
		case err != nil && !said:
			m.Log.Printf("etcd: %v", err)
		case err == nil && said:
			m.Log.Print("etcd: the changes are followed again")
		}
		said = err != nil
	}
}

// poll asks the box how its gateways are.
func (m *Member) poll(ctx context.Context) {
	tick := time.NewTicker(m.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		begun := boottime()
		bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
		runs, err := m.Box.Seen(bounded)
		cancel()
		if err == nil {
			m.send(ctx, agent.Input{Kind: agent.Seen, Sent: begun, Runs: runs})
		}
	}
}

// answer carries out an effect and sends what came of it.
func (m *Member) answer(ctx context.Context, e agent.Effect) {
	in := agent.Input{Name: e.Name, Fence: e.Fence, Lease: e.Lease}
	answered := true
	switch e.Kind {
	case agent.Grant, agent.Renew, agent.Claim, agent.Release:
		m.askStore(ctx, e, &in)
	case agent.Revoke, agent.Evict, agent.Fail, agent.Recover, agent.Moved, agent.Report:
		m.tellStore(ctx, e)
		answered = false
	case agent.Extend: // which waits for nobody: a stop may take half a minute, and a save hours
		answered = m.askBox(ctx, e, &in)
	default:
		place := m.box
		switch {
		case e.Kind == agent.Save:
			place = m.saves
		case e.Restore:
			place = m.restores
		}
		place <- struct{}{}
		answered = m.askBox(ctx, e, &in)
		<-place
	}
	if answered && ctx.Err() == nil {
		m.send(ctx, in)
	}
}

// askStore carries out what etcd answers.
func (m *Member) askStore(ctx context.Context, e agent.Effect, in *agent.Input) {
	sent := boottime()
	var err error
	switch e.Kind {
	case agent.Grant:
		var ttl time.Duration
		in.Kind, in.Sent = agent.Granted, sent
		if in.Lease, ttl, err = m.Store.Grant(ctx, m.Config.Agent.Member, m.Config.Member, time.Duration(m.Config.Agent.TTL)); err != nil {
			in.Kind, in.Text = agent.NotGranted, err.Error()
		}
		in.TTL = int64(ttl)
	case agent.Renew:
		in.Kind, in.Sent = agent.Renewed, sent
		switch in.Full, err = m.renew(ctx, e); {
		case errors.Is(err, store.ErrExpired):
			in.Kind = agent.Expired
		case err != nil:
			in.Kind, in.Text = agent.NotRenewed, err.Error()
		}
	case agent.Claim:
		in.Kind = agent.Claimed
		switch in.Fence, err = m.Store.Claim(ctx, e.Name, m.Config.Agent.Member, e.Lease, e.Fence, e.Space); {
		case errors.Is(err, store.ErrTaken):
			in.Kind = agent.Taken
		case err != nil:
			in.Kind = agent.Unsure
		}
	case agent.Release:
		in.Kind, in.Failed = agent.Released, m.Store.Release(ctx, e.Name, e.Fence) != nil
	}
}

// renew sends a beat with what this member is now, and the time of the lease that it has.
func (m *Member) renew(ctx context.Context, e agent.Effect) (full bool, err error) {
	is := m.Config.Member
	is.TTL, is.Foreign = e.TTL, e.Names
	return m.Store.Renew(ctx, m.Config.Agent.Member, is, e.Lease)
}

// tellStore carries out what nobody waits for. What fails is asked for again, or is let be:
// a lease ends by itself.
func (m *Member) tellStore(ctx context.Context, e agent.Effect) {
	var err error
	switch e.Kind {
	case agent.Revoke:
		m.Store.Revoke(ctx, e.Lease)
	case agent.Evict:
		var done bool
		if done, err = m.Store.Evict(ctx, e.Name, e.Lease, e.Revision, e.Space); done {
			m.Log.Printf("nothing is heard of the member %s, and etcd has not ended its session: it is ended now", e.Name)
		}
	case agent.Fail:
		m.Log.Printf("%s: %s; it is tried again, here or elsewhere", e.Name, e.Text)
		err = m.Store.Fail(ctx, e.Name, m.Config.Agent.Member, e.Count, e.Text)
	case agent.Recover:
		err = m.Store.Recover(ctx, e.Name)
	case agent.Report:
		err = m.Store.Report(ctx, e.Name, e.Lease, agent.Live{Fence: e.Fence, Declared: e.Revision, Trouble: e.Text})
	case agent.Moved:
		err = m.Store.Moved(ctx, e.Name, e.Revision)
	}
	if err != nil && ctx.Err() == nil {
		m.Log.Printf("%s: cannot record it in etcd: %v", e.Name, err)
	}
}

// boxTimeout bounds what the box is asked, but for a stop and for what moves data.
const boxTimeout = 10 * time.Second

// askBox carries out what the box does. It returns false if nothing can be said yet.
func (m *Member) askBox(ctx context.Context, e agent.Effect, in *agent.Input) bool {
	bounded, cancel := context.WithTimeout(ctx, boxTimeout)
	defer cancel()
	var err error
	switch e.Kind {
	case agent.Survey:
		in.Kind, in.Sent = agent.Surveyed, boottime()
		for in.Runs, err = m.Box.Survey(ctx); err != nil; in.Runs, err = m.Box.Survey(ctx) {
			m.Log.Printf("cannot ask the box what it has: %v", err)
			select {
			case <-ctx.Done():
				return false
			case <-time.After(time.Second):
			}
		}
	case agent.Try:
		in.Kind, in.Revision = agent.Tried, e.Revision
		if err = m.Box.Try(bounded, e.Name, e.Profile); err != nil {
			in.Failed, in.Text = true, err.Error()
		}
	case agent.Prepare:
		in.Kind = agent.Prepared
		if err = m.prepare(ctx, e); err != nil {
			in.Failed, in.Text = true, err.Error()
		}
	case agent.Start:
		in.Kind = agent.Started
		in.Outcome, in.Text = m.start(bounded, e)
	case agent.Extend:
		in.Kind = agent.Extended
		if in.Names, err = m.Box.Extend(bounded, e.Deadlines); err != nil {
			m.Log.Printf("cannot move deadlines on: %v", err)
			return false // with the next keep-alive
		}
	case agent.Stop:
		in.Kind = agent.Stopped
		if err = m.Box.Stop(ctx, e.Name); err != nil {
			in.Failed = true
			m.Log.Printf("%s: cannot be stopped: %v", e.Name, err)
		}
	case agent.Save:
		in.Kind = agent.Saved
		if m.Data != nil {
			if err = m.transfer(&m.counts.Saves, func() (int64, error) { return m.Data.Save(ctx, e.Name, e.Fence, e.Unsure) }); err != nil {
				in.Failed, in.Text = true, err.Error()
			}
		}
	}
	return true
}

// prepare puts a profile in place: its definition first, which makes its directory.
func (m *Member) prepare(ctx context.Context, e agent.Effect) error {
	made, err := m.Box.Prepare(ctx, e.Name, e.Profile)
	if err != nil || m.Data == nil || !e.Restore && !made {
		return err
	}
	if err := m.transfer(&m.counts.Restores, func() (int64, error) {
		return m.Data.Restore(ctx, e.Name, e.Fence, m.progress(ctx, e))
	}); err != nil {
		return fmt.Errorf("cannot restore its data: %w", err)
	}
	_, err = m.Box.Prepare(ctx, e.Name, e.Profile) // for its profile.yaml is that of its data now
	return err
}

// progress has all know how far a restore is, each second or two of one that takes longer.
func (m *Member) progress(ctx context.Context, e agent.Effect) func(done, all int64) {
	said, revision := time.Now(), int64(0)
	return func(done, all int64) {
		if time.Since(said) < time.Second {
			return
		}
		is := agent.Live{Fence: e.Fence, Doing: fmt.Sprintf("its data is restored: %d of %d MB", done>>20, all>>20)}
		revision, said = m.Store.Progress(ctx, e.Name, e.Lease, revision, is), time.Now()
	}
}

// start starts a gateway, unless its deadline is over already.
func (m *Member) start(ctx context.Context, e agent.Effect) (agent.Outcome, string) {
	if boottime() >= e.At {
		return agent.Late, ""
	}
	err := m.Box.Start(ctx, e.Name, e.Fence, e.At)
	switch {
	case err == nil:
		return agent.OK, ""
	case boottime() >= e.At:
		return agent.Late, ""
	case local.Refused(err):
		return agent.Refused, err.Error()
	case local.Answered(err):
		return agent.Ended, err.Error()
	}
	return agent.Lost, err.Error()
}
