package profiles

import (
	"fmt"
	"path"
	"sync"
	"sync/atomic"

	"rlminit/internal/document"
	"rlminit/internal/durable"
	"rlminit/profiles/ports"
	"rlminit/profiles/statefile"
	"rlminit/service"
)

// Seen is the observed state of a service.
type Seen struct {
	State      service.Seen
	PID        int
	StartTime  uint64 // clock ticks since boot, proc_pid_stat(5)
	ExitReason string
	Restarts   int
	Started    service.Start // of the definition that its latest run was started with; "": unknown
}

// Records keeps the desired state of each service, in the journal, and writes the state
// files of profiles, which are copies of that with the observed state: COPIES.md.
type Records struct {
	tree   *tree
	ports  *ports.Book
	ledger atomic.Pointer[ledger]

	earlier *statefile.Earlier // of services

	mu     sync.Mutex
	others map[string]statefile.File // by profile: of a file that has more than we write, what is not ours
}

// stateFileOf is where a profile's state file is, relative to the home directory.
func (v *tree) stateFileOf(profile string) string {
	return below(dirOf(profile), v.settings.Load().StateFile)
}

// LoadService returns the record of a service of the configuration: the one that the
// journal has, or else the file that a volume has where earlier versions wrote one.
func (rec *Records) LoadService(name string) service.Record {
	if intent, ok := rec.ledger.Load().known(name); ok {
		return service.Record{Origin: service.Recorded, Desired: intent}
	}
	return rec.earlier.Load(rec.tree.home, name)
}

// sweepServices removes the files of earlier versions whose services the journal knows.
func (rec *Records) sweepServices() {
	rec.earlier.Sweep(rec.tree.home, rec.ledger.Load().known, rec.tree.told.failure)
}

// copiesTogether is how many state files are written by one request.
const copiesTogether = 32

// SaveSeen writes the state files of profiles, with the observed states of their services, in
// at most so many requests at once, and returns an error for each. What a file had is
// not looked at. A power cut may bring it back.
func (rec *Records) SaveSeen(of []string, seen []Seen, most int) []error {
	failures := make([]error, len(of))
	inChunks(len(of), copiesTogether, most, func(from, to int) {
		rec.saveTogether(of[from:to], seen[from:to], failures[from:to])
	})
	return failures
}

// saveTogether is SaveSeen of some. Those that cannot be written together with others,
// or with which somebody is busy, follow one after the other.
func (rec *Records) saveTogether(of []string, seen []Seen, failures []error) {
	var steps durable.Steps
	var at, alone []int
	var unlocks []func()
	for i, name := range of {
		unlock, free := rec.tree.names.tryLock(name)
		if !free {
			alone = append(alone, i)
			continue
		}
		unlocks = append(unlocks, unlock)
		text, err := rec.seenText(name, seen[i])
		if failures[i] = err; text != nil {
			steps.WriteFile(rec.tree.stateFileOf(name), text, copyMode)
			at = append(at, i)
		}
	}
	if len(steps) > 0 {
		for k, err := range steps.WriteFiles(rec.tree.home) {
			if failures[at[k]] = err; err != nil {
				alone = append(alone, at[k])
			}
		}
	}
	for _, unlock := range unlocks {
		unlock()
	}
	for _, i := range alone {
		unlock := rec.tree.names.lock(of[i])
		text, err := rec.seenText(of[i], seen[i])
		if text != nil {
			_ = rec.restate(of[i], copyMode) // which keeps aside what is no file
			err = rec.tree.home.WriteFile(rec.tree.stateFileOf(of[i]), text, copyMode)
		}
		failures[i] = err
		unlock()
	}
}

// copyMode is how a state file is written as a rule: another one follows, and the
// journal has what must not be lost.
var copyMode = durable.Write{Mode: 0o640, Loose: true}

// seenText is the text of a profile's state file. It is nil of one that the journal
// does not know, whose file has its desired state. The caller has the name's lock.
func (rec *Records) seenText(name string, seen Seen) ([]byte, error) {
	if rec.tree.settings.Load().Marker == "" {
		return nil, refuse(ErrNotFound, "no profile %s: the configuration has no gateway section", document.Quote(name))
	}
	intent, ok := rec.ledger.Load().known(GatewayName(name))
	if !ok {
		return nil, nil
	}
	rec.mu.Lock()
	f, has := rec.others[name]
	rec.mu.Unlock()
	if !has {
		f.Version = 1
	}
	f.Record = service.Record{
		Profile: name, Desired: intent, Seen: seen.State, PID: seen.PID, StartTime: seen.StartTime,
		Port: rec.ports.Of(name), ExitReason: seen.ExitReason, Restarts: seen.Restarts, Started: seen.Started, UpdatedAt: rec.tree.now(),
	}
	return f.Encode(), nil
}

