package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"rlminit/config"
	"rlminit/fleet/agent"
	"rlminit/internal/document"
	"rlminit/service"
)

// The kinds of key, which stand behind the fleet's prefix.
const (
	members  = "members/"
	owners   = "owners/"
	marks    = "marks/"
	declared = "profiles/"
	drains   = "drain/"
	moves    = "moves/"
	backoffs = "backoff/"
	reports  = "runs/"
	data     = "data/"
	space    = "space" // a key, and no kind: there is room, since it could be put
)

// known are those that decode makes changes of.
var known = map[string]bool{members: true, owners: true, marks: true, declared: true, drains: true, moves: true, backoffs: true, reports: true}

// owner is the value of a claim.
type owner struct {
	Member string `json:"member"`
}

// declaration is what counts here of a declaration; the rest is a profile.yaml.
type declaration struct {
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

// CheckName refuses a name that no profile can have, by the rule of every box for a new one.
func CheckName(name string) error {
	if fault := service.CheckNewProfile(name, config.OwnServices); fault != "" {
		return errors.New(fault)
	}
	return nil
}

// checkKey refuses the name in a key, which is a profile's but for those of members.
func checkKey(kind, name string) error {
	if kind != members && kind != drains {
		return CheckName(name)
	}
	if fault := service.CheckName(name); fault != "" {
		return fmt.Errorf("%s %s", document.Quote(name), fault)
	}
	return nil
}

// ignored tells Config.Ignored of a key with a name that nothing can have: once, and of the
// first few of them.
func (s *Store) ignored(key string, why error) {
	s.mutex.Lock()
	said := s.odd[key] || len(s.odd) == mostOdd
	if !said {
		s.odd[key] = true
	}
	s.mutex.Unlock()
	if !said && s.tell != nil {
		s.tell(fmt.Sprintf("the key %s in etcd is ignored: %v", document.Quote(key), why))
	}
}

// mostOdd is how many such keys are told of.
const mostOdd = 100

// decode makes a change of a key. What is of no kind, has a name that nothing of its kind can
// have, or is not JSON, is none.
func (s *Store) decode(kv *mvccpb.KeyValue, gone bool) (c agent.Change, ok bool) {
	rest, ok := strings.CutPrefix(string(kv.Key), s.prefix)
	if !ok {
		return c, false
	}
	if rest == space {
		return agent.Change{Revision: kv.ModRevision, Gone: gone, Value: &agent.Space{Revision: kv.CreateRevision}}, true
	}
	kind, name, ok := strings.Cut(rest, "/")
	if !ok || !known[kind+"/"] {
		return c, false
	}
	if err := checkKey(kind+"/", name); err != nil {
		s.ignored(string(kv.Key), err)
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
	case declared:
		var d declaration
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
