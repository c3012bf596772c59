package plan

import (
	"cmp"
	"maps"
	"slices"

	"rlminit/internal/redact"
	"rlminit/reconcile"
	"rlminit/service"
)

// The actions of a change.
const (
	Create = "create"
	Update = "update" // its definition; its state may change along with it
	Start  = "start"
	Stop   = "stop"
	Delete = "delete"
)

// Change is one thing that an apply does, to one profile or the configuration.
type Change struct {
	Action  string  `json:"action"`
	Kind    string  `json:"kind"` // profile, configuration
	Name    string  `json:"name"` // of the profile; the configuration's path
	Service string  `json:"service"`
	Reason  string  `json:"reason"`
	Effect  string  `json:"effect"` // on the process: starts, stops, restarts, none
	Fields  []Field `json:"fields"`
	After   *After  `json:"after"` // null: it is deleted
	// Services are those that a change of the configuration touches.
	Services []Affected `json:"services,omitempty"`
	Notes    []string   `json:"notes,omitempty"` // what of that counts from a next start on
}

// The effects of a change on the process.
const (
	Starts   = "starts"
	Stops    = "stops"
	Restarts = "restarts"
	NoEffect = "none"
)

// Field is one value that changes. An absent one is null.
type Field struct {
	Field string  `json:"field"`
	Mark  string  `json:"mark"` // + - ~
	Old   *string `json:"old"`
	New   *string `json:"new"`
}

// After is a profile after its change.
type After struct {
	State      service.Intent `json:"state"`
	Definition Tree           `json:"definition"`
	Sealed     []Sealed       `json:"sealed"`
}

// Subject is the name that a rule of apply.allow is held against.
func (c Change) Subject() string { return c.Kind + "/" + c.Name }

// KindProfile is the kind of a change to a profile.
const KindProfile = "profile"

// Effects tells whether a changed definition needs a new process. It is asked
// once about each that is new or has changed.
type Effects func(name string) (restart bool)

// Compare says what brings wanted about, of all the profiles within a scope.
// files are the sources of the secrets, by profile and place. Changes come in
// the order of their names.
func Compare(present map[string]Present, wanted map[string]Profile, files map[string]map[string]string, restarts Effects) []Change {
	present, wanted = maps.Clone(present), maps.Clone(wanted)
	for name, p := range present {
		if w, declared := wanted[name]; declared {
			p.Profile, w = alike(p.Profile, w)
			present[name], wanted[name] = p, w
		}
	}
	in := reconcile.Input{}
	names := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		w := wanted[name]
		names[serviceOf(name)] = name
		in.Profiles = append(in.Profiles, reconcile.Profile{
			Name: name, Service: serviceOf(name), Fingerprint: w.fingerprint(), Declared: w.State,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(present)) {
		p := present[name]
		if _, declared := wanted[name]; p.Kept && !declared {
			continue
		}
		names[serviceOf(name)] = name
		in.Present = append(in.Present, reconcile.Present{
			Service: serviceOf(name), Registered: true, Fault: p.Fault, Fingerprint: p.fingerprint(),
			Desired: p.State, Astray: p.Astray,
		})
	}
	changes := []Change{}
	for _, op := range reconcile.Diff(in) {
		name := names[op.Service]
		changes = append(changes, change(op, name, present, wanted, files[name], restarts))
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Name, b.Name) })
	return changes
}

// configurationChange is one whose text another takes the place of.
func configurationChange(c Change, before, after Profile, file string) Change {
	c.Action, c.Service = Update, ""
	c.Fields, c.Reason = configurationFields(fields(before, after))
	c.After = &After{Definition: Tree{}, Sealed: []Sealed{{Place: ConfigurationText, Digest: after.Sealed[ConfigurationText], File: file}}}
	return c
}

func serviceOf(profile string) string { return service.GatewayPrefix + profile }

