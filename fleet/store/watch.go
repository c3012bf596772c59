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

// first is how many keys are read at once at first, which tells soon whether etcd answers,
// and page those after them.
const (
	first = 1000
	page  = 10_000
)

// Whole reads all keys of the fleet as they are at one revision.
func (s *Store) Whole(ctx context.Context) (all []agent.Change, revision int64, err error) {
	from, end := s.prefix, clientv3.GetPrefixRangeEnd(s.prefix)
	for limit, within := int64(first), s.timeout; ; limit, within = page, 10*s.timeout {
		bounded, over := s.begin(ctx, within)
		r, err := s.client.Get(bounded, from, clientv3.WithRange(end), clientv3.WithLimit(limit), clientv3.WithRev(revision))
		over(&err)
		if err != nil {
			return nil, 0, fmt.Errorf("cannot read the fleet: %w", s.quorum(ctx, err))
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
// Where a connection ended, or etcd had no leader, it goes on after the last change that it
// has told; where etcd has that no more it reads all anew. trouble is told why, nil when it is
// over.
func (s *Store) Watch(ctx context.Context, each func(changes []agent.Change, whole bool, revision int64), trouble func(error)) {
	last := int64(0) // what each was told is of this revision; 0: it is to be told all
	for ctx.Err() == nil {
		var err error
		if last == 0 {
			var all []agent.Change
			if all, last, err = s.Whole(ctx); err == nil {
				trouble(nil)
				each(all, true, last)
			}
		}
		if err == nil {
			last, err = s.follow(ctx, last, each, trouble)
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

// follow tells each what changes after a revision, until it cannot, and returns of which
// revision the last change was; 0: etcd has what follows no more.
func (s *Store) follow(ctx context.Context, last int64, each func([]agent.Change, bool, int64), trouble func(error)) (int64, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	look := time.NewTicker(deaf)
	defer look.Stop()
	slow := time.AfterFunc(s.timeout, cancel) // of a server that hangs the call would not return
	told := s.client.Watch(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithRev(last+1), clientv3.WithFragment())
	slow.Stop()
	for missed, most := 0, 5; ; { // the first that is told may be much
		select {
		case r, open := <-told:
			if !open {
				return last, errors.New("cannot follow the changes: the watch has ended")
			}
			if r.CompactRevision != 0 {
				last = 0
			}
			if err := r.Err(); err != nil {
				return last, fmt.Errorf("cannot follow the changes: %w", err)
			}
			if missed, most = 0, 2; len(r.Events) > 0 {
				trouble(nil)
				last = r.Events[len(r.Events)-1].Kv.ModRevision
				each(s.changes(r.Events), false, last)
			}
		case <-look.C:
			// A server that hangs, or is cut off, leaves its watch open.
			if s.confirmed.Load() > last {
				missed++
			}
			if missed == most {
				return last, errors.New("cannot follow the changes: a beat that etcd has confirmed is not told")
			}
		}
	}
}

// changes are what the events say.
func (s *Store) changes(events []*clientv3.Event) (all []agent.Change) {
	for _, e := range events {
		if c, ok := s.decode(e.Kv, e.Type == mvccpb.DELETE); ok {
			all = append(all, c)
		}
	}
	return all
}

// deaf is how often it is looked whether a watch tells nothing though it has something to tell.
const deaf = time.Second
