package registry

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"slices"
	"sync/atomic"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/inbox"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/handover"
	"rlminit/supervise/settings"
	"rlminit/supervise/slots"
)

// Services runs services. Its methods may be called by any goroutine but
// its own loop.
type Services interface {
	// Define takes definitions into force, of new services and of those there are.
	// Nothing is decided before all are. Services that are to run are on their way when it returns.
	Define([]Proposal)
	// Published tells that services have slots, where their status can be written.
	Published(names []string)
	// Remove ends a service for good. Registry.Gone is called when nothing is left
	// of it. Of one that is forgotten nothing is recorded any more.
	Remove(name, cause string, actor *uint32, forgotten bool)
	// Announce has others wait for services that are about to be defined, and
	// started. Withdraw follows when all of them were, or will not be.
	Announce(names []string)
	Withdraw(names []string)
	// Together has all that f removes and changes taken for one act, where each
	// is stopped after what depends on it.
	Together(f func())
	// Renew has what runs make way for what the proposal says: its directory is
	// another one.
	Renew(Proposal)
	// Follow has services be as is recorded of them on a volume that was taken over;
	// a person's command on one before that is recorded in its place.
	Follow(names []string)
	// Alive are the services that may have a process.
	Alive() map[string]bool
	// Status is a service as status shows it; ok is false if there is none.
	Status(name string) (status control.Service, ok bool)
	// Plan says what an update to a definition would do to a service.
	Plan(name string, to *service.Definition) control.Change
	// Recorded has the observed state of a service written to the volume again.
	Recorded(name string)
	// Await is the outcome of a new definition: at once without wait, else
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
	// Unknown says why nothing can be said of the volume that a predecessor had taken:
	// then there is no store, and what runs goes on.
	Unknown() error
	// PriorExit is how the boot before ended: clean, killed, host, oom or unknown.
	PriorExit() string
}

// Proposal is a definition that is to be supervised from now on.
type Proposal struct {
	Name        string
	Profile     string              // whose gateway it is; "": of none
	Kind        string              // of that gateway, as far as the profile says it
	Value       *service.Definition // without a fault
	Fingerprint string              // of its service.yaml; "": there is none
	Fault       string              // why there is none; the one before stays in force
	Denied      string              // of a fault that is the owner of its files: what is to be said of all such; "": it is another
	Ours        bool                // made by us of root's configuration and the volume
	Recorded    bool                // has a record on the volume

	Start   bool           // of a new service: wanted running
	Desired service.Intent // the recorded intent; IntentNone: as Start says
	Later   bool           // of a known service: the proposer restarts its process
	Cause   string         // of the transition
	Actor   *uint32

	source []byte // the service.yaml
}

// Ours is the proposal of a definition that the configuration or the volume has.
func Ours(d *service.Definition) Proposal {
	source := service.Encode(d)
	return Proposal{
		Name: d.Name, Profile: d.Profile, Value: d, Fingerprint: fingerprint(source),
		Ours: true, Recorded: true, source: source,
	}
}

// usesSlot tells whether a start may need the slot before it is published: secrets and the
// notify socket are in it, and walls have a door to it. A profile's secrets are not in its
// definition.
func (p Proposal) usesSlot() bool {
	d := p.Value
	return p.Fault == "" && (p.Profile != "" || len(d.Secrets) > 0 || d.Isolation.Wanted() || d.NotifySocket())
}

// ofProfile is the proposal of a profile: of its definition, or of the fault of that.
func ofProfile(p profiles.Profile, c *config.Config) Proposal {
	d, err := p.Definition(c)
	if err != nil {
		return Proposal{Name: p.Service(), Profile: p.Name, Kind: p.Kind(), Fault: profiles.Reason(err), Ours: true, Recorded: true}
	}
	return Ours(d)
}

// Registry knows which services there are: it brings each name on by what befalls it,
// and has done what follows.
type Registry struct {
	Profiles *Profiles
	AtRest   *AtRest

	services Services
	volume   Volume
	settings *settings.Settings
	slots    slots.Dir
	table    *handover.Table // the checkpoint
	watch    *watcher        // nil: nobody watches

	queue     inbox.Work  // the goroutine, which owns every name, and its work
	started   atomic.Bool // the goroutine is there
	names     names
	trouble   trouble // of the volume's profiles
	directory directory
	surveyor  surveyor
	reader    reader
	publisher publisher
}

// New is a registry that does nothing before Start.
func New(services Services, volume Volume, c *settings.Settings, dir slots.Dir, table *handover.Table) *Registry {
	r := &Registry{
		services: services, volume: volume, settings: c, slots: dir, table: table,
		queue: inbox.NewWork(), names: names{of: map[string]*entry{}},
	}
	r.Profiles = &Profiles{registry: r, services: services, volume: volume, settings: c}
	r.trouble = trouble{
		queue: r.queue, try: r.takeUp,
		says: "the profiles cannot be read; that is tried again until they can", saysAgain: "the profiles can be read now",
	}
	r.directory.trouble = trouble{
		queue: r.queue, try: func() { r.there() },
		says:      "the service directory is not as it was; what runs goes on, and it is looked at again until it is",
		saysAgain: "the service directory is as it was again",
	}
	r.surveyor = surveyor{services: services, volume: volume, table: table, names: &r.names}
	r.reader = reader{slots: dir, settings: c, volume: volume, names: &r.names}
	r.publisher = publisher{queue: r.queue, services: services, slots: dir, table: table, names: &r.names, there: r.there}
	r.AtRest = &AtRest{queue: r.queue, volume: volume, settings: c, names: &r.names, register: r.register}
	return r
}

