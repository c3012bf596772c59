package store

import (
	"testing"
	"time"

	"rlminit/fleet/agent"
	"rlminit/fleet/test/cluster"
)

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
	leader, err := c.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Nodes {
		if n == leader {
			continue
		}
		if err := n.Pause(); err != nil {
			t.Fatal(err)
		}
		failed := 0
		for range 12 {
			if err := s.Renew(t.Context(), "m", lease); err != nil {
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

// Versions of etcd that renew a lease without asking whether they still lead are refused.
func TestVersions(t *testing.T) {
	for version, good := range map[string]bool{
		"3.4.23": false, "3.5.10": false, "3.5.11": true, "3.5.21": true, "3.6.0": true, "3.6.0-rc.1": true, "4.0.0": true, "3.6": false, "x.y.z": false,
	} {
		if err := checkVersion("http://etcd:2379", version); (err == nil) != good || err != nil && !Wrong(err) {
			t.Errorf("etcd %s: %v", version, err)
		}
	}
}
