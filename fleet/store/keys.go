package store

import (
	"encoding/json"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"rlminit/fleet/agent"
)

// The kinds of key, which stand behind the fleet's prefix.
const (
	members  = "members/"
	owners   = "owners/"
	marks    = "marks/"
	profiles = "profiles/"
	drains   = "drain/"
	moves    = "moves/"
	backoffs = "backoff/"
	reports  = "runs/"
	data     = "data/"
)

// owner is the value of a claim.
type owner struct {
	Member string `json:"member"`
}

// declared is what counts here of a declaration; the rest is a profile.yaml.
type declared struct {
	State  string            `json:"state,omitempty"` // running, stopped
	Labels map[string]string `json:"labels,omitempty"`
}

type move struct {
	To string `json:"to"`
}

type drain struct {
	Limit int `json:"limit,omitempty"`
}

type backoff struct {
	Count  int    `json:"count"`
	Member string `json:"member"`
	Why    string `json:"why"`
}

// decode makes a change of a key. What is of no kind, or not JSON, is none.
func (s *Store) decode(kv *mvccpb.KeyValue, gone bool) (c agent.Change, ok bool) {
	rest, ok := strings.CutPrefix(string(kv.Key), s.prefix)
	if !ok {
		return c, false
	}
	kind, name, ok := strings.Cut(rest, "/")
	if !ok || name == "" {
		return c, false
	}
	c = agent.Change{Revision: kv.ModRevision, Name: name, Gone: gone}
	read := func(into any) bool { return gone || json.Unmarshal(kv.Value, into) == nil }
	switch kind + "/" {
	case members:
		v := &agent.Member{Lease: kv.Lease}
		c.Value, ok = v, read(v)
	case owners:
		var o owner
		ok = read(&o)
		c.Value = &agent.Owner{Member: o.Member, Lease: kv.Lease, Fence: kv.CreateRevision}
	case marks:
		c.Value = &agent.Mark{Fence: kv.ModRevision}
	case profiles:
		var d declared
		ok = read(&d)
		c.Value = &agent.Profile{Revision: kv.ModRevision, Stopped: d.State == "stopped", Labels: d.Labels, Text: string(kv.Value)}
	case moves:
		var m move
		ok = read(&m)
		c.Value = &agent.Move{To: m.To, Revision: kv.ModRevision}
	case drains:
		var d drain
		ok = read(&d)
		c.Value = &agent.Drain{Limit: d.Limit}
	case backoffs:
		var b backoff
		ok = read(&b)
		c.Value = &agent.Backoff{Count: b.Count, Member: b.Member, Text: b.Why, Revision: kv.ModRevision}
	case reports:
		v := new(agent.Live)
		c.Value, ok = v, read(v)
	default:
		return c, false
	}
	return c, ok
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // no value here has anything that JSON has not
	}
	return string(text)
}
