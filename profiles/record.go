package profiles

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
	"rlminit/internal/durable"
	"rlminit/service"
)

// Subject is what a record is about: a profile's gateway or a static service.
type Subject struct {
	Profile string
	Service string // of a static service; "" for a profile
}

// Gateway is the subject of a profile's record.
func Gateway(profile string) Subject { return Subject{Profile: profile} }

// Static is the subject of a static service's record.
func Static(name string) Subject { return Subject{Service: name} }

// SubjectOf is the subject of a service's record; profile is "" for a static one.
func SubjectOf(name, profile string) Subject {
	if profile != "" {
		return Gateway(profile)
	}
	return Static(name)
}

// String is the name of the service, as a person writes it.
func (of Subject) String() string {
	if of.Service != "" {
		return of.Service
	}
	return GatewayName(of.Profile)
}

func (of Subject) key() string {
	if of.Service != "" {
		return "service/" + of.Service
	}
	return "profile/" + of.Profile
}

// file is the state file's path, relative to the home directory.
func (of Subject) file(s *Settings) string {
	if of.Service != "" {
		return servicesDir + "/" + of.Service + ".json"
	}
	return below(dirOf(of.Profile), s.StateFile)
}

// Seen is what was last seen of a service.
type Seen struct {
	State      service.Seen
	PID        int
	StartTime  uint64 // clock ticks since boot, proc_pid_stat(5)
	ExitReason string
	Restarts   int
}

// Records keeps what is wanted, and was seen, of each gateway and static service.
// What is wanted is in the ledger, and the state files are copies; without one the
// files are all there is.
//
// Invariant: with a ledger, intents is not used. Without one it has what was read
// from a file or written there, of each subject that was. Copies has nothing without a
// ledger, and only its subject's lock lets one be relied on. Owed has nothing without a
// ledger either: there a command waits for the file.
type Records struct {
	tree   *tree
	ports  *ports
	ledger atomic.Pointer[ledger]

	mu      sync.Mutex
	intents map[Subject]service.Intent
	copies  map[Subject][]byte // what a state file had when it was looked at, or written
	owed    map[Subject]bool   // whose state file does not have yet what a command has recorded
}

// LoadService returns the record of a static service.
func (rec *Records) LoadService(name string) (service.Record, error) {
	of := Static(name)
	defer rec.tree.names.lock(of.key())()
	f, err := readRecord(rec.tree.home, of.file(rec.tree.settings.Load()))
	if err != nil {
		return service.Record{}, err
	}
	return rec.remember(of, f.Record), nil
}

// SaveIntent records what a person wants, durably: when it returns nil, a power
// cut does not undo it. With service.IntentNone it keeps the recorded intent
// and makes the rest of the record (the port) durable. What is recorded already
// is not written again: a full disk keeps nobody from a restart.
func (rec *Records) SaveIntent(of Subject, intent service.Intent) error {
	if rec.ledger.Load() != nil {
		return rec.TakeOver(map[Subject]service.Intent{of: intent}, []Subject{of})
	}
	defer rec.tree.names.lock(of.key())()
	if rec.saved(of, intent) {
		return nil
	}
	return rec.update(of, durably, func(f *stateFile) {
		if intent != service.IntentNone {
			f.Desired = intent
		}
		if f.Seen == service.SeenNone {
			f.Seen = service.SeenStopped
		}
	})
}

// saved tells whether the record on the volume is complete and has the intent
// that this Store has saved. The caller holds the subject's lock.
func (rec *Records) saved(of Subject, intent service.Intent) bool {
	rec.mu.Lock()
	known := rec.intents[of]
	rec.mu.Unlock()
	if intent == service.IntentNone || known != intent {
		return false
	}
	f, err := readRecord(rec.tree.home, of.file(rec.tree.settings.Load()))
	return err == nil && f.Origin == service.Recorded && f.Desired == intent &&
		(of.Service != "" || f.Port == rec.ports.of(of.Profile))
}

// SaveSeen records the states in which services were seen, in at most so many errands at
// once, and returns an error for each. The intents are those of the ledger, whatever the order of calls. Each is written
// whole, but a power cut may bring the state before it back.
func (rec *Records) SaveSeen(of []Subject, seen []Seen, most int) []error {
	return rec.updateEach(of, ofSeen, most, func(i int, f *stateFile) {
		f.Seen, f.PID, f.StartTime = seen[i].State, seen[i].PID, seen[i].StartTime
		f.ExitReason, f.Restarts = seen[i].ExitReason, seen[i].Restarts
	})
}

