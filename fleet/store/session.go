package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"rlminit/fleet/agent"
)

// Errors of a session and of a claim.
var (
	// ErrExpired: etcd does not know the lease any more.
	ErrExpired = errors.New("etcd has ended the lease")
	// ErrTaken: somebody has the claim, or the lease is over.
	ErrTaken = errors.New("somebody has it")
)

// Grant begins a session of a member for ttl, and returns its lease and how long etcd
// grants it. It fails while another box has the member's name.
func (s *Store) Grant(ctx context.Context, name string, m agent.Member, ttl time.Duration) (lease int64, granted time.Duration, err error) {
	caller := ctx
	ctx, over := s.begin(ctx, s.brief)
	defer over(&err)
	g, err := s.client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return 0, 0, fmt.Errorf("cannot begin a session: %w", err)
	}
	if g.ResponseHeader.ClusterId != s.cluster {
		return 0, 0, fmt.Errorf("etcd is another cluster than before (%x, was %s); restart the agent", g.ResponseHeader.ClusterId, s.Cluster())
	}
	key := s.prefix + members + name
	m.TTL = g.TTL * int64(time.Second)
	r, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, encode(m), clientv3.WithLease(g.ID)), s.room()).Commit()
	switch {
	case err != nil: // the key may be there, and would be in the way of the next session
		go s.Revoke(caller, int64(g.ID))
		return 0, 0, fmt.Errorf("cannot begin a session: %w", err)
	case !r.Succeeded:
		s.Revoke(ctx, int64(g.ID))
		return 0, 0, fmt.Errorf("the member %s is there already: an earlier session of it is not over, or another box has its name", name)
	}
	return int64(g.ID), time.Duration(g.TTL) * time.Second, nil
}

// Renew sends a keep-alive, and a beat: it puts the member's key again, which all others
// see. It returns nil if the session was surely there after Renew was called.
//
// The beat is what counts. It goes through etcd's log, so no member of etcd can take it that
// leads no more, and it fails if the session has ended. The keep-alive only has etcd not end
// the lease, and nobody waits for it: a member of etcd that does not lead passes it on to the
// one that it takes for the leader, also if that hangs.
//
// An etcd without space puts nothing, so the beat is full then: see beatFull.
func (s *Store) Renew(ctx context.Context, name string, m agent.Member, lease int64) (full bool, err error) {
	go func() {
		bounded, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		_, _ = s.client.KeepAliveOnce(bounded, clientv3.LeaseID(lease)) // if it fails for long, so do beats
	}()
	bounded, over := s.begin(ctx, s.brief)
	defer over(&err)
	key := s.prefix + members + name
	r, err := s.client.Txn(bounded).If(clientv3.Compare(clientv3.LeaseValue(key), "=", lease)).
		Then(clientv3.OpPut(key, encode(m), clientv3.WithLease(clientv3.LeaseID(lease))), s.room()).Commit()
	if errors.Is(err, rpctypes.ErrNoSpace) {
		full = true
		r, err = s.beatFull(bounded, key, lease)
	}
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return full, ErrExpired
	case err != nil:
		return full, fmt.Errorf("cannot renew the lease: %w", err)
	case r.Header.ClusterId != s.cluster:
		return full, fmt.Errorf("etcd is another cluster than before; restart the agent")
	case !r.Succeeded:
		return full, ErrExpired
	}
	if !full || r.Responses[0].GetResponseDeleteRange().Deleted > 0 { // else there is nothing that the watch would tell
		s.confirmed.Store(r.Header.Revision)
	}
	return full, nil
}

// room puts the key space if it is absent. It is a part of each transaction that begins a
// session or is a beat.
func (s *Store) room() clientv3.Op {
	key := s.prefix + space
	return clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)}, []clientv3.Op{clientv3.OpPut(key, "")}, nil)
}

