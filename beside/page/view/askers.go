package view

import (
	"os"
	"sync"

	"rlminit/control"
)

// askersKept is of how many operations the page remembers who has asked for them: more
// than the supervisor remembers operations.
const askersKept = 256

// askers are the names of those who have asked for operations on this page. The supervisor
// knows the page alone; what an earlier run of the page was asked for is in its log.
type askers struct {
	mu    sync.Mutex
	names map[uint64]string // by the operation's id
	ids   []uint64          // the oldest first
}

func (a *askers) note(id uint64, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.names == nil {
		a.names = map[uint64]string{}
	}
	if len(a.ids) == askersKept {
		delete(a.names, a.ids[0])
		a.ids = a.ids[1:]
	}
	a.names[id], a.ids = name, append(a.ids, id)
}

// of says who has asked for an operation: the name, if it was asked for here by somebody
// who has one, or what is known of the uid.
func (a *askers) of(id uint64, uid uint32) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if name := a.names[id]; name != "" && name != "page" && uid == uint32(os.Geteuid()) {
		return name + " on " + who(uid)
	}
	return who(uid)
}

// bodies are records as they are shown, the latest first. What an operation has caused, the
// one has asked for who has asked for the operation.
func (a *askers) bodies(all []control.Event) []eventBody {
	bodies := make([]eventBody, len(all))
	asked := map[string]string{} // by the service: who has asked for the latest operation on it
	for i, e := range all {
		b, f := a.body(e)
		if f.Operation > 0 && f.Actor.UID != nil && *f.Actor.UID == uint32(os.Geteuid()) {
			for _, name := range f.Services {
				asked[name] = b.By
			}
		}
		if by := asked[e.Service]; by != "" && e.Actor != nil && *e.Actor == uint32(os.Geteuid()) {
			b.By = by
		}
		bodies[len(all)-1-i] = b
	}
	return bodies
}