// update reads the state file, changes it and writes it, as COPIES.md says. Of the
// intent what this Store knows counts, not what a gateway may have written
// meanwhile. The caller holds the subject's lock.
func (rec *Records) update(of Subject, why reason, change func(*stateFile)) error {
	settings := rec.tree.settings.Load()
	if of.Service == "" && settings.Marker == "" {
		return refuse(ErrNotFound, "no profile %s: the configuration has no gateway section", document.Quote(of.Profile))
	}
	file := of.file(settings)
	for {
		err := rec.rewrite(of, file, why, change)
		if !errors.Is(err, durable.ErrChanged) { // else there is something else to be decided about
			return err
		}
	}
}

// rewriting is what becomes of one state file.
type rewriting struct {
	of       Subject
	file     string
	why      reason
	was      []byte // what it has
	recalled bool   // was is what was remembered, and nobody has looked
	before   stateFile
	now      stateFile
	data     []byte // of now; nil: there is nothing to write
	how      durable.Write
}

// rewrite is update once. ErrChanged: somebody has written there at the same time, or
// since the file was looked at, and it is not what was remembered.
func (rec *Records) rewrite(of Subject, file string, why reason, change func(*stateFile)) error {
	w := rec.over(of, why, change)
	if w == nil {
		w = &rewriting{of: of, file: file, why: why}
		f, was, err := readState(rec.tree.home, file)
		if err != nil {
			return err
		}
		w.was = was
		if err := rec.prepare(w, f, change); err != nil {
			return err
		}
	}
	if w.data == nil {
		return nil
	}
	err := rec.tree.home.WriteFile(file, w.data, w.how)
	if of.Service != "" && errors.Is(err, fs.ErrNotExist) { // the first of them
		if err = rec.tree.home.MkdirAll(path.Dir(file), dirMode); err == nil {
			err = rec.tree.home.WriteFile(file, w.data, w.how)
		}
	}
	err = rec.wrote(w, err)
	if err != nil && w.recalled { // whatever it is: a look tells
		return durable.ErrChanged
	}
	return err
}

// prepare decides what a file that is f is to have.
func (rec *Records) prepare(w *rewriting, f stateFile, change func(*stateFile)) error {
	was := f.Record // what the file says
	known := rec.remember(w.of, was)
	if w.why == ofSeen && rec.owes(w.of) {
		w.why = ofIntent
	}
	verdict := rec.weigh(w.why, was, known)
	if w.recalled && verdict != writeOver {
		return durable.ErrChanged
	}
	switch verdict {
	case leaveAlone:
		if was.Origin == service.Corrupt {
			return refuse(ErrBroken, "%s: %s; the next command puts it right", rec.tree.home.Path(w.file), f.Fault)
		}
		return nil
	case setAside:
		if err := rec.keepAside(w.file, f.Fault); err != nil {
			return err
		}
		f = stateFile{version: 1}
		known = rec.remember(w.of, f.Record)
	}
	f.Record = known
	w.before = f
	change(&f)
	if port := rec.ports.of(w.of.Profile); w.of.Service == "" && port != 0 {
		f.Port = port
	}
	if was.Profile == w.of.Profile && same(was, f.Record) && w.why != durably {
		if w.recalled && w.why == ofIntent {
			return durable.ErrChanged // what counts is what it says now
		}
		rec.keep(w.of, w.was, w.why)
		rec.settle(w.of, was.Desired)
		return nil
	}
	f.Profile, f.UpdatedAt = w.of.Profile, rec.tree.now()
	w.how = durable.Write{Mode: 0o640, Names: w.why == durably, Loose: rec.ledger.Load() != nil}
	if w.recalled || w.why == ofSeen && w.how.Loose {
		w.how.Over, w.how.Was = true, w.was
	}
	w.now, w.data = f, f.encode()
	return nil
}

// wrote notes what has become of the writing, and returns err.
func (rec *Records) wrote(w *rewriting, err error) error {
	if err != nil {
		if w.why == durably {
			rec.takeBack(w.file, w.before)
		}
		return err
	}
	rec.keep(w.of, w.data, w.why)
	rec.settle(w.of, w.now.Desired)
	if w.now.Desired != service.IntentNone {
		rec.mu.Lock()
		rec.intents[w.of] = w.now.Desired
		rec.mu.Unlock()
	}
	return nil
}

// owes tells whether a subject's state file is yet to say what a command has recorded.
func (rec *Records) owes(of Subject) bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.owed[of]
}

// settle notes that a subject's state file says that so much is wanted. What was
// recorded since is owed still.
func (rec *Records) settle(of Subject, says service.Intent) {
	l := rec.ledger.Load()
	if l == nil {
		return
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if known, _ := l.known(of); known != says {
		return
	}
	if delete(rec.owed, of); len(rec.owed) == 0 {
		rec.owed = nil
	}
}

// recall is what a state file had when it was looked at last, so that a copy over it
// takes no look. Whoever is told that it has changed looks: it is recalled once.
func (rec *Records) recall(of Subject, why reason) (text []byte, ok bool) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	text, ok = rec.copies[of]
	delete(rec.copies, of)
	return text, ok && why != durably
}

