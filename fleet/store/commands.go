package store

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"rlminit/fleet/agent"
)

// Fail records that a profile could not be started.
func (s *Store) Fail(ctx context.Context, name, member string, count int, why string) error {
	return s.put(ctx, backoffs+name, encode(backoff{Count: count, Member: member, Why: why}))
}

// Recover takes that back.
func (s *Store) Recover(ctx context.Context, name string) error { return s.remove(ctx, backoffs+name) }

// Report says that a gateway runs, as long as its claim has this fence.
func (s *Store) Report(ctx context.Context, name string, lease int64, r agent.Live) (err error) {
	ctx, over := s.begin(ctx, s.timeout)
	defer over(&err)
	_, err = s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(s.prefix+owners+name), "=", r.Fence)).
		Then(clientv3.OpPut(s.prefix+reports+name, encode(r), clientv3.WithLease(clientv3.LeaseID(lease)))).Commit()
	return err
}

// Progress says what goes on before a gateway runs, as long as its claim has this fence and
// nothing was said of it since revision, 0: ever. It returns the revision for the next time. A
// request that is carried out late does not take the place of a report: that has another one.
func (s *Store) Progress(ctx context.Context, name string, lease, revision int64, r agent.Live) int64 {
	var err error
	ctx, over := s.begin(ctx, s.brief)
	defer over(&err)
	key := s.prefix + reports + name
	answer, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(s.prefix+owners+name), "=", r.Fence), clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
		Then(clientv3.OpPut(key, encode(r), clientv3.WithLease(clientv3.LeaseID(lease)))).Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return revision
	}
	if answer.Succeeded {
		return answer.Header.Revision
	}
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		if c, ok := s.decode(kv, false); ok && c.Value.(*agent.Live).Doing != "" {
			return kv.ModRevision // of an earlier one whose answer was lost
		}
	}
	return revision
}

// Declare declares a profile, if its declaration is still that of a revision; 0: there is
// none. It returns false if it is not, else the revision of the new one.
func (s *Store) Declare(ctx context.Context, name, text string, base int64) (ok bool, revision int64, err error) {
	return s.swap(ctx, name, base, clientv3.OpPut(s.prefix+declared+name, text))
}

// Undeclare takes back the declaration of a revision. It returns false if there is another.
func (s *Store) Undeclare(ctx context.Context, name string, base int64) (bool, error) {
	ok, _, err := s.swap(ctx, name, base, clientv3.OpDelete(s.prefix+declared+name))
	return ok, err
}

func (s *Store) swap(ctx context.Context, name string, base int64, op clientv3.Op) (ok bool, revision int64, err error) {
	ctx, over := s.begin(ctx, s.timeout)
	defer over(&err)
	r, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(s.prefix+declared+name), "=", base)).Then(op).Commit()
	if err != nil {
		return false, 0, fmt.Errorf("cannot change the declaration of %s: %w", name, err)
	}
	return r.Succeeded, r.Header.Revision, nil
}

// Move sends a profile to a member.
func (s *Store) Move(ctx context.Context, name, to string) error {
	return s.put(ctx, moves+name, encode(move{To: to}))
}

// Moved takes a move back, if it is still that of a revision; 0: whichever it is.
func (s *Store) Moved(ctx context.Context, name string, revision int64) (err error) {
	if revision == 0 {
		return s.remove(ctx, moves+name)
	}
	ctx, over := s.begin(ctx, s.timeout)
	defer over(&err)
	key := s.prefix + moves + name
	_, err = s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(clientv3.OpDelete(key)).Commit()
	return err
}

// Drain empties a member, limit profiles at a time.
func (s *Store) Drain(ctx context.Context, member string, limit int) error {
	return s.put(ctx, drains+member, encode(drain{Limit: limit}))
}

// Undrain lets a member claim again.
func (s *Store) Undrain(ctx context.Context, member string) error {
	return s.remove(ctx, drains+member)
}

// Manifest is that of the current data of a profile, and since which revision it is; "" and 0:
// there is none.
func (s *Store) Manifest(ctx context.Context, name string) (text string, revision int64, err error) {
	ctx, over := s.begin(ctx, s.timeout)
	defer over(&err)
	r, err := s.client.Get(ctx, s.prefix+data+name)
	if err != nil || len(r.Kvs) == 0 {
		return "", 0, err
	}
	return string(r.Kvs[0].Value), r.Kvs[0].ModRevision, nil
}

// SetManifest names the current data of a profile, if the claim still has this fence, and what
// was current is that of the revision base: a request that comes late takes nothing back. It
// returns false if that is not so.
func (s *Store) SetManifest(ctx context.Context, name string, fence, base int64, manifest string) (ok bool, err error) {
	ctx, over := s.begin(ctx, s.timeout)
	defer over(&err)
	r, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(s.prefix+owners+name), "=", fence), clientv3.Compare(clientv3.ModRevision(s.prefix+data+name), "=", base)).
		Then(clientv3.OpPut(s.prefix+data+name, manifest)).Commit()
	if err != nil {
		return false, fmt.Errorf("cannot record the data of %s: %w", name, err)
	}
	return r.Succeeded, nil
}

func (s *Store) put(ctx context.Context, key, value string) (err error) {
	ctx, over := s.begin(ctx, s.timeout)
	defer over(&err)
	_, err = s.client.Put(ctx, s.prefix+key, value)
	return err
}

func (s *Store) remove(ctx context.Context, key string) (err error) {
	ctx, over := s.begin(ctx, s.timeout)
	defer over(&err)
	_, err = s.client.Delete(ctx, s.prefix+key)
	return err
}