// change puts an operation into words.
func change(op reconcile.Op, name string, present map[string]Present, wanted map[string]Profile, files map[string]string, restarts Effects) Change {
	before, was := present[name]
	after := wanted[name]
	c := Change{Kind: kindOf(name), Name: name, Service: op.Service, Effect: NoEffect}
	if c.Kind == KindConfiguration {
		return configurationChange(c, before.Profile, after, files[ConfigurationText])
	}
	running := was && before.State == service.Running && before.Fault == ""
	restart := (op.Kind == reconcile.Register || op.Kind == reconcile.Update) && restarts(name)
	restart = restart || !maps.Equal(secretsOf(before.Profile), secretsOf(after)) // what runs keeps those that it was given
	switch op.Kind {
	case reconcile.Unregister:
		c.Action, c.Reason = Delete, "it is not declared"
		if running {
			c.Effect = Stops
		}
		c.Fields = fields(before.Profile, Profile{})
		return c
	case reconcile.Register:
		c.Action, c.Reason = Create, "it is declared, and there is none"
	case reconcile.Update:
		c.Action, c.Reason = Update, "its declared definition differs"
		if before.Fault != "" {
			c.Reason = "it cannot be run: " + before.Fault
		}
	case reconcile.Intend:
		c.Action, c.Reason = Stop, "it is declared stopped"
		if op.Start {
			c.Action, c.Reason = Start, "it is declared running"
		}
		if before.Astray != "" && before.State == after.State {
			c.Reason += ", and is " + before.Astray
		}
	}
	switch starts := after.State == service.Running; {
	case starts && !running:
		c.Effect = Starts
	case starts && op.Kind == reconcile.Intend:
		c.Effect = Starts
	case starts && restart:
		c.Effect = Restarts
	case !starts && (running || before.Astray != ""):
		c.Effect = Stops
	}
	c.Fields = fields(before.Profile, after)
	c.After = &After{State: after.State, Definition: after.Definition, Sealed: []Sealed{}}
	if c.After.Definition == nil {
		c.After.Definition = Tree{}
	}
	for _, at := range slices.Sorted(maps.Keys(after.Sealed)) {
		c.After.Sealed = append(c.After.Sealed, Sealed{Place: at, Digest: after.Sealed[at], File: files[at]})
	}
	return c
}

// secretsOf are the digests of a service's secrets beside its environment.
func secretsOf(p Profile) map[string]string {
	own := maps.Clone(p.Sealed)
	maps.DeleteFunc(own, func(at, _ string) bool {
		part, _ := partsOf(at)
		return part != partSecrets
	})
	return own
}

// fields are the values that differ, the state first. A secret is masked.
func fields(before, after Profile) []Field {
	old, now := visible(before), visible(after)
	list := []Field{}
	for _, at := range slices.Sorted(maps.Keys(merged(old, now))) {
		was, had := old[at]
		is, has := now[at]
		if had && has && was == is {
			continue
		}
		f := Field{Field: at, Mark: "~"}
		if had {
			f.Old = shown(at, was, before)
		} else {
			f.Mark = "+"
		}
		if has {
			f.New = shown(at, is, after)
		} else {
			f.Mark = "-"
		}
		list = append(list, f)
	}
	if at := slices.IndexFunc(list, func(f Field) bool { return f.Field == "state" }); at > 0 {
		state := list[at]
		list = slices.Insert(slices.Delete(list, at, at+1), 0, state)
	}
	return list
}

// visible are a profile's values by their paths; a secret is its digest.
func visible(p Profile) map[string]string {
	all := leaves(p.Definition)
	maps.Copy(all, p.Sealed)
	if p.State != service.IntentNone {
		all["state"] = string(p.State)
	}
	return all
}

func shown(at, value string, p Profile) *string {
	if _, secret := p.Sealed[at]; secret {
		value = redact.Sign
		if in, key := find(p.Definition, at); in != nil {
			value = text(in[key])
		}
	}
	return &value
}

func merged(a, b map[string]string) map[string]string {
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}
