package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"testing"
	"time"

	"rlminit/fleet/agent"
	"rlminit/fleet/store"
	"rlminit/fleet/test/cluster"
)

// pretended is a box that keeps deadlines, and runs nothing.
type pretended struct {
	slow time.Duration // to stop a gateway
	name string
	all  *register

	mu   sync.Mutex
	runs map[string]*gateway
}

type gateway struct {
	fence, at int64
	end       *time.Timer
}

// register is who runs what, over all boxes.
type register struct {
	mu       sync.Mutex
	running  map[string]string
	overlaps []string
}

func (r *register) begins(name, at string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, ok := r.running[name]; ok {
		r.overlaps = append(r.overlaps, fmt.Sprintf("%s runs at %s and %s", name, other, at))
	}
	r.running[name] = at
}

func (r *register) ends(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, name)
}

// where is the place of each gateway that runs.
func (r *register) where() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]string{}
	for name, at := range r.running {
		out[name] = at
	}
	return out
}

func (b *pretended) Survey(context.Context) (out []agent.Run, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, g := range b.runs {
		out = append(out, agent.Run{Name: name, Fence: g.fence})
	}
	return out, nil
}

func (b *pretended) Seen(ctx context.Context) ([]agent.Run, error) { return b.Survey(ctx) }

func (b *pretended) Try(context.Context, string, agent.Profile) error { return nil }

func (b *pretended) Prepare(context.Context, string, agent.Profile) (bool, error) { return false, nil }

func (b *pretended) Start(_ context.Context, name string, fence, at int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.runs[name]; g != nil {
		if g.fence != fence {
			return errors.New("another fence is there")
		}
		return nil
	}
	b.runs[name] = &gateway{fence: fence, at: at, end: time.AfterFunc(time.Duration(at-boottime()), func() { b.kill(name) })}
	b.all.begins(name, b.name)
	return nil
}

func (b *pretended) Extend(_ context.Context, all []agent.Deadline) (refused []string, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range all {
		g := b.runs[d.Name]
		if g == nil || g.fence != d.Fence || boottime() >= g.at {
			refused = append(refused, d.Name)
			continue
		}
		g.at = max(g.at, d.At)
		g.end.Reset(time.Duration(g.at - boottime()))
	}
	return refused, nil
}

func (b *pretended) Stop(_ context.Context, name string) error {
	<-time.After(b.slow)
	b.kill(name)
	return nil
}

func (b *pretended) kill(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.runs[name]; g != nil {
		g.end.Stop()
		delete(b.runs, name)
		b.all.ends(name)
	}
}

// fleet is some members on one etcd.
type fleet struct {
	t       *testing.T
	etcd    *cluster.Cluster
	store   *store.Store
	all     *register
	boxes   map[string]*pretended
	cancels map[string]func()
	lease   time.Duration
	release time.Duration
	poll    time.Duration
	listen  map[string]string // of members, by name
	data    Data
	every   time.Duration // data is saved
	is      agent.Member  // what members are that begin from now on
}

const lease = 4 * time.Second

func newFleet(t *testing.T, nodes, members int) *fleet { return newFleetOf(t, nodes, members, lease) }

// newFleetOf has etcd started with further flags.
func newFleetOf(t *testing.T, nodes, members int, lease time.Duration, flags ...string) *fleet {
	f := &fleet{t: t, lease: lease, poll: 200 * time.Millisecond, etcd: cluster.Secured(t, nodes, nil, flags...), all: &register{running: map[string]string{}}, boxes: map[string]*pretended{}, cancels: map[string]func(){}, is: agent.Member{Weight: 1}}
	f.store = f.open()
	t.Cleanup(func() {
		for _, cancel := range f.cancels {
			cancel()
		}
		f.store.Close()
		if len(f.all.overlaps) > 0 {
			t.Errorf("at most one gateway of a profile: %v", f.all.overlaps)
		}
	})
	for i := range members {
		name := fmt.Sprintf("m%d", i)
		f.boxes[name] = &pretended{name: name, all: f.all, runs: map[string]*gateway{}}
		f.run(name, t.TempDir())
	}
	return f
}

func (f *fleet) open() *store.Store {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	st, err := store.Open(ctx, store.Config{Fleet: "f", Endpoints: f.etcd.Endpoints(), Timeout: 2 * time.Second})
	if err != nil {
		f.t.Fatal(err)
	}
	return st
}

