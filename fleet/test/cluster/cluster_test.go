package cluster_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"rlminit/fleet/test/cluster"
)

// TestThreeNodes: what is written outlives the leader's pause and a node's kill.
func TestThreeNodes(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := cluster.Start(t, 3)
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Put(ctx, "key", "value"); err != nil {
		t.Fatal(err)
	}
	old, err := c.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Pause(); err != nil {
		t.Fatal(err)
	}
	for _, node := range c.Nodes {
		if node == old {
			continue
		}
		if err := node.Await(ctx); err != nil {
			t.Errorf("with a paused leader: %v", err)
		}
	}
	if err := old.Resume(); err != nil {
		t.Fatal(err)
	}
	old.Kill()
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	if err := old.Await(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := client.Get(ctx, "key")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "value" {
		t.Errorf("after a restart: %v, %v", got, err)
	}
}