// restate writes the record into a profile's state file, and leaves the observed state as
// it is there: for a boot, and where the profile is made, renamed or deleted. One that cannot
// be used is kept aside. The caller has the name's lock.
func (rec *Records) restate(name string, how durable.Write) error {
	file := rec.tree.stateFileOf(name)
	f, err := statefile.Read(rec.tree.home, file)
	if err != nil {
		return err
	}
	if f.Origin == service.Corrupt {
		if err := rec.keepAside(file, f.Fault); err != nil {
			return err
		}
		f = statefile.File{Version: 1}
	}
	was := f.Record
	if intent, ok := rec.ledger.Load().known(GatewayName(name)); ok {
		f.Desired = intent
	}
	if f.Seen == service.SeenNone {
		f.Seen = service.SeenStopped
	}
	if port := rec.ports.Of(name); port != 0 {
		f.Port = port
	}
	if f.Profile = name; f.Record == was && was.Origin == service.Recorded {
		return nil
	}
	f.UpdatedAt = rec.tree.now()
	return rec.tree.home.WriteFile(file, f.Encode(), how)
}

// restated is restate of several, which delays and fails nothing.
func (rec *Records) restated(names []string) {
	inChunks(len(names), 64, len(names), func(from, to int) {
		for _, name := range names[from:to] {
			unlock := rec.tree.names.lock(name)
			rec.tree.copied(rec.restate(name, copyMode))
			unlock()
		}
	})
}

// copied says why the journal's state could not be copied.
func (v *tree) copied(err error) {
	if err != nil {
		v.told.once(err.Error() + "; the journal has what is wanted of it, and counts")
	}
}

// keepAside moves a file that cannot be used out of the way.
func (rec *Records) keepAside(file, fault string) error {
	kept, err := moveNew(rec.tree.home, file, rec.tree.dated(file+".corrupt-"))
	if err != nil {
		return err
	}
	rec.tree.told.say(fmt.Sprintf("%s: %s; it is kept as %s", rec.tree.home.Path(file), fault, path.Base(kept)))
	return nil
}

// readImport reads an application's state file. It is never moved or written.
func (rec *Records) readImport(dir *durable.Dir, file string) service.Record {
	f, err := statefile.Read(dir, file)
	switch {
	case err != nil:
		return service.Record{Origin: service.Corrupt, Fault: file + ": " + err.Error()}
	case f.Origin == service.Corrupt:
		f.Fault = file + ": " + f.Fault
	case f.Origin == service.Recorded:
		f.Origin, f.Port = service.Imported, 0
	}
	return f.Record
}

// known is the record of a profile whose state file says f: the journal's state counts
// over whatever became of the file.
func (rec *Records) known(name string, f statefile.File) service.Record {
	rec.mu.Lock()
	if f.Version > 1 || len(f.Others) > 0 {
		rec.others[name] = statefile.File{Version: f.Version, Others: f.Others}
	} else if f.Origin == service.Recorded {
		delete(rec.others, name)
	}
	rec.mu.Unlock()
	r := f.Record
	if intent, ok := rec.ledger.Load().known(GatewayName(name)); ok {
		if r.Origin != service.Recorded {
			r = service.Record{Origin: service.Recorded, Fault: r.Fault}
		} else if r.Desired != intent {
			r.Said = r.Desired
		}
		r.Desired = intent
	}
	return r
}

// keepsIntent writes the journal's state into a profile's state file: in the trash, and
// under a name that is not recorded yet, nobody else has it. A disk on which it cannot
// be written keeps nobody from deleting.
func (rec *Records) keepsIntent(profile string) {
	if _, ok := rec.ledger.Load().known(GatewayName(profile)); !ok {
		return // the file is the record
	}
	if err := rec.restate(profile, durable.Write{Mode: 0o640, Names: true}); err != nil {
		rec.tree.told.once(fmt.Sprintf("%v; it may say of %s what was wanted before the last command on it", err, profile))
	}
}

// forget drops the record of a profile that is gone.
func (rec *Records) forget(profile string) {
	rec.ports.Release(profile)
	rec.mu.Lock()
	delete(rec.others, profile)
	rec.mu.Unlock()
}