// run runs the agent of a member.
func (f *fleet) run(name, dir string) {
	out := io.Discard
	if testing.Verbose() {
		out = os.Stderr
	}
	ctx, cancel := context.WithCancel(context.Background())
	st := f.open()
	done := make(chan struct{})
	f.cancels[name] = sync.OnceFunc(func() {
		cancel()
		<-done
		st.Close()
	})
	c := Config{
		Fleet: "f", Agent: agent.Config{Member: name, TTL: int64(f.lease), Settle: int64(time.Second), Every: int64(f.every)}, Member: f.is, Dir: dir, Store: st,
		Box: f.boxes[name], Data: f.data, Log: log.New(out, name+": ", log.Ltime|log.Lmicroseconds), Poll: f.poll, Release: f.release, Listen: f.listen[name],
	}
	go func() {
		defer close(done)
		if err := Run(ctx, c); err != nil {
			f.t.Error(err)
		}
	}()
}

// eventually waits until all profiles run, and each where right says.
func (f *fleet) eventually(what string, profiles int, right func(name, at string) bool) time.Duration {
	f.t.Helper()
	return f.within(what, time.Minute, profiles, right)
}

func (f *fleet) within(what string, limit time.Duration, profiles int, right func(name, at string) bool) time.Duration {
	f.t.Helper()
	begun := time.Now()
	for {
		where, good := f.all.where(), 0
		for name, at := range where {
			if right == nil || right(name, at) {
				good++
			}
		}
		if good == profiles && len(where) == profiles {
			return time.Since(begun)
		}
		if time.Since(begun) > limit {
			f.t.Fatalf("not within %s: %s: %d of %d are right", limit, what, good, profiles)
		}
		<-time.After(time.Duration(10+profiles/200) * time.Millisecond)
	}
}

func (f *fleet) declare(n int) {
	f.t.Helper()
	for i := range n {
		if ok, _, err := f.store.Declare(context.Background(), fmt.Sprintf("p%d", i), "{}", 0); err != nil || !ok {
			f.t.Fatal(ok, err)
		}
	}
}

func (f *fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// TestFleet has three members share profiles, loses one, moves and drains.
func TestFleet(t *testing.T) {
	ctx := context.Background()
	f := newFleet(t, 1, 3)
	const n = 12
	f.declare(n)
	t.Logf("all run after %s", f.eventually("all run", n, nil))
	count := map[string]int{}
	for _, at := range f.all.where() {
		count[at]++
	}
	t.Logf("they are at %v", count)

	f.must(f.store.Move(ctx, "p0", "m1"))
	t.Logf("the move took %s", f.eventually("p0 has moved", n, func(name, at string) bool { return name != "p0" || at == "m1" }))

	f.must(f.store.Drain(ctx, "m2", 3))
	t.Logf("the drain took %s", f.eventually("m2 is empty", n, func(_, at string) bool { return at != "m2" }))
	f.must(f.store.Undrain(ctx, "m2"))

	for name := range f.boxes["m1"].runs {
		f.must(f.store.Move(ctx, name, "m2"))
		break
	}
	f.eventually("the first that moves back", n, nil)

	// The whole container of m0 dies.
	f.cancels["m0"]()
	for _, name := range names(f.boxes["m0"]) {
		f.boxes["m0"].kill(name)
	}
	took := f.eventually("those of m0 run elsewhere", n, func(_, at string) bool { return at != "m0" })
	t.Logf("the failover took %s", took)
	if took > lease+2*time.Second {
		t.Errorf("the failover took %s; a lease and 2 s are promised", took)
	}
}

func names(b *pretended) (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.runs {
		out = append(out, name)
	}
	return out
}

// TestNextAgent kills an agent, and has the next one in its box take over: nothing is
// stopped.
func TestNextAgent(t *testing.T) {
	f := newFleet(t, 1, 0)
	dir := t.TempDir()
	f.boxes["m0"] = &pretended{name: "m0", all: f.all, runs: map[string]*gateway{}}
	f.run("m0", dir)
	const n = 4
	f.declare(n)
	f.eventually("all run", n, nil)
	before := fences(f.boxes["m0"])
	f.cancels["m0"]()
	f.is.Weight = 3
	f.run("m0", dir)
	f.extended(f.boxes["m0"], boottime()+int64(2*lease)) // longer than what ran could without it
	if is := f.view().Members["m0"]; is.Weight != 3 || is.TTL != int64(lease) {
		t.Errorf("the next agent is another member than before, and the fleet has %+v", is)
	}
	if after := fences(f.boxes["m0"]); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("before: %v; after: %v", before, after)
	}
}

// view is what etcd says of the fleet.
func (f *fleet) view() *agent.View {
	f.t.Helper()
	all, _, err := f.store.Whole(context.Background())
	f.must(err)
	v := agent.NewView()
	v.Take(all)
	return v
}

