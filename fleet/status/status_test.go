package status

import (
	"strings"
	"testing"

	"rlminit/fleet/agent"
)

// Why says what a profile waits for: a member, or the deadline of what ran before.
func TestWhy(t *testing.T) {
	v := agent.NewView()
	v.Take([]agent.Change{
		{Value: &agent.Space{Revision: 1}},
		{Name: "m", Value: &agent.Member{}},
		{Name: "new", Value: &agent.Profile{}},
		{Name: "left", Value: &agent.Profile{}},
		{Name: "left", Value: &agent.Mark{Fence: 7}},
		{Name: "well", Value: &agent.Profile{Revision: 3}},
		{Name: "well", Value: &agent.Owner{Member: "m", Fence: 8}},
		{Name: "well", Value: &agent.Live{Fence: 8, Declared: 3}},
		{Name: "well", Value: &agent.Backoff{Count: 1, Member: "n", Text: "no such file"}},
		{Name: "other", Value: &agent.Profile{Revision: 3, Labels: map[string]string{"zone": "b"}}},
		{Name: "other", Value: &agent.Owner{Member: "m", Fence: 9}},
		{Name: "other", Value: &agent.Live{Fence: 9, Declared: 3}},
		{Name: "nobody", Value: &agent.Profile{Labels: map[string]string{"gpu": "yes"}}},
	})
	want := map[string]string{
		"new":    "the next to claim it is m",
		"left":   "the next to claim it is m; what ran under fence 7 may run until its deadline",
		"well":   "earlier: it could not be started at n (1 in a row): no such file",
		"other":  "it runs where its labels do not fit: m: it has no label zone=b; rlminit fleet rebalance moves it, if another member takes it",
		"nobody": "no member takes it: m: it has no label gpu=yes",
	}
	for _, p := range Profiles(v) {
		if !strings.HasPrefix(p.Why, want[p.Name]) || p.Name == "new" && p.Why != want[p.Name] {
			t.Errorf("%s: %s", p.Name, p.Why)
		}
	}
	v.Take([]agent.Change{{Gone: true, Value: (*agent.Space)(nil)}})
	if why := Of(v, "left").Why; !strings.Contains(why, "etcd has no space left, or all members are of an older version") {
		t.Errorf("etcd has no space, and left waits for %s", why)
	}
}
