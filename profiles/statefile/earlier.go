package statefile

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"

	"rlminit/internal/durable"
	"rlminit/service"
)

// Earlier is a directory with state files of services, as earlier versions wrote them. No
// file comes to it any more, so that it is listed once.
type Earlier struct {
	Path string // below the home directory, which each call is given
	Most int    // files that are listed

	mu     sync.Mutex
	listed bool
	names  map[string]bool
}

const suffix = ".json"

// Load returns what the file of a service says; nothing where there is none, or none that
// can be read.
func (e *Earlier) Load(home *durable.Dir, name string) service.Record {
	if !e.services(home)[name] {
		return service.Record{}
	}
	f, err := Read(home, path.Join(e.Path, name+suffix))
	if err != nil || f.Origin != service.Recorded {
		return service.Record{}
	}
	return service.Record{Origin: service.Recorded, Desired: f.Desired}
}

// Sweep removes the files of services that are known from elsewhere, and tells of each
// whether that has failed.
func (e *Earlier) Sweep(home *durable.Dir, known func(name string) (service.Intent, bool), tell func(error)) {
	for name := range e.services(home) {
		if _, is := known(name); is {
			tell(home.RemoveAll(path.Join(e.Path, name+suffix)))
		}
	}
}

// services are those that have a file.
func (e *Earlier) services(home *durable.Dir) map[string]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listed {
		return e.names
	}
	e.names = map[string]bool{}
	entries, err := home.ReadDir(e.Path, e.Most)
	e.listed = err == nil || errors.Is(err, fs.ErrNotExist) // else it is asked again
	for _, entry := range entries {
		if name, is := strings.CutSuffix(entry.Name, suffix); is {
			e.names[name] = true
		}
	}
	return e.names
}
