package nemesis

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"rlminit/fleet/test/check"
)

// Watcher sees the claims come and go in etcd, and data be named as current, each of them as
// soon as etcd says so.
type Watcher struct {
	mu     sync.Mutex
	claims []check.Claim
	saves  []check.Save
	errs   []error
	done   chan struct{}
}

// Watch watches from the first revision on, until ctx is done. Where etcd does not
// answer it goes on with the revision after the last that it saw.
func (w *World) Watch(ctx context.Context) *Watcher {
	seen := &Watcher{done: make(chan struct{})}
	go func() {
		defer close(seen.done)
		next := int64(1)
		for ctx.Err() == nil {
			next = seen.follow(ctx, w.Client, next)
		}
	}()
	return seen
}

// follow watches until the watch ends, and returns the revision to go on with.
func (s *Watcher) follow(ctx context.Context, client *clientv3.Client, next int64) int64 {
	// A node that has no leader ends the watch, and another one is asked.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	prefix := "/rlminit/" + fleetName + "/"
	for answer := range client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(next), clientv3.WithPrevKV()) {
		at := check.Now()
		if answer.CompactRevision != 0 {
			s.fail(fmt.Errorf("claims up to revision %d were not seen", answer.CompactRevision))
			return answer.CompactRevision
		}
		for _, e := range answer.Events {
			switch kind, profile, _ := strings.Cut(strings.TrimPrefix(string(e.Kv.Key), prefix), "/"); kind {
			case "owners":
				s.see(at, profile, e)
			case "marks":
				s.returned(profile, e)
			case "data":
				s.stored(profile, e)
			}
			next = e.Kv.ModRevision + 1
		}
		if answer.Err() != nil {
			break
		}
	}
	pause := time.NewTimer(50 * time.Millisecond)
	defer pause.Stop()
	select {
	case <-ctx.Done():
	case <-pause.C:
	}
	return next
}

// returned takes down that a claim was given back: then its mark goes with it.
func (s *Watcher) returned(profile string, e *clientv3.Event) {
	if e.Type != clientv3.EventTypeDelete || e.PrevKv == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claim(profile, e.PrevKv.ModRevision); c != nil {
		c.Returned = true
	}
}

// claim is that of a profile with a fence; nil: it was not seen. The caller holds s.mu.
func (s *Watcher) claim(profile string, fence int64) *check.Claim {
	for i := range s.claims {
		if c := &s.claims[i]; c.Profile == profile && c.Fence == fence {
			return c
		}
	}
	return nil
}

// stored takes down that data are current. The time at which it was begun to save them is one
// of the members' clocks, which are this one.
func (s *Watcher) stored(profile string, e *clientv3.Event) {
	var m struct {
		Fence int64
		At    time.Time
	}
	err := json.Unmarshal(e.Kv.Value, &m)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || m.Fence == 0 || m.At.IsZero() {
		s.errs = append(s.errs, fmt.Errorf("the data of %s are named by %q, which is no manifest", profile, e.Kv.Value))
		return
	}
	s.saves = append(s.saves, check.Save{Profile: profile, Fence: m.Fence, Revision: e.Kv.ModRevision, At: check.Now() - int64(time.Since(m.At))})
}

// see takes down one event of a claim.
func (s *Watcher) see(at int64, profile string, e *clientv3.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.IsCreate() {
		var owner struct{ Member string }
		if err := json.Unmarshal(e.Kv.Value, &owner); err != nil || owner.Member == "" {
			s.errs = append(s.errs, fmt.Errorf("the claim of %s says %q, which is no member", profile, e.Kv.Value))
		}
		s.claims = append(s.claims, check.Claim{Profile: profile, Member: owner.Member, Fence: e.Kv.CreateRevision, From: at})
		return
	}
	if e.Type != clientv3.EventTypeDelete || e.PrevKv == nil {
		return
	}
	if c := s.claim(profile, e.PrevKv.CreateRevision); c != nil && c.Till == 0 {
		c.Till = at
	}
}

func (s *Watcher) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

// Seen is what was seen, and what went wrong with seeing it, once the watch has ended.
func (s *Watcher) Seen() ([]check.Claim, []check.Save, []error) {
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims, s.saves, s.errs
}

// Probe has etcd write a key five times a second until ctx is done, and returns then the times
// for which it did not. One request has no answer for no longer than a second, so that one node
// that hangs is no outage.
func (w *World) Probe(ctx context.Context) (outages func() []check.Outage) {
	var mu sync.Mutex
	var answers []int64
	var asked sync.WaitGroup
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			asked.Go(func() {
				bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
				defer cancel()
				if _, err := w.Client.Put(bounded, "/probe", ""); err == nil {
					mu.Lock()
					defer mu.Unlock()
					answers = append(answers, check.Now())
				}
			})
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		asked.Wait()
	}()
	return func() []check.Outage {
		<-ended
		return check.Silences(answers)
	}
}
