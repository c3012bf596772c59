package registry

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"rlminit/control"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/handover"
	"rlminit/supervise/settings"
	"rlminit/supervise/slots"
)

// Services is who runs services. Its methods may be called by any goroutine but
// its own loop.
type Services interface {
	// Define takes a definition into force: of a new service, or of one there is.
	Define(Proposal)
	// Remove ends a service for good. Registry.Gone is called when nothing is left
	// of it. Of one that is forgotten nothing is recorded any more.
	Remove(name, cause string, actor *uint32, forgotten bool)
	// Announce has others wait for services that are about to be defined, and
	// started. Withdraw follows when all of them were, or will not be.
	Announce(names []string)
	Withdraw(names []string)
	// Together has all that f removes and changes taken for one thing, in which each
	// is stopped after what depends on it.
	Together(f func())
	// Renew has what runs make way for what the proposal says: its directory is
	// another one.
	Renew(Proposal)
	// Alive is every service of which a process may exist.
	Alive() map[string]bool
	// Status is a service as status shows it; ok is false if there is none.
	Status(name string) (status control.Service, ok bool)
	// Plan says what an update to a definition would do to a service.
	Plan(name string, to service.Definition) control.Change
	// Recorded has what is seen of a service written to the volume again.
	Recorded(name string)
	// Await is the outcome of what was just defined: at once without wait, else
	// when it is known.
	Await(ctx context.Context, name string, changed bool, wait *control.Wait) control.Outcome
	// Vacated tells that a name is nobody's any more: its service and its slot are gone.
	Vacated(name string)
	// Find is the service that a person means by name, or the problem.
	Find(name string) (service string, err error)
}

// Volume is the volume with the profiles.
type Volume interface {
	// Store is nil where there is no volume, or it is another container's; Absent
	// says why.
	Store() *profiles.Store
	Absent() string
	// PriorExit is how the boot before ended: clean, killed, host, oom or unknown.
	PriorExit() string
	// Log is where a profile's log lies on it.
	Log(profile string) string
}

// Jobs is what runs for profiles beside their services.
type Jobs interface {
	// Vacate ends all that a profile has. Until release is called nothing begins.
	Vacate(profile, cause string) (release func())
	// Reserve has nothing begin of a profile, until release is called; or says what
	// the profile has.
	Reserve(profile, what string) (release func(), err error)
}

// Employ tells the registry of jobs, before it begins.
func (r *Registry) Employ(j Jobs) { r.jobs = j }

// vacateJobs ends the jobs and sessions of a profile that is to go.
func (r *Registry) vacateJobs(profile, cause string) (release func()) {
	if r.jobs == nil {
		return func() {}
	}
	return r.jobs.Vacate(profile, cause)
}

// Proposal is a definition that is to be supervised from now on.
type Proposal struct {
	Name        string
	Profile     string             // whose gateway it is; "": of none
	Value       service.Definition // without a fault
	Fingerprint string             // of its service.yaml; "": there is none
	Fault       string             // why there is none; the one before stays in force
	Ours        bool               // made by us of root's configuration and the volume
	Recorded    bool               // has a record on the volume

	Start   bool           // of a new service: wanted running
	Desired service.Intent // the recorded intent; IntentNone: as Start says
	Later   bool           // of a known service: what runs is restarted by who proposes it
	Cause   string         // of the transition
	Actor   *uint32

	source []byte // the service.yaml
}

// Ours is the proposal of a definition that the configuration or the volume has.
func Ours(d service.Definition) Proposal {
	source := service.Encode(d)
	return Proposal{
		Name: d.Name, Profile: d.Profile, Value: d, Fingerprint: fingerprint(source),
		Ours: true, Recorded: true, source: source,
	}
}

// Registry knows which services there are.
type Registry struct {
	services Services
	volume   Volume
	settings *settings.Settings
	slots    slots.Dir
	work     handover.BootWork
	hold     handover.Hold // and closes the descriptor when it is sent; a negative one: nothing any more
	watch    *watcher      // nil: nobody watches
	jobs     Jobs          // nil: there are none

	trouble atomic.Pointer[string] // why the volume's profiles could not be read; nil: they could

	mu      sync.Mutex
	queue   []func()
	wake    chan struct{} // nil: closed
	started bool          // the goroutine is there

	// What follows is the goroutine's alone.
	names   map[string]*entry // Invariant: none is Absent
	sources int               // Invariant: the sum of their sizes, in bytes
	again   time.Duration     // until the volume is looked at again; 0: it is not
}

