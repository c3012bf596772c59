package agent

import "maps"

// Member is one of the fleet, as it says itself.
type Member struct {
	Weight   float64           `json:"weight"`             // 0: as 1
	Capacity int               `json:"capacity,omitempty"` // how many profiles at most; 0: any number
	Labels   map[string]string `json:"labels,omitempty"`
	Version  string            `json:"version,omitempty"`
}

// Owner is a claim.
type Owner struct {
	Member string
	Lease  int64
	Fence  int64 // the key's create revision
}

// Profile is a declared one.
type Profile struct {
	Revision int64 // of the declaration: another one is another declaration
	Stopped  bool  // it is to run nowhere
	Labels   map[string]string
	Text     string // the declaration
}

// Move sends a profile to a member.
type Move struct {
	To       string
	Revision int64
}

// Drain empties a member.
type Drain struct {
	Limit int // how many go at a time; 0: one
}

// Backoff is that a profile could not be started.
type Backoff struct {
	Count    int
	Member   string // where
	Text     string // why
	Revision int64
}

// Live is what the owner says of a gateway that it has started.
type Live struct {
	Fence    int64 `json:"fence"`
	Declared int64 `json:"declared"` // the revision of the declaration by which it was started
}

// Change is one key of etcd that is put or, if Gone, deleted.
type Change struct {
	Revision int64
	Name     string // of the member or profile
	Gone     bool
	Value    any // *Member, *Owner, *Profile, *Move, *Drain, *Backoff or *Live; of what is gone, a nil one
}

// View is what etcd says of a fleet.
type View struct {
	Members  map[string]Member
	Owners   map[string]Owner
	Profiles map[string]Profile
	Moves    map[string]Move
	Drains   map[string]Drain
	Backoffs map[string]Backoff
	Reports  map[string]Live

	Load map[string]int // how many profiles each member owns
	// Epoch changes when the order of members may be another one: one came, went, drains,
	// or has become full, or not full any more.
	Epoch int64
}

// NewView is an empty one.
func NewView() *View {
	return &View{
		Members: map[string]Member{}, Owners: map[string]Owner{}, Profiles: map[string]Profile{},
		Moves: map[string]Move{}, Drains: map[string]Drain{}, Backoffs: map[string]Backoff{}, Reports: map[string]Live{}, Load: map[string]int{},
	}
}

// Apply takes a change.
func (v *View) Apply(c Change) {
	switch value := c.Value.(type) {
	case *Member:
		set(v.Members, c, value)
		v.Epoch++
	case *Owner:
		if before, ok := v.Owners[c.Name]; ok {
			v.loads(before.Member, -1)
		}
		set(v.Owners, c, value)
		if !c.Gone {
			v.loads(value.Member, +1)
		}
	case *Profile:
		set(v.Profiles, c, value)
	case *Move:
		set(v.Moves, c, value)
	case *Drain:
		set(v.Drains, c, value)
		v.Epoch++
	case *Backoff:
		set(v.Backoffs, c, value)
	case *Live:
		set(v.Reports, c, value)
	}
}

// Runs tells whether a profile runs, as it is declared now.
func (v *View) Runs(name string) bool {
	o, owned := v.Owners[name]
	r := v.Reports[name]
	return owned && r.Fence == o.Fence && r.Declared == v.Profiles[name].Revision
}

func set[T any](to map[string]T, c Change, value *T) {
	if c.Gone {
		delete(to, c.Name)
		return
	}
	to[c.Name] = *value
}

// loads counts what a member owns.
func (v *View) loads(member string, by int) {
	most := v.Members[member].Capacity
	before := v.Load[member]
	v.Load[member] = before + by
	if v.Load[member] == 0 {
		delete(v.Load, member)
	}
	if most > 0 && (before >= most) != (before+by >= most) {
		v.Epoch++
	}
}

// gone is the changes that make v what whole says: what v has and whole has not.
func (v *View) gone(whole []Change, revision int64) []Change {
	was := View{
		Members: maps.Clone(v.Members), Owners: maps.Clone(v.Owners), Profiles: maps.Clone(v.Profiles),
		Moves: maps.Clone(v.Moves), Drains: maps.Clone(v.Drains), Backoffs: maps.Clone(v.Backoffs), Reports: maps.Clone(v.Reports),
	}
	for _, c := range whole {
		switch c.Value.(type) {
		case *Member:
			delete(was.Members, c.Name)
		case *Owner:
			delete(was.Owners, c.Name)
		case *Profile:
			delete(was.Profiles, c.Name)
		case *Move:
			delete(was.Moves, c.Name)
		case *Drain:
			delete(was.Drains, c.Name)
		case *Backoff:
			delete(was.Backoffs, c.Name)
		case *Live:
			delete(was.Reports, c.Name)
		}
	}
	var out []Change
	out = appendGone[Member](out, was.Members, revision)
	out = appendGone[Owner](out, was.Owners, revision)
	out = appendGone[Profile](out, was.Profiles, revision)
	out = appendGone[Move](out, was.Moves, revision)
	out = appendGone[Drain](out, was.Drains, revision)
	out = appendGone[Live](out, was.Reports, revision)
	return appendGone[Backoff](out, was.Backoffs, revision)
}

func appendGone[T any](out []Change, left map[string]T, revision int64) []Change {
	for _, name := range sorted(left) {
		out = append(out, Change{Revision: revision, Name: name, Gone: true, Value: (*T)(nil)})
	}
	return out
}
