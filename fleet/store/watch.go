package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"rlminit/fleet/agent"
)

// page is how many keys are read at once.
const page = 10_000

// Whole reads all keys of the fleet as they are at one revision.
func (s *Store) Whole(ctx context.Context) (all []agent.Change, revision int64, err error) {
	from, end := s.prefix, clientv3.GetPrefixRangeEnd(s.prefix)
	for {
		bounded, over := s.begin(ctx, 10*s.timeout)
		r, err := s.client.Get(bounded, from, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(revision))
		over(&err)
		if err != nil {
			return nil, 0, fmt.Errorf("cannot read the fleet: %w", err)
		}
		if revision == 0 {
			revision = r.Header.Revision
		}
		for _, kv := range r.Kvs {
			if c, ok := s.decode(kv, false); ok {
				all = append(all, c)
			}
		}
		if !r.More {
			return all, revision, nil
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
}

// Watch tells each all keys as they are, and then every change in order, until ctx is done.
// What it could not follow it reads anew as a whole. trouble is told why, nil when it is
// over.
func (s *Store) Watch(ctx context.Context, each func(changes []agent.Change, whole bool, revision int64), trouble func(error)) {
	for ctx.Err() == nil {
		all, revision, err := s.Whole(ctx)
		if err == nil {
			trouble(nil)
			each(all, true, revision)
			err = s.follow(ctx, revision, each, trouble)
		}
		if ctx.Err() != nil {
			return
		}
		trouble(err)
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// follow tells each what changes after a revision, until it cannot. The client goes on by
// itself where a connection ends; it cannot where what it needs was compacted.
func (s *Store) follow(ctx context.Context, revision int64, each func([]agent.Change, bool, int64), trouble func(error)) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for r := range s.client.Watch(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithRev(revision+1), clientv3.WithFragment()) {
		if err := r.Err(); err != nil {
			return fmt.Errorf("cannot follow the changes: %w", err)
		}
		var changes []agent.Change
		for _, e := range r.Events {
			if c, ok := s.decode(e.Kv, e.Type == mvccpb.DELETE); ok {
				changes = append(changes, c)
			}
		}
		if len(changes) > 0 {
			trouble(nil)
			each(changes, false, r.Header.Revision)
		}
	}
	return errors.New("cannot follow the changes: the watch has ended")
}
