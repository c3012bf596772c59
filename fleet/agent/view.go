package agent

import (
	"maps"
	"reflect"
)

// Member is one of the fleet, as it says itself.
type Member struct {
	Weight   float64           `json:"weight"`             // 0: as 1
	Capacity int               `json:"capacity,omitempty"` // how many profiles at most; 0: any number
	Labels   map[string]string `json:"labels,omitempty"`
	Version  string            `json:"version,omitempty"`
	TTL      int64             `json:"ttl,omitempty"`     // of its lease, in nanoseconds
	Foreign  []string          `json:"foreign,omitempty"` // declared names that something else has in its box
	Lease    int64             `json:"-"`                 // that the key is on
}

// Owner is a claim.
type Owner struct {
	Member string
	Lease  int64
	Fence  int64 // the key's create revision
}

// Mark is that a profile was claimed, and was not given back since: it stays when the claim
// ends with its lease.
type Mark struct {
	Fence int64 // of the claim
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
	Declared int64 `json:"declared"` // the revision of the declaration by which it was started; 0: it does not run any more

	Trouble string `json:"trouble,omitempty"` // why its data cannot be stored
	Doing   string `json:"doing,omitempty"`   // what is done before it runs
}

// Space is that etcd has room for what a fleet puts. Under its alarm NOSPACE etcd refuses puts,
// and beats delete the key instead (R8).
type Space struct {
	Revision int64 // at which the key was created
}

// Change is one key of etcd that is put or, if Gone, deleted.
type Change struct {
	Revision int64
	Name     string // of the member or profile; "": of a *Space
	Gone     bool
	Value    any // *Member, *Owner, *Mark, *Profile, *Move, *Drain, *Backoff, *Live or *Space; of what is gone, a nil one
}

// View is what etcd says of a fleet.
type View struct {
	Members  map[string]Member
	Owners   map[string]Owner
	Marks    map[string]Mark
	Profiles map[string]Profile
	Moves    map[string]Move
	Drains   map[string]Drain
	Backoffs map[string]Backoff
	Reports  map[string]Live

	// Space is the create revision of the key; 0: it is absent, so etcd has no room, or no member
	// has put it yet: one does with its session, if its version knows the key.
	Space int64

	Load map[string]int // how many profiles each member owns
	// Epoch changes when the order of members may be another one: one came, went, drains,
	// or has become full, or not full any more. It changes with Space too.
	Epoch int64
}

// NewView is an empty one.
func NewView() *View {
	return &View{
		Members: map[string]Member{}, Owners: map[string]Owner{}, Marks: map[string]Mark{}, Profiles: map[string]Profile{},
		Moves: map[string]Move{}, Drains: map[string]Drain{}, Backoffs: map[string]Backoff{}, Reports: map[string]Live{}, Load: map[string]int{},
	}
}

// Clone is a copy that does not change any more.
func (v *View) Clone() *View {
	return &View{
		Members: maps.Clone(v.Members), Owners: maps.Clone(v.Owners), Marks: maps.Clone(v.Marks), Profiles: maps.Clone(v.Profiles),
		Moves: maps.Clone(v.Moves), Drains: maps.Clone(v.Drains), Backoffs: maps.Clone(v.Backoffs), Reports: maps.Clone(v.Reports),
		Space: v.Space, Load: maps.Clone(v.Load), Epoch: v.Epoch,
	}
}

// Take takes changes, in their order.
func (v *View) Take(changes []Change) {
	for _, c := range changes {
		v.Apply(c)
	}
}

// Apply takes a change.
func (v *View) Apply(c Change) {
	switch value := c.Value.(type) {
	case *Member:
		if before, had := v.Members[c.Name]; c.Gone || !had || !reflect.DeepEqual(before, *value) { // else it is a beat
			set(v.Members, c, value)
			v.Epoch++
		}
	case *Owner:
		if before, ok := v.Owners[c.Name]; ok {
			v.loads(before.Member, -1)
		}
		set(v.Owners, c, value)
		if !c.Gone {
			v.loads(value.Member, +1)
		}
	case *Mark:
		set(v.Marks, c, value)
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
	case *Space:
		if v.Space = 0; !c.Gone {
			v.Space = value.Revision
		}
		v.Epoch++
	}
}

// Full tells whether etcd has no room, as the members have found, or no member is of a version
// that tells: NoRoom.
func (v *View) Full() bool { return v.Space == 0 && len(v.Members) > 0 }

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
func (v *View) gone(whole []Change, revision int64) (out []Change) {
	there := make(map[key]bool, len(whole))
	for _, c := range whole {
		there[key{reflect.TypeOf(c.Value), c.Name}] = true
	}
	out = appendGone(out, v.Members, there, revision)
	out = appendGone(out, v.Owners, there, revision)
	out = appendGone(out, v.Marks, there, revision)
	out = appendGone(out, v.Profiles, there, revision)
	out = appendGone(out, v.Moves, there, revision)
	out = appendGone(out, v.Drains, there, revision)
	out = appendGone(out, v.Reports, there, revision)
	if v.Space != 0 && !there[key{kind: reflect.TypeFor[*Space]()}] {
		out = append(out, Change{Revision: revision, Gone: true, Value: (*Space)(nil)})
	}
	return appendGone(out, v.Backoffs, there, revision)
}

// key is a key of etcd: of which kind, and whose.
type key struct {
	kind reflect.Type // of Change.Value
	name string
}

func appendGone[T any](out []Change, has map[string]T, there map[key]bool, revision int64) []Change {
	gone := (*T)(nil)
	for _, name := range sorted(has) {
		if !there[key{reflect.TypeOf(gone), name}] {
			out = append(out, Change{Revision: revision, Name: name, Gone: true, Value: gone})
		}
	}
	return out
}