// entry is what is known of a name.
type entry struct {
	life       Life
	profile    string
	recorded   bool   // has a record on the volume; false: put into the service directory by hand
	ours       bool   // what is in force is ours
	source     string // fingerprint of the definition in force; "": there is none
	size       int    // of it, in bytes
	configured string // fingerprint of our definition that was published last; "": none, or it could not be
	slot       string // fingerprint of what is in its slot, as far as we know; "": nothing
	fault      string // why what is in force is not what it should be; "": it is
	refused    string // fingerprint of the bytes in the slot that the fault is of; "": another fault

	intent service.Intent // of one at rest: what is wanted of it
	judged *judgement     // of one at rest: what came of compiling its definition; nil: nobody has

	unpublished bool // tier 1 holds the definition in force, for its slot could not be written

	gone chan struct{}   // closed when nothing is left of its service; nil: it is not leaving
	log  <-chan struct{} // closed when nothing more is written to its log; nil: nothing was
	over chan struct{}   // closed when the deletion of its profile is over; nil: there is none
}

// New is a registry that does nothing before Start.
func New(services Services, volume Volume, c *settings.Settings, dir slots.Dir, work handover.BootWork, hold handover.Hold) *Registry {
	return &Registry{
		services: services, volume: volume, settings: c, slots: dir, work: work, hold: hold,
		wake: make(chan struct{}, 1), names: map[string]*entry{},
	}
}

// Watch begins to hear of what others do in the service directory.
func (r *Registry) Watch() {
	r.slots.Sweep()
	r.watch = watchSlots(r.slots, func(name string) { r.post(func() { r.noticed(name) }) }, func() { r.post(r.rescan) })
}

// Start carries out first, and from then on what is asked for.
func (r *Registry) Start(first func()) {
	done := make(chan struct{})
	r.mu.Lock()
	r.queue = append([]func(){func() { first(); close(done) }}, r.queue...)
	if !r.started {
		go r.run(r.wake)
	}
	r.started = true
	r.nudge()
	r.mu.Unlock()
	<-done
}

// Close ends the registry, for one whose process goes on. Nothing is asked of it
// after that.
func (r *Registry) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.wake)
	r.wake = nil
}

// run is the goroutine. As a rule it lives as long as the process.
func (r *Registry) run(wake <-chan struct{}) {
	for range wake {
		for {
			r.mu.Lock()
			queue := r.queue
			r.queue = nil
			r.mu.Unlock()
			if len(queue) == 0 {
				break
			}
			for _, f := range queue {
				f()
			}
		}
	}
}

// post has f carried out some time. It never waits.
func (r *Registry) post(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, f)
	r.nudge()
}

// nudge wakes the goroutine. The caller holds r.mu.
func (r *Registry) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// ask has f carried out and waits until it was.
func (r *Registry) ask(f func()) {
	done := make(chan struct{})
	r.post(func() {
		defer close(done)
		f()
	})
	<-done
}

// Rescan looks at every slot, some time.
func (r *Registry) Rescan() { r.post(r.rescan) }

// Notice looks at a slot, now.
func (r *Registry) Notice(name string) { r.ask(func() { r.noticed(name) }) }

// Register publishes a definition of ours and has it supervised.
func (r *Registry) Register(p Proposal) { r.ask(func() { r.register(p) }) }

// Drop ends a service whose definition is gone.
func (r *Registry) Drop(name string) { r.ask(func() { r.drop(name) }) }

func (r *Registry) drop(name string) {
	if r.befall(name, Dropped) == Remove {
		if profile := r.names[name].profile; profile != "" {
			go func() { r.vacateJobs(profile, "its profile is gone")() }()
		}
		r.remove(name, "its definition is gone", nil, false)
	}
}

// Trouble says why the volume's profiles cannot be read; "" if they can.
func (r *Registry) Trouble() string {
	if why := r.trouble.Load(); why != nil {
		return *why
	}
	return ""
}

