package registry

import (
	"fmt"
	"log/slog"
)

// directory is the service directory as it was when the container was started: another one
// at its path, or none that can be read, says nothing about services. Services go on, and
// slots are written and taken away when it is back. The goroutine's, but for
// trouble.why.
type directory struct {
	trouble
	place string // which one it is, slots.Dir.Place; "": nobody knows
}

// Rows of what a successor is to know: which one it is, and the slots that are to be taken away
// when it is back, with the stamp of each.
const (
	placeKey  = "slots"
	goneUnder = "slots/gone/"
)

// known finds out which service directory is ours: that of the supervisor before, if there was
// one.
func (r *Registry) known() {
	d := &r.directory
	if d.place = string(r.table.Get(placeKey)); d.place != "" {
		return
	}
	var err error
	if d.place, err = r.slots.Place(); err == nil {
		err = r.table.Put(placeKey, []byte(d.place))
	}
	if err != nil {
		slog.Warn("a successor would not know which service directory this is", "err", err)
	}
}

// there tells whether the service directory is ours. If not, that is said, and it is looked
// for again by its path.
func (r *Registry) there() bool {
	d := &r.directory
	if d.place == "" {
		return true
	}
	now, err := r.slots.Place()
	if err == nil && now != d.place {
		err = fmt.Errorf("%s is another directory than before; unmount what hides it, or put it back", r.slots.Path)
	}
	if err != nil {
		d.lookAgain(err)
		return false
	}
	if d.why() != "" {
		d.well()
		r.queue.Do(r.isBack)
	}
	return true
}

// isBack does what could not be done without the service directory, and looks at all of it.
func (r *Registry) isBack() {
	for name, stamp := range r.table.Under(goneUnder) {
		if life := r.names.life(name); (life == Absent || life == Resting) && r.slots.Stamp(name) == string(stamp) {
			r.withdrawn(name, r.slots.Withdraw(name))
		}
		if err := r.table.Delete(goneUnder + name); err != nil {
			slog.Warn("a successor will take a slot away again", "service", name, "err", err)
		}
	}
	r.publisher.release()
	var names []string
	for name, e := range r.names.of {
		if e.life == Supervised {
			names = append(names, name)
		}
	}
	r.services.Published(names)
	if r.watch == nil {
		r.rescan()
	} else {
		go r.watch.again()
	}
}

// goes notes a slot that is to be taken away when the service directory is back.
func (r *Registry) goes(name, stamp string) {
	if err := r.table.Put(goneUnder+name, []byte(stamp)); err != nil {
		slog.Warn("a successor will not know that a slot is to be taken away", "service", name, "err", err)
	}
}

// Away says why the service directory is another one or unread; "": it is not.
func (r *Registry) Away() string { return r.directory.why() }