// beatFull is the beat to an etcd that has no space (its alarm NOSPACE). Such an etcd still
// deletes, and the deletion goes through its log. The others hear no beat of that kind, so it
// deletes the key by which they claim and evict: they do neither until somebody has put it
// again, and a lease has passed since.
func (s *Store) beatFull(ctx context.Context, key string, lease int64) (*clientv3.TxnResponse, error) {
	return s.client.Txn(ctx).If(clientv3.Compare(clientv3.LeaseValue(key), "=", lease)).Then(clientv3.OpDelete(s.prefix + space)).Commit()
}

// Revoke ends a lease with its keys. That nobody answers is no fault: it ends by itself.
func (s *Store) Revoke(ctx context.Context, lease int64) {
	var err error
	ctx, over := s.begin(ctx, s.timeout)
	defer over(&err)
	_, err = s.client.Revoke(ctx, clientv3.LeaseID(lease))
}

// Evict ends the session of another member whose key has not been put since a revision, while
// the key space is that of the revision room, and tells whether it did.
func (s *Store) Evict(ctx context.Context, name string, lease, revision, room int64) (done bool, err error) {
	bounded, over := s.begin(ctx, s.brief)
	defer over(&err)
	r, err := s.client.Txn(bounded).If(
		clientv3.Compare(clientv3.ModRevision(s.prefix+members+name), "=", revision),
		clientv3.Compare(clientv3.CreateRevision(s.prefix+space), "=", room),
	).Commit()
	if err != nil || !r.Succeeded {
		return false, err
	}
	if _, err = s.client.Revoke(bounded, clientv3.LeaseID(lease)); errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return false, nil // somebody else has
	}
	return err == nil, err
}

// Claim makes a member the owner of a profile if it has none, and if the last claim that was
// not given back had the fence of mark, 0: there is none. Where there is one, the key space must
// be that of the revision room. It returns the fence. ErrTaken says that this is not so; any
// other error, that nobody knows.
func (s *Store) Claim(ctx context.Context, name, member string, lease, mark, room int64) (fence int64, err error) {
	ctx, over := s.begin(ctx, s.brief)
	defer over(&err)
	key, left := s.prefix+owners+name, s.prefix+marks+name
	free := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0), clientv3.Compare(clientv3.ModRevision(left), "=", mark)}
	if mark != 0 {
		free = append(free, clientv3.Compare(clientv3.CreateRevision(s.prefix+space), "=", room))
	}
	r, err := s.client.Txn(ctx).If(free...).
		Then(clientv3.OpPut(left, ""), clientv3.OpPut(key, encode(owner{member}), clientv3.WithLease(clientv3.LeaseID(lease)))).
		Else(clientv3.OpGet(key)).Commit()
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return 0, ErrTaken
	case err != nil:
		return s.readBack(ctx, name, lease, err)
	case r.Succeeded:
		return r.Header.Revision, nil
	}
	if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 && kvs[0].Lease == lease {
		return kvs[0].CreateRevision, nil // an earlier claim whose answer was lost
	}
	return 0, ErrTaken
}

// readBack looks what came of a claim whose answer was lost. That it is not there proves
// nothing: it may come yet.
func (s *Store) readBack(ctx context.Context, name string, lease int64, why error) (int64, error) {
	r, err := s.client.Get(ctx, s.prefix+owners+name)
	switch {
	case err != nil || len(r.Kvs) == 0:
		return 0, why
	case r.Kvs[0].Lease == lease:
		return r.Kvs[0].CreateRevision, nil
	}
	return 0, ErrTaken
}

// Release deletes a claim, and its mark, if it still has this fence. An error says that nobody knows.
func (s *Store) Release(ctx context.Context, name string, fence int64) (err error) {
	ctx, over := s.begin(ctx, s.brief)
	defer over(&err)
	key := s.prefix + owners + name
	_, err = s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", fence)).
		Then(clientv3.OpDelete(s.prefix+marks+name), clientv3.OpDelete(key), clientv3.OpDelete(s.prefix+reports+name)).Commit()
	return err
}
