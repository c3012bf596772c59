package member

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestFullEtcd has another tenant of etcd fill it, so that it puts nothing any more: what runs
// goes on under the fences that it has, for much longer than a lease, and what a member loses
// meanwhile waits. It runs elsewhere once etcd has space again.
func TestFullEtcd(t *testing.T) {
	f := newFleetOf(t, 1, 3, lease, "--quota-backend-bytes", fmt.Sprint(16<<20))
	const n = 9
	f.declare(n)
	f.eventually("all run", n, nil)
	before := map[string]map[string]int64{}
	for name, b := range f.boxes {
		before[name] = fences(b)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: f.etcd.Endpoints()})
	f.must(err)
	defer client.Close()
	f.fill(client)
	full := boottime()
	for name, b := range f.boxes {
		f.extended(b, full+int64(4*lease))
		if after := fences(b); !maps.Equal(after, before[name]) {
			t.Errorf("%s ran %v, and runs %v while etcd is full", name, before[name], after)
		}
	}
	if err := f.store.Move(t.Context(), "p0", "m1"); err == nil || !strings.Contains(err.Error(), "etcdctl alarm disarm") {
		t.Errorf("a move while etcd is full: %v", err)
	}
	f.cancels["m0"]() // the whole container dies
	lost := names(f.boxes["m0"])
	for _, name := range lost {
		f.boxes["m0"].kill(name)
	}
	f.extended(f.boxes["m1"], boottime()+int64(3*lease))
	if runs := len(f.all.where()); runs != n-len(lost) {
		t.Errorf("%d run while etcd is full, and %d of %d were lost", runs, len(lost), n)
	}
	f.empty(client)
	took := f.eventually("those of m0 run elsewhere", n, func(_, at string) bool { return at != "m0" })
	t.Logf("what was lost runs %s after etcd has space", took)
}

// fill puts what is not the fleet's, until etcd puts nothing any more.
func (f *fleet) fill(client *clientv3.Client) {
	f.t.Helper()
	for i := 0; ; i++ {
		_, err := client.Put(f.t.Context(), fmt.Sprintf("/other/%d", i%4), strings.Repeat("x", 1<<20))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		f.must(err)
		if i == 100 {
			f.t.Fatal("etcd is never full")
		}
	}
}

// empty does what a person does then.
func (f *fleet) empty(client *clientv3.Client) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	r, err := client.Delete(ctx, "/other/", clientv3.WithPrefix())
	f.must(err)
	_, err = client.Compact(ctx, r.Header.Revision, clientv3.WithCompactPhysical())
	f.must(err)
	for _, at := range f.etcd.Endpoints() {
		_, err = client.Defragment(ctx, at)
		f.must(err)
	}
	_, err = client.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	f.must(err)
}