// Start carries out first, and then the requests.
func (r *Registry) Start(first func()) {
	done := make(chan struct{})
	r.queue.PutFirst(func() { first(); close(done) })
	if r.started.CompareAndSwap(false, true) {
		go r.queue.Run()
	}
	<-done
}

// Close ends the registry, for one whose process goes on. Nothing is asked of it
// after that.
func (r *Registry) Close() { r.queue.Close() }

// Watch begins to hear of what others do in the service directory.
func (r *Registry) Watch() {
	r.known()
	r.slots.Sweep()
	r.watch = watchSlots(r.slots, func(name string) { r.queue.Do(func() { r.noticed(name) }) }, func() { r.queue.Do(r.rescan) })
}

// Settle publishes what Boot has brought into force, and returns when all is done that was
// to be done soon.
func (r *Registry) Settle() { r.queue.Ask(r.publisher.release) }

// Rescan looks at every slot, some time.
func (r *Registry) Rescan() { r.queue.Do(r.rescan) }

// Notice looks at a slot, now.
func (r *Registry) Notice(name string) { r.queue.Ask(func() { r.noticed(name) }) }

// Register publishes a definition of ours and has it supervised.
func (r *Registry) Register(p Proposal) { r.queue.Ask(func() { r.register(p) }) }

// Drop ends a service whose definition is gone.
func (r *Registry) Drop(name string) { r.queue.Ask(func() { r.drop(name) }) }

func (r *Registry) drop(name string) {
	if r.names.befall(name, Dropped) == Remove {
		if profile := r.names.of[name].profile; profile != "" {
			go func() { r.Profiles.vacateJobs(profile, "its profile is gone")() }()
		}
		r.remove(name, "its definition is gone", nil, false)
	}
}

// Trouble says why the volume's profiles cannot be read; "" if they can.
func (r *Registry) Trouble() string { return r.trouble.why() }

// Look compares volume and configuration with what there is, of the names or of
// all, and puts right what differs.
func (r *Registry) Look(names ...string) {
	r.queue.Ask(func() { r.look(names...) })
}

func (r *Registry) look(names ...string) {
	if err := r.reconcile(false, names...); err != nil {
		r.trouble.lookAgain(err)
	}
}

// remove tells the service of a name to end.
func (r *Registry) remove(name, cause string, actor *uint32, forgotten bool) {
	r.names.of[name].gone = make(chan struct{})
	r.services.Remove(name, cause, actor, forgotten)
}

// Gone tells that nothing is left of a service. log is closed when nothing more
// is written to its log; nil: it has none. The loop calls it, and does not wait.
func (r *Registry) Gone(name string, log <-chan struct{}) {
	r.queue.Do(func() {
		e := r.names.entry(name)
		before, away := *e, !r.there()
		if away {
			r.goes(name, before.slot)
		}
		e.log, e.gone = log, nil
		r.names.forget(e)
		r.publisher.forget(name)
		r.vacate(name, before.slot, away, r.names.befall(name, Gone))
		if before.gone != nil {
			close(before.gone)
		}
	})
}

// vacate takes away the slot of a service that is gone, but for one that
// somebody has put in its place meanwhile. Nobody has looked at that yet: what
// happened to the slot was no news as long as the service was leaving. With away there is no
// service directory now, and it goes later.
func (r *Registry) vacate(name, slot string, away bool, action Action) {
	if action == Nothing {
		return
	}
	withdraw := r.slots.Withdraw
	if stamp := r.slots.Stamp(name); action == Clear || stamp != "" && slot != "" && stamp != slot {
		withdraw = r.slots.Clear // but what somebody has put there
	}
	if away {
		withdraw = func(string) error { return nil }
	}
	if r.withdrawn(name, withdraw(name)) {
		r.services.Vacated(name) // not before: a slot that no successor knew of would be taken for a stranger's
		r.noticed(name)
	}
	if action == Renew {
		r.look(name)
	}
}

// withdrawn tells whether a slot could be taken away, and else says why not.
func (r *Registry) withdrawn(name string, err error) bool {
	if err != nil {
		slog.Warn("cannot take a slot away", "service", name, "err", err)
	}
	return err == nil
}

// fingerprint tells a definition from others.
func fingerprint(source []byte) string {
	sum := sha256.Sum256(source)
	return string(sum[:])
}

// register has proposals of ours supervised, and then publishes them: nothing is written
// before what is to run is on its way. Where the service before one is on its way out,
// that comes first.
func (r *Registry) register(proposals ...Proposal) {
	r.publisher.publish(r.define(proposals))
}

// define brings proposals of ours into force, and returns those that are. They are yet to
// be published.
func (r *Registry) define(proposals []Proposal) (inForce []Proposal) {
	for _, p := range proposals {
		if r.names.befall(p.Name, Defined) == Publish {
			r.publisher.force(r.names.entry(p.Name), p)
			if p.usesSlot() && r.there() {
				_ = r.slots.Occupy(p.Name) // that it cannot be made is said when it is published
			}
			inForce = append(inForce, p)
		}
	}
	for some := range slices.Chunk(inForce, definedTogether) {
		r.services.Define(some)
	}
	return inForce
}

// definedTogether is how many services are brought into force by one turn of the loop:
// its other work does not wait for longer.
const definedTogether = 32