// Look compares volume and configuration with what there is, of the names or of
// all, and puts right what differs.
func (r *Registry) Look(names ...string) {
	r.ask(func() { r.look(names...) })
}

func (r *Registry) look(names ...string) {
	if err := r.reconcile(false, names...); err != nil {
		r.lookAgain(err)
	}
}

// entry is that of a name; a new one has yet to become more than Absent.
func (r *Registry) entry(name string) *entry {
	e := r.names[name]
	if e == nil {
		e = &entry{}
		r.names[name] = e
	}
	return e
}

// life is how far a name is.
func (r *Registry) life(name string) Life {
	if e := r.names[name]; e != nil {
		return e.life
	}
	return Absent
}

// befall brings a name on by an event, and returns what is to be done.
func (r *Registry) befall(name string, event Event) Action {
	next, action := Next(r.life(name), event)
	if next != Absent {
		r.entry(name).life = next
	} else if e := r.names[name]; e != nil {
		r.sources -= e.size
		delete(r.names, name)
	}
	return action
}

// remove tells the service of a name to end.
func (r *Registry) remove(name, cause string, actor *uint32, forgotten bool) {
	r.names[name].gone = make(chan struct{})
	r.services.Remove(name, cause, actor, forgotten)
}

// Gone tells that nothing is left of a service. log is closed when nothing more
// is written to its log; nil: it has none. The loop calls it, and does not wait.
func (r *Registry) Gone(name string, log <-chan struct{}) {
	r.post(func() {
		e := r.entry(name)
		before := *e
		e.log, e.gone = log, nil
		r.forget(e)
		r.published(name, e)
		r.vacate(name, before.slot, r.befall(name, Gone))
		if before.gone != nil {
			close(before.gone)
		}
	})
}

// forget leaves of an entry what concerns the name, and not its service.
func (r *Registry) forget(e *entry) {
	r.sources -= e.size
	*e = entry{life: e.life, log: e.log, over: e.over, unpublished: e.unpublished}
}

// vacate takes away the slot of a service that is gone, but for one that
// somebody has put in its place meanwhile. Nobody has looked at that yet: what
// happened to the slot was no news as long as the service was leaving.
func (r *Registry) vacate(name, slot string, action Action) {
	if action == Nothing {
		return
	}
	withdraw := r.slots.Withdraw
	source, err := r.slots.Read(name, slots.DefinitionFile, slots.DefinitionMax)
	if action == Clear || err == nil && slot != "" && fingerprint(source) != slot {
		withdraw = r.slots.Clear // but what somebody has put there
	}
	if err := withdraw(name); err != nil {
		slog.Warn("cannot take a slot away", "service", name, "err", err)
	} else {
		r.services.Vacated(name) // not before: a slot that no successor knew of would be taken for a stranger's
		r.noticed(name)
	}
	if action == Renew {
		r.look(name)
	}
}

const fingerprintBytes = sha256.Size

// gone stands for a definition that was in a slot and is not known any more.
var gone = string(make([]byte, fingerprintBytes))

// fingerprint tells a definition from others.
func fingerprint(source []byte) string {
	sum := sha256.Sum256(source)
	return string(sum[:])
}

// publishAgain is how long a slot that could not be written waits for the next try.
const publishAgain = 5 * time.Second

// register publishes a proposal of ours and has it supervised. Where the service
// before it is on its way out, that comes first.
func (r *Registry) register(p Proposal) {
	if r.befall(p.Name, Defined) != Publish {
		return
	}
	e := r.entry(p.Name)
	if err := r.publish(e, p); err != nil {
		// What is in force is what was asked for; the slot, a copy, follows.
		slog.Error("cannot publish a service; tried again until it works", "service", p.Name, "err", err)
		e.configured = ""
	}
	r.define(e, p)
}

// define has a proposal supervised.
func (r *Registry) define(e *entry, p Proposal) {
	fresh := e.source == "" && e.fault == ""
	e.fault, e.ours, e.recorded = p.Fault, p.Ours, e.recorded || p.Recorded
	if p.Fault == "" {
		r.sources += len(p.source) - e.size
		e.source, e.size, e.refused = p.Fingerprint, len(p.source), ""
	}
	if p.Profile != "" {
		e.profile = p.Profile
	}
	r.services.Define(p)
	if fresh {
		r.watch.slot(p.Name)
	}
}