// TestLeaseEndsTooEarly ends the lease of a member that lives, as a leader of etcd does that
// was paused and comes back. What it ran runs elsewhere, and never at both; the register
// finds that.
func TestLeaseEndsTooEarly(t *testing.T) {
	f := newFleet(t, 1, 0)
	for _, name := range []string{"m0", "m1", "m2"} {
		f.boxes[name] = &pretended{name: name, all: f.all, runs: map[string]*gateway{}, slow: time.Second}
		f.run(name, t.TempDir())
	}
	const n = 12
	f.declare(n)
	f.eventually("all run", n, nil)
	for range 3 {
		for _, m := range f.view().Members {
			f.store.Revoke(context.Background(), m.Lease)
			break
		}
		begun := time.Now()
		<-time.After(lease / 4) // until its agent has heard of it
		f.eventually("all run again", n, nil)
		t.Logf("all run after %s", time.Since(begun))
	}
}

// extended waits until the deadline of all that a box runs is later than at.
func (f *fleet) extended(b *pretended, at int64) {
	f.t.Helper()
	for begun := time.Now(); ; <-time.After(10 * time.Millisecond) {
		b.mu.Lock()
		later := len(b.runs) > 0
		for _, g := range b.runs {
			later = later && g.at > at
		}
		b.mu.Unlock()
		if later {
			return
		}
		if time.Since(begun) > time.Minute {
			f.t.Fatal("the deadlines are not moved on")
		}
	}
}

func fences(b *pretended) map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]int64{}
	for name, g := range b.runs {
		out[name] = g.fence
	}
	return out
}

// TestRelease ends an agent that gives back what it has: others have it long before the
// lease is over.
func TestRelease(t *testing.T) {
	f := newFleetOf(t, 1, 0, 20*time.Second)
	f.release = time.Minute
	for _, name := range []string{"m0", "m1"} {
		f.boxes[name] = &pretended{name: name, all: f.all, runs: map[string]*gateway{}}
		f.run(name, t.TempDir())
	}
	const n = 4
	f.declare(n)
	f.eventually("all run", n, nil)
	f.must(f.store.Move(t.Context(), "p0", "m0"))
	f.eventually("p0 is at m0", n, func(name, at string) bool { return name != "p0" || at == "m0" })
	for name, g := range f.boxes["m0"].runs {
		t.Logf("%s is to run until %s", name, time.Duration(g.at-boottime()))
	}
	f.cancels["m0"]()
	took := f.within("all run at m1", time.Minute, n, func(_, at string) bool { return at == "m1" })
	t.Logf("after the agent has ended it took %s", took)
	if took > 3*time.Second {
		t.Errorf("after the agent had ended it took %s until all ran at m1", took)
	}
}

// TestLostEtcd takes etcd away: everything ends by its deadline, and comes back with etcd.
func TestLostEtcd(t *testing.T) {
	f := newFleet(t, 1, 2)
	const n = 6
	f.declare(n)
	f.eventually("all run", n, nil)
	f.must(f.etcd.Nodes[0].Pause())
	took := f.eventually("nothing runs", 0, nil)
	t.Logf("the last ended after %s", took)
	if took > lease {
		t.Errorf("a gateway ran for %s without etcd; the lease is %s", took, lease)
	}
	f.must(f.etcd.Nodes[0].Resume())
	t.Logf("all run again after %s", f.eventually("all run again", n, nil))
}

// hanging is data that cannot be moved for a while.
type hanging struct{ until <-chan time.Time }

func (hanging) Restore(context.Context, string, int64, func(int64, int64)) (int64, error) {
	return 0, nil
}

func (h hanging) Save(ctx context.Context, _ string, _ int64, _ bool) (int64, error) {
	select {
	case <-ctx.Done():
	case <-h.until:
	}
	return 0, errors.New("the bucket is away")
}

// TestHangingTransfers has more data move than may at once, for longer than a lease: what runs
// goes on, and what is declared meanwhile is started.
func TestHangingTransfers(t *testing.T) {
	f := newFleet(t, 1, 0)
	f.data, f.every = hanging{time.After(time.Minute)}, time.Second
	b := &pretended{name: "m0", all: f.all, runs: map[string]*gateway{}}
	f.boxes["m0"] = b
	f.run("m0", t.TempDir())
	const n = parallel + 8
	f.declare(n)
	f.eventually("all run", n, nil)
	before := fences(b)
	f.extended(b, boottime()+int64(3*lease))
	for name, fence := range fences(b) {
		if before[name] != fence {
			t.Errorf("%s has fence %d, and had %d", name, fence, before[name])
		}
	}
	if ok, _, err := f.store.Declare(t.Context(), "later", "{}", 0); err != nil || !ok {
		t.Fatal(ok, err)
	}
	f.within("what was declared meanwhile runs too", 10*time.Second, n+1, nil)
}
