package registry

import "rlminit/service"

// names are the known names, with their progress. The goroutine's alone.
type names struct {
	of      map[string]*entry // Invariant: none is Absent
	sources int               // Invariant: the sum of their sizes, in bytes
}

// entry is a known name.
type entry struct {
	life       Life
	profile    string
	recorded   bool   // has a record on the volume; false: put into the service directory by hand
	ours       bool   // the definition in force is ours
	source     string // fingerprint of the definition in force; "": there is none
	size       int    // of it, in bytes
	configured string // fingerprint of our definition that was published last; "": none, or it could not be
	slot       string // stamp of its slot's definition, as far as we know; "": none
	fault      string // why another definition than the newest is in force; "": the newest is

	intent service.Intent // of one at rest: its desired state
	judged *judgement     // of one at rest: what came of compiling its definition; nil: nobody has

	gone chan struct{}   // closed when nothing is left of its service; nil: it is not leaving
	log  <-chan struct{} // closed when nothing more is written to its log; nil: nothing was
	over chan struct{}   // closed when the deletion of its profile is over; nil: there is none
}

// entry is that of a name; a new one has yet to become more than Absent.
func (n *names) entry(name string) *entry {
	e := n.of[name]
	if e == nil {
		e = &entry{}
		n.of[name] = e
	}
	return e
}

// life is how far a name is.
func (n *names) life(name string) Life {
	if e := n.of[name]; e != nil {
		return e.life
	}
	return Absent
}

// befall brings a name on by an event, and returns the act.
func (n *names) befall(name string, event Event) Action {
	next, action := Next(n.life(name), event)
	if next != Absent {
		n.entry(name).life = next
	} else if e := n.of[name]; e != nil {
		n.sources -= e.size
		delete(n.of, name)
	}
	return action
}

// forget leaves of an entry what concerns the name, and not its service.
func (n *names) forget(e *entry) {
	n.sources -= e.size
	*e = entry{life: e.life, log: e.log, over: e.over}
}
