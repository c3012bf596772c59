package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"rlminit/fleet/agent"
	"rlminit/fleet/test/cluster"
)

// beat is one of a member of a weight.
func beat(s *Store, name string, weight float64, lease int64) error {
	_, err := s.Renew(context.Background(), name, agent.Member{Weight: weight, TTL: int64(60 * time.Second)}, lease)
	return err
}

// followers are the nodes that do not lead.
func followers(t *testing.T, c *cluster.Cluster) (all []*cluster.Node) {
	leader, err := c.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Nodes {
		if n != leader {
			all = append(all, n)
		}
	}
	return all
}

// A server that hangs is asked once: the next one has the requests from then on. With a
// server in turn for each request a third of the renewals would fail.
func TestPausedEndpoint(t *testing.T) {
	c := cluster.Start(t, 3)
	s, err := Open(t.Context(), Config{Fleet: "f", Endpoints: c.Endpoints(), Lease: 8 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lease, _, err := s.Grant(t.Context(), "m", agent.Member{}, 60*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range followers(t, c) {
		if err := n.Pause(); err != nil {
			t.Fatal(err)
		}
		failed := 0
		for range 12 {
			if _, err := s.Renew(t.Context(), "m", agent.Member{Weight: 2, TTL: int64(60 * time.Second)}, lease); err != nil {
				failed++
				t.Logf("%s is paused: %v", n.Name, err)
			}
		}
		if failed > 1 {
			t.Errorf("%s is paused, and %d of 12 renewals failed", n.Name, failed)
		}
		if err := n.Resume(); err != nil {
			t.Fatal(err)
		}
		if err := n.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A server that hangs leaves its watch open, on which nothing comes. The changes are followed
// at another one, soon after a beat was confirmed that the watch has not told.
func TestDeafWatch(t *testing.T) {
	c := cluster.Start(t, 3)
	for _, n := range followers(t, c) {
		endpoints := slices.DeleteFunc(c.Endpoints(), func(at string) bool { return at == n.Client })
		s, err := Open(t.Context(), Config{Fleet: n.Name, Endpoints: []string{n.Client}, Lease: 8 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.endpoints = append(s.endpoints, endpoints...)
		heard := make(chan struct{}, 1000)
		go s.Watch(t.Context(), func([]agent.Change, bool, int64) { heard <- struct{}{} }, func(error) {})
		<-heard // all that there is
		lease, _, err := s.Grant(t.Context(), "m", agent.Member{}, 60*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		<-heard
		if err := n.Pause(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for beat(s, "m", 2, lease) != nil {
		}
		renewed := time.Now()
		<-heard
		t.Logf("%s is paused: the beat is confirmed after %s, and told %s later", n.Name, renewed.Sub(begun), time.Since(renewed))
		if took := time.Since(renewed); took > 5*time.Second {
			t.Errorf("%s is paused, and the changes are followed elsewhere after %s", n.Name, took)
		}
		if err := n.Resume(); err != nil {
			t.Fatal(err)
		}
	}
}

// A server that hangs makes no watch either. The call that asks for one is given up.
func TestWatchOfHungServer(t *testing.T) {
	c := cluster.Start(t, 3)
	n := followers(t, c)[0]
	s, err := Open(t.Context(), Config{Fleet: "f", Endpoints: []string{n.Client}, Lease: 8 * time.Second, Timeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := n.Pause(); err != nil {
		t.Fatal(err)
	}
	s.confirmed.Store(9) // for a watch that it has made all the same
	begun := time.Now()
	if _, err := s.follow(t.Context(), 1, func([]agent.Change, bool, int64) {}, func(error) {}); err == nil || time.Since(begun) > 10*time.Second {
		t.Errorf("after %s: %v", time.Since(begun), err)
	}
}

// Where nobody knows what came of a session that was asked for, it is ended: its key would be
// in the way of the next one for a lease.
func TestGrantUnanswered(t *testing.T) {
	c := cluster.Start(t, 1)
	s, err := Open(t.Context(), Config{Fleet: "f", Endpoints: c.Endpoints(), Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var lost atomic.Bool
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Logger: zap.NewNop(), DialOptions: []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, conn, opts...)
			if method == "/etcdserverpb.KV/Txn" && lost.CompareAndSwap(false, true) {
				<-ctx.Done() // its answer is lost
				return ctx.Err()
			}
			return err
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.client = client
	if _, _, err := s.Grant(t.Context(), "m", agent.Member{}, 60*time.Second); err == nil || !lost.Load() {
		t.Fatalf("no answer was lost: %v", err)
	}
	for begun := time.Now(); ; <-time.After(100 * time.Millisecond) {
		_, _, err := s.Grant(t.Context(), "m", agent.Member{}, 60*time.Second)
		if err == nil {
			return
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("half a lease later: %v", err)
		}
	}
}

// Versions of etcd that end leases after each change of the leader are refused.
func TestVersions(t *testing.T) {
	for version, good := range map[string]bool{
		"3.4.23": false, "3.5.10": false, "3.5.11": true, "3.5.21": true, "3.6.0": true, "3.6.0-rc.1": true, "4.0.0": true, "3.6": false, "x.y.z": false,
	} {
		if err := checkVersion("http://etcd:2379", version); (err == nil) != good || err != nil && !Wrong(err) {
			t.Errorf("etcd %s: %v", version, err)
		}
	}
}

// Data is named as current under its claim, and over that which was current when the save began: a
// request that comes late takes nothing back.
func TestManifests(t *testing.T) {
	c := cluster.Start(t, 1)
	s, err := Open(t.Context(), Config{Fleet: "f", Endpoints: c.Endpoints(), Lease: 8 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lease, _, err := s.Grant(t.Context(), "m", agent.Member{Weight: 1}, 60*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	fence, err := s.Claim(t.Context(), "alice", "m", lease, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := func(fence, base int64, manifest string, want bool) int64 {
		t.Helper()
		ok, err := s.SetManifest(t.Context(), "alice", fence, base, manifest)
		if err != nil || ok != want {
			t.Fatalf("%s: %v, %v", manifest, ok, err)
		}
		text, revision, err := s.Manifest(t.Context(), "alice")
		if err != nil || want && text != manifest || (text == "") != (revision == 0) {
			t.Fatalf("%s: %q of revision %d, %v", manifest, text, revision, err)
		}
		return revision
	}
	name(fence+1, 0, "of another claim", false)
	first := name(fence, 0, "first", true)
	name(fence, 0, "one that came late", false)
	second := name(fence, first, "second", true)
	name(fence, first, "another that came late", false)
	if err := s.Release(t.Context(), "alice", fence); err != nil {
		t.Fatal(err)
	}
	name(fence, second, "after the release", false)
}

// The changes are told in order and without a gap, also over the loss of etcd's leader, and as
// a whole only at first and where etcd has compacted what was missed. The keys of a lease go
// together, and a claim that did not hear of the one before is refused.
func TestWatch(t *testing.T) {
	c := cluster.Start(t, 3)
	s, err := Open(t.Context(), Config{Fleet: "f", Endpoints: c.Endpoints(), Lease: 8 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	view, wholes, last := agent.NewView(), atomic.Int32{}, int64(0)
	heard := make(chan []agent.Change, 1000)
	go s.Watch(t.Context(), func(changes []agent.Change, whole bool, _ int64) {
		if whole {
			wholes.Add(1)
		}
		heard <- changes
	}, func(error) {})
	until := func(what string, is func() bool) {
		t.Helper()
		late := time.After(60 * time.Second)
		for !is() {
			select {
			case changes := <-heard:
				view.Take(changes)
				for _, c := range changes {
					last = max(last, c.Revision)
				}
			case <-time.After(200 * time.Millisecond): // is() may ask for what failed
			case <-late:
				t.Fatalf("not heard: %s; %+v", what, view)
			}
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lease, _, err := s.Grant(t.Context(), "m", agent.Member{Weight: 1}, 60*time.Second)
	must(err)
	fence, err := s.Claim(t.Context(), "alice", "m", lease, 0, 0)
	must(err)
	until("the claim", func() bool { return view.Owners["alice"].Fence == fence && view.Marks["alice"].Fence == fence })
	must(beat(s, "m", 2, lease))
	until("the beat, with what the member is now", func() bool {
		m := view.Members["m"]
		return m.Weight == 2 && m.Lease == lease && m.TTL == int64(60*time.Second)
	})
	leader, err := c.Leader(t.Context())
	must(err)
	must(leader.Pause())
	until("a change under the next leader", func() bool {
		_, _, _ = s.Declare(t.Context(), "bob", "{}", 0) // which fails while there is none
		_, there := view.Profiles["bob"]
		return there
	})
	must(leader.Resume())
	s.Revoke(t.Context(), lease)
	until("the end of the session", func() bool { _, there := view.Members["m"]; return !there })
	if _, there := view.Owners["alice"]; there {
		until("the end of the claim", func() bool { _, there := view.Owners["alice"]; return !there })
	}
	if _, err := s.Renew(t.Context(), "m", agent.Member{Weight: 2, TTL: int64(60 * time.Second)}, lease); !errors.Is(err, ErrExpired) {
		t.Errorf("the beat of a session that has ended: %v", err)
	}
	next, _, err := s.Grant(t.Context(), "n", agent.Member{}, 60*time.Second)
	must(err)
	if _, err := s.Claim(t.Context(), "alice", "n", next, 0, 0); !errors.Is(err, ErrTaken) {
		t.Errorf("a claim that has not heard of the one before: %v", err)
	}
	if _, err := s.Claim(t.Context(), "alice", "n", next, view.Marks["alice"].Fence, view.Space-1); !errors.Is(err, ErrTaken) {
		t.Errorf("a claim that has not heard that there was no space: %v", err)
	}
	again, err := s.Claim(t.Context(), "alice", "n", next, view.Marks["alice"].Fence, view.Space)
	must(err)
	must(s.Release(t.Context(), "alice", again))
	until("the release", func() bool { _, left := view.Marks["alice"]; return !left && view.Owners["alice"].Fence == 0 })
	must(beat(s, "n", 3, next))
	until("another beat", func() bool { return view.Members["n"].Weight == 3 })
	evict := func(revision int64, want bool) {
		t.Helper()
		done, err := s.Evict(t.Context(), "n", next, revision, view.Space)
		if must(err); done != want {
			t.Errorf("the session is ended: %v", done)
		}
	}
	evict(last-1, false)
	must(beat(s, "n", 4, next))
	until("the beat of a member that is not evicted, for it has put its key", func() bool { return view.Members["n"].Weight == 4 })
	evict(last, true)
	until("the end of one that is", func() bool { _, there := view.Members["n"]; return !there })
	evict(last, false)
	if n := wholes.Load(); n != 1 {
		t.Errorf("all was read %d times", n)
	}
}

// A key with a name that nothing of its kind can have is no change, and is told of once.
func TestNamesThatNothingHas(t *testing.T) {
	var told []string
	s := &Store{prefix: "/rlminit/f/", odd: map[string]bool{}, tell: func(text string) { told = append(told, text) }}
	value := []byte(`{"member":"m0","to":"m0"}`)
	for _, kind := range []string{owners, marks, declared, moves, backoffs, reports} {
		for _, name := range []string{"", "../../x", "a/b", "..", "all", "page", "fleet", "gateway-bob", "A", "\x1b]52;c;eA==\a"} {
			for range 2 {
				if c, ok := s.decode(&mvccpb.KeyValue{Key: []byte(s.prefix + kind + name), Value: value, ModRevision: 1}, false); ok {
					t.Errorf("%s%s: %+v", kind, name, c)
				}
			}
		}
		if _, ok := s.decode(&mvccpb.KeyValue{Key: []byte(s.prefix + kind + "alice"), Value: value, ModRevision: 1}, false); !ok {
			t.Errorf("%salice is none", kind)
		}
	}
	for _, kind := range []string{members, drains} {
		if _, ok := s.decode(&mvccpb.KeyValue{Key: []byte(s.prefix + kind + "a/b"), Value: value}, false); ok {
			t.Errorf("a member with a slash")
		}
	}
	if len(told) != 62 || strings.ContainsAny(strings.Join(told, ""), "\x1b\a") {
		t.Errorf("told of %d keys: %q", len(told), told)
	}
}
