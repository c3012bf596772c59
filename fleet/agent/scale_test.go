package agent

import (
	"flag"
	"fmt"
	"testing"
)

var (
	scaleMembers  = flag.Int("members", 40, "how many members TestScale has")
	scaleProfiles = flag.Int("profiles", 8000, "how many profiles it has")
)

// crowd is many members that see the same etcd, each a little later.
type crowd struct {
	now    int64
	view   *View
	agents map[string]*Agent
	fence  int64
	claims int
	taken  int
	said   int // changes that etcd has told all members of
	inbox  map[string][]Input
	told   []told
}

// told is a change, and who owned the profile before.
type told struct {
	change Change
	before Owner
}

// newCrowd has all profiles where they belong, and all members live.
func newCrowd(members, profiles int) *crowd {
	c := &crowd{now: 1000 * second, view: NewView(), agents: map[string]*Agent{}, fence: 1, inbox: map[string][]Input{}}
	for i := range members {
		name := fmt.Sprintf("m%03d", i)
		c.view.Apply(Change{Name: name, Value: &Member{}})
		a := New(Config{Member: name, TTL: testTTL}, c.view)
		a.began, a.loaded, a.surveyed, a.adopted, a.now = true, true, true, true, c.now
		a.seen = never // its box answers always
		a.session = session{lease: int64(i) + 1, ttl: testTTL, sent: c.now}
		c.agents[name] = a
	}
	for i := range profiles {
		name := fmt.Sprintf("p%d", i)
		owner := fmt.Sprintf("m%03d", i%members) // whoever it is: a claim is sticky
		c.fence++
		c.view.Apply(Change{Name: name, Value: &Profile{}})
		c.view.Apply(Change{Name: name, Value: &Mark{c.fence}})
		c.view.Apply(Change{Name: name, Value: &Owner{Member: owner, Lease: c.agents[owner].session.lease, Fence: c.fence}})
		c.agents[owner].hold(name, c.fence, Running)
	}
	return c
}

// apply changes etcd; members hear of it at the next beat.
func (c *crowd) apply(ch Change) {
	before := c.view.Owners[ch.Name]
	c.view.Apply(ch)
	c.told = append(c.told, told{ch, before})
	c.said++
}

// lose takes a member away, as the end of its lease does.
func (c *crowd) lose(name string) {
	delete(c.agents, name)
	c.apply(Change{Name: name, Gone: true, Value: (*Member)(nil)})
	for _, profile := range sorted(c.view.Owners) {
		if c.view.Owners[profile].Member == name {
			c.apply(Change{Name: profile, Gone: true, Value: (*Owner)(nil)})
		}
	}
}

// beat lets time pass, and every member hear and do what there is.
func (c *crowd) beat(by int64) {
	c.now += by
	news := c.told
	c.told = nil
	for _, name := range sorted(c.agents) {
		a := c.agents[name]
		in := c.inbox[name]
		delete(c.inbox, name)
		if len(news) == 0 && len(in) == 0 && (a.next == 0 || a.next > c.now) {
			continue
		}
		a.now, a.effects, a.next = c.now, a.effects[:0], 0
		for _, t := range news {
			a.heard(t.change, t.before)
		}
		a.decide()
		effects := append([]Effect(nil), a.effects...)
		for _, i := range in {
			i.Now = c.now
			effects = append(effects, a.Step(i)...)
		}
		for _, e := range effects {
			c.carryOut(name, e)
		}
	}
}

func (c *crowd) carryOut(name string, e Effect) {
	in := Input{Name: e.Name, Fence: e.Fence, Lease: e.Lease}
	switch e.Kind {
	case Renew:
		in.Kind, in.Sent = Renewed, c.now
	case Claim:
		c.claims++
		in.Kind = Claimed
		if _, has := c.view.Owners[e.Name]; has {
			c.taken++
			in.Kind = Taken
			break
		}
		c.fence++
		in.Fence = c.fence
		c.apply(Change{Name: e.Name, Value: &Owner{Member: name, Lease: e.Lease, Fence: c.fence}})
	case Prepare:
		in.Kind = Prepared
	case Start:
		in.Kind = Started
	default:
		return
	}
	c.inbox[name] = append(c.inbox[name], in)
}

// TestScale loses one of many members: only its profiles move, to all others, and hardly
// any claim is made in vain.
func TestScale(t *testing.T) {
	c := newCrowd(*scaleMembers, *scaleProfiles)
	before := map[string]string{}
	lost := 0
	for name, o := range c.view.Owners {
		before[name] = o.Member
		if o.Member == "m000" {
			lost++
		}
	}
	c.lose("m000")
	from := c.now
	for len(c.view.Owners) < *scaleProfiles {
		c.beat(second / 20)
		if c.now-from > 600*second {
			t.Fatalf("after ten minutes %d profiles have no owner", *scaleProfiles-len(c.view.Owners))
		}
	}
	moved, to := 0, map[string]int{}
	for name, o := range c.view.Owners {
		if before[name] != o.Member {
			moved++
			to[o.Member]++
		}
	}
	highest := 0
	for _, n := range to {
		highest = max(highest, n)
	}
	t.Logf("%d members, %d profiles: one member lost, %d profiles moved to %d members (at most %d to one) within %.2f s; %d claims, of them %d in vain; etcd told each member of %d changes",
		*scaleMembers, *scaleProfiles, moved, len(to), highest, float64(c.now-from)/1e9, c.claims, c.taken, c.said)
	if moved != lost {
		t.Errorf("%d profiles moved; %d were lost", moved, lost)
	}
	if c.taken > lost/10+1 {
		t.Errorf("%d claims were made in vain, for %d profiles", c.taken, lost)
	}

	c.view.Apply(Change{Name: "new", Value: &Member{}})
	sample, wanted := 0, 0
	for name := range c.view.Profiles {
		if sample++; sample > 2000 {
			break
		}
		if c.view.Rank(name, "new") == 0 {
			wanted++
		}
	}
	t.Logf("a new member would be given %d of %d by a rebalance; its share is %.1f", wanted, sample-1, float64(sample-1)/float64(*scaleMembers))
}