// keep has recall know what a state file has, in copies that are large for none.
func (rec *Records) keep(of Subject, text []byte, why reason) {
	if why == durably || rec.ledger.Load() == nil || len(text) == 0 || len(text) > largeCopy {
		return
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.copies[of] = text
}

// largeCopy is how long a state file that is kept in memory may be, in bytes: ours have
// a few hundred.
const largeCopy = 1 << 10

// same tells whether a file has all of a record: a boot with thousands of stopped
// profiles has nothing to write about them.
func same(file, record service.Record) bool {
	record.Said, record.UpdatedAt = file.Said, file.UpdatedAt
	return file.Origin == service.Recorded && file == record
}

// takeBack undoes, as well as may be, a write that failed only when its new name
// was to be made durable: who is told that nothing was done shall not find later
// that it was.
func (rec *Records) takeBack(file string, before stateFile) {
	now, err := readRecord(rec.tree.home, file)
	switch {
	case err != nil || now.Desired == before.Desired:
		return
	case before.Origin == service.Recorded:
		err = rec.tree.home.WriteFile(file, before.encode(), durable.Write{Mode: 0o640})
	default:
		err = rec.tree.home.RemoveAll(file)
	}
	if err != nil {
		rec.tree.told.say(fmt.Sprintf("%v; it may have what a command asked for that was refused", err))
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

// readRecord is readState without the text.
func readRecord(dir *durable.Dir, file string) (stateFile, error) {
	f, _, err := readState(dir, file)
	return f, err
}

// readState reads a state file below dir. What cannot be used is a record too,
// a corrupt one; an error is the system's (EIO, too many open files), and says
// nothing about the file.
func readState(dir *durable.Dir, file string) (f stateFile, text []byte, err error) {
	data, err := dir.ReadFile(file, maxStateFile)
	f, err = understood(data, err)
	return f, data, err
}

// understood is what was read of a state file, or why it could not be, as a record.
func understood(data []byte, err error) (stateFile, error) {
	f := stateFile{version: 1}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case errors.Is(err, durable.ErrNotRegular), errors.Is(err, durable.ErrTooBig),
		errors.Is(err, unix.ELOOP), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		f.Origin, f.Fault = service.Corrupt, durable.Cause(err)
		return f, nil
	case err != nil:
		return f, err
	}
	f, err = parseState(data)
	f.Origin = service.Recorded
	if err != nil {
		f = stateFile{version: 1}
		f.Origin, f.Fault = service.Corrupt, "corrupt: "+err.Error()
	}
	return f, nil
}

// readImport reads an application's state file. It is never moved or written.
func (rec *Records) readImport(dir *durable.Dir, file string) service.Record {
	f, err := readRecord(dir, file)
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

// remember puts the intent that this Store knows into a record, or learns it
// from there. What the journal knows counts over whatever became of the file.
func (rec *Records) remember(of Subject, r service.Record) service.Record {
	if l := rec.ledger.Load(); l != nil {
		if known, ok := l.known(of); ok {
			if r.Origin != service.Recorded {
				r = service.Record{Origin: service.Recorded, Said: service.IntentNone}
			} else if r.Desired != known {
				r.Said = r.Desired
			}
			r.Desired = known
		}
		return r
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if known, ok := rec.intents[of]; ok && r.Origin != service.Corrupt {
		r.Desired = known
	} else if r.Desired != service.IntentNone && r.Origin == service.Recorded {
		rec.intents[of] = r.Desired
	}
	return r
}

// keepsIntent has a profile's state file say what the journal has, durably: in the trash,
// and under a name that is not recorded yet, nobody else has it. A disk on which it cannot
// be written keeps nobody from deleting.
func (rec *Records) keepsIntent(profile string) {
	of, l := Gateway(profile), rec.ledger.Load()
	if l == nil {
		return // it is the record
	}
	f, err := readRecord(rec.tree.home, of.file(rec.tree.settings.Load()))
	if known, ok := l.known(of); err == nil && ok && f.Desired != known {
		err = rec.update(of, durably, settled)
	}
	if err != nil {
		rec.tree.told.once(fmt.Sprintf("%v; it may say of %s what was wanted before the last command on it", err, profile))
	}
}

// forget drops what is known of a profile that is gone.
func (rec *Records) forget(profile string) {
	rec.ports.release(profile)
	rec.mu.Lock()
	delete(rec.intents, Gateway(profile))
	delete(rec.copies, Gateway(profile))
	delete(rec.owed, Gateway(profile))
	rec.mu.Unlock()
}

// learn remembers an intent that has just been saved.
func (rec *Records) learn(name string, intent service.Intent) {
	rec.mu.Lock()
	rec.intents[Gateway(name)] = intent
	rec.mu.Unlock()
}
