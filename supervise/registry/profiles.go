package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/internal/redact"
	"rlminit/logs"
	"rlminit/profiles"
	"rlminit/profiles/archive"
	"rlminit/profiles/secrets"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/process"
	"rlminit/supervise/settings"
)

// Profiles is what people ask of profiles: each is made, changed or removed on the
// volume first, whole and durable, and then its name is. For any goroutine but the
// registry's own.
type Profiles struct {
	registry *Registry
	services Services
	volume   Volume
	settings *settings.Settings
	jobs     Jobs          // nil: there are none
	claims   func() Claims // nil: there are none
}

// Jobs is what runs for profiles beside their services.
type Jobs interface {
	// Vacate ends all that a profile has. Until release is called nothing begins.
	Vacate(profile, cause string) (release func())
	// Reserve has nothing begin of a profile, until release is called; or says what
	// the profile has.
	Reserve(profile, what string) (release func(), err error)
}

// Claims is what revisions say of the trash.
type Claims interface {
	// Needs tells whether a rollback of a revision takes what that has moved there of
	// a profile.
	Needs(profile string, revision int) bool
	// Release has takeOut take away an entry that a revision has moved there, or says
	// why it stays; needed: also one that a rollback takes.
	Release(t control.Trashed, needed bool, takeOut func() error) error
	// Forget removes secrets of a profile, all if keys is nil, from revisions, and tells
	// which had them; ForgetGone those of profiles that are not there.
	Forget(profile string, keys []string) (had []int, err error)
	ForgetGone(there func(name string) bool)
}

// Employ tells of jobs, before the registry begins.
func (r *Profiles) Employ(j Jobs) { r.jobs = j }

// Heed tells of claims to the trash, before anything is asked.
func (r *Profiles) Heed(c func() Claims) { r.claims = c }

// vacateJobs ends the jobs and sessions of a profile that is to go.
func (r *Profiles) vacateJobs(profile, cause string) (release func()) {
	if r.jobs == nil {
		return func() {}
	}
	return r.jobs.Vacate(profile, cause)
}

// store is the volume's, or the problem of not having it.
func (r *Profiles) store() (*profiles.Store, error) {
	c, store := r.settings.Current(), r.volume.Store()
	switch {
	case c.Gateway == nil:
		return nil, control.Conflict("there are no profiles here: the configuration has no gateway section; add one to %s", c.Path)
	case store == nil:
		return nil, control.Conflict("%s", r.volume.Absent())
	}
	return store, nil
}

// problemOf is an error of the store as a problem.
func problemOf(err error) error {
	var problem *control.Problem
	switch {
	case err == nil || errors.As(err, &problem):
		return err
	case errors.Is(err, profiles.ErrExists):
		return control.NewProblem(control.KindExists, err.Error())
	case errors.Is(err, profiles.ErrName), errors.Is(err, profiles.ErrValue):
		return control.BadRequest("%v", err)
	case errors.Is(err, profiles.ErrNotFound):
		return control.NewProblem(control.KindNoSuchName, err.Error())
	case errors.Is(err, profiles.ErrBroken):
		return control.Conflict("%v", err)
	}
	problem = control.Failed("%v", err)
	problem.Retryable = durable.Temporary(err) || errors.Is(err, unix.EROFS) || errors.Is(err, rights.ErrEnded)
	return problem
}

// profile is the store, and the profile of a name or of its service's name, or
// the problem that there is none, with the nearest one that there is.
func (r *Profiles) profile(name string) (*profiles.Store, profiles.Profile, error) {
	store, err := r.store()
	if err != nil {
		return nil, profiles.Profile{}, err
	}
	p, err := store.Load(name)
	if short, isGateway := strings.CutPrefix(name, service.GatewayPrefix); isGateway && errors.Is(err, profiles.ErrNotFound) {
		if p, err := store.Load(short); err == nil {
			r.registry.AtRest.WakeNamed(p.Service())
			return store, p, nil
		}
	}
	switch {
	case err == nil:
		r.registry.AtRest.WakeNamed(p.Service())
		return store, p, nil
	case !errors.Is(err, profiles.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, profiles.ErrName):
		return store, p, problemOf(err)
	}
	var names []string
	r.registry.queue.Ask(func() {
		for _, e := range r.registry.names.of {
			if e.profile != "" {
				names = append(names, e.profile)
			}
		}
	})
	return store, p, control.NoSuchProfile(name, names)
}

// recorded is the requester, as the journal has it.
func recorded(by control.Actor) *profiles.Actor {
	actor := profiles.Actor(by)
	return &actor
}

func (r *Profiles) describe(p profiles.Profile) control.Profile {
	view := control.Profile{Name: p.Name, Profile: p.Name, Kind: config.KindCalled(p.Kind()), Dir: p.Dir, Service: p.Service(), Environment: r.environment(p)}
	if p.Port != 0 {
		view.Port = &p.Port
	}
	if st, ok := r.services.Status(p.Service()); ok {
		view.Desired, view.State, view.Reason, view.UID, view.Outdated = st.Desired, st.State, st.Reason, st.UID, st.Outdated
	}
	return view
}

// environment are a profile's own variables as they may be shown.
func (r *Profiles) environment(p profiles.Profile) map[string]string {
	own := p.Environment()
	var stored map[string]string
	if store, err := r.store(); err == nil && len(own) > 0 {
		stored, _ = store.Secrets.Of(p.Name) // those that can be read
	}
	list := make([]string, 0, len(own))
	for name, value := range own {
		list = append(list, name+"="+value)
	}
	return redact.Of(list, slices.Collect(maps.Values(stored))...).Map(own)
}

// List is every profile.
func (r *Profiles) List() ([]control.Profile, error) {
	store, err := r.store()
	if err != nil {
		return nil, err
	}
	list, err := store.List()
	if err != nil {
		return nil, err
	}
	rests := map[string]control.Service{}
	for _, st := range r.registry.AtRest.List() {
		rests[st.Name] = st
	}
	views := []control.Profile{}
	for _, p := range list {
		view := r.describe(p)
		if st, ok := rests[p.Service()]; ok && view.State == "" {
			view.Desired, view.State, view.Reason = st.Desired, st.State, st.Reason
		}
		views = append(views, view)
	}
	return views, nil
}

// Get is one of them.
func (r *Profiles) Get(name string) (view control.Profile, err error) {
	_, p, err := r.profile(name)
	if err != nil {
		return view, err
	}
	return r.describe(p), nil
}

// Create creates a profile: on the volume first, whole and durable, then as a
// service.
func (r *Profiles) Create(ctx context.Context, what control.CreateProfile, by control.Actor) (outcome control.Outcome, err error) {
	store, err := r.store()
	if err != nil {
		return outcome, err
	}
	if err := r.checkKind(what); err != nil {
		return outcome, err
	}
	if err := checkListener(store, what); err != nil {
		return outcome, err
	}
	how := profiles.Creation{
		Kind: kindOf(what), Command: what.Command, Environment: what.Environment, Secrets: what.Secrets, Port: what.Port, PortAny: what.PortAny, ExistOK: what.ExistOK, Clone: what.Clone, Restore: what.Restore,
		Actor: recorded(by),
	}
	if what.Clone != "" && what.Restore != "" || what.ExistOK && (what.Clone != "" || what.Restore != "") {
		return outcome, control.BadRequest("cannot create %s: only one of exist_ok, clone and restore can be asked for", what.Name)
	}
	if what.Stopped {
		how.Intent = service.Stopped
	}
	before := r.before(what.Name)
	var old map[string]string
	var status control.Service
	if what.ExistOK && len(what.Secrets) > 0 {
		old, _ = store.Secrets.Of(what.Name) // where they cannot be read, Create fails with the reason
		status, _ = r.services.Status(profiles.GatewayName(what.Name))
	}
	lost := store.Lost(what.Restore)
	p, made, err := store.Create(what.Name, how)
	if err != nil {
		return outcome, problemOf(err)
	}
	changed := changedSecrets(old, what.Secrets)
	enrols := enrolment{cause: "profile created", made: made, before: before, actor: by.UID}
	if !made {
		enrols.cause, enrols.later = "profile changed", !what.Restart
	}
	if err := r.enrolFor(enrols, p); err != nil {
		return outcome, err
	}
	if _, err := r.services.Find(p.Service()); err != nil {
		return outcome, err
	}
	outcome = r.services.Await(ctx, p.Service(), made, what.Wait)
	if g := r.settings.Current().Gateway; p.Port == 0 && g != nil && g.PortsOf(g.KindNamed(p.Kind())).Size() > 0 {
		outcome.Note = "no port: all of " + profiles.PortsKey(p.Kind()) + " are taken"
	}
	switch {
	case !made && len(changed) > 0:
		outcome.Note = secretsNote(changed, status, outcome.Service)
	case what.Restore != "":
		back, err := store.Secrets.Names(p.Name)
		if err != nil {
			return outcome, problemOf(err)
		}
		outcome.Note = joined(outcome.Note, restoredNote(p.Name, back, lost))
	}
	return outcome, nil
}

// checkListener refuses a port that somebody listens on, for a profile that is to be made and
// started.
func checkListener(store *profiles.Store, what control.CreateProfile) error {
	if what.Port == 0 || what.Stopped {
		return nil
	}
	if _, err := store.Load(what.Name); !errors.Is(err, profiles.ErrNotFound) || store.Owned(what.Name, what.Port) {
		return nil // it has its port, or is refused with the name of the profile that has this one
	}
	if err := process.CheckPort(what.Port); err != nil {
		return control.Conflict("cannot create %s: %v; or choose another port, or leave out --port", what.Name, err)
	}
	return nil
}

// restoredNote names the secrets that a restore has brought back, and those that it could
// not, for they were forgotten.
func restoredNote(profile string, back, lost []string) (note string) {
	if len(back) > 0 {
		note = "secrets restored: " + strings.Join(back, ", ")
	}
	missing := slices.DeleteFunc(slices.Clone(lost), func(name string) bool { return slices.Contains(back, name) })
	return joined(note, missingNote(profile, missing, "were forgotten"))
}

// missingNote names the secrets that a profile had once and has not now, and how to give
// them.
func missingNote(profile string, missing []string, why string) string {
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("secrets missing, which %s: %s; give them with rlminit profile set %s --secret %s=FILE", why, strings.Join(missing, ", "), profile, missing[0])
}

// joined are two notes as one.
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// checkKind refuses a kind that there is not, or that the profile may not have, and a
// command that the kind has already, or has not. A template may bring the command along.
func (r *Profiles) checkKind(what control.CreateProfile) error {
	g := r.settings.Current().Gateway
	k := g.KindNamed(what.Kind)
	if what.Clone != "" || what.Restore != "" {
		if what.Kind != "" || what.Command != nil {
			return control.BadRequest("cannot create %s: kind and command do not go with clone or restore, which bring theirs", what.Name)
		}
		return r.checkClone(g, what)
	}
	called := config.KindCalled(what.Kind)
	switch {
	case k == nil:
		return control.BadRequest("cannot create %s: %s", what.Name, g.NoKind(what.Kind))
	case !k.Allows(what.Name):
		return control.BadRequest("cannot create %s: the kind %s is not for it: %s.profiles allows %s", what.Name, called, k.Section(), strings.Join(k.Profiles, ", "))
	case len(what.Command) > 0 && !k.AnyCommand:
		return control.BadRequest("cannot create %s: the kind %s has a command; one for each profile needs command: any in %s", what.Name, called, k.Section())
	case len(what.Command) == 0 && k.AnyCommand && k.Template == "" && !what.ExistOK:
		return control.BadRequest("cannot create %s: the kind %s has no command; add --command PROG ARG…", what.Name, called)
	case what.Claimed:
		return r.claimed(what.Name, what.Kind)
	}
	return nil
}

// checkClone refuses a clone that may not be of its origin's kind.
func (r *Profiles) checkClone(g *config.Gateway, what control.CreateProfile) error {
	store := r.volume.Store()
	if what.Clone == "" || store == nil {
		return nil
	}
	p, err := store.Load(what.Clone)
	if k := g.KindNamed(p.Kind()); err == nil && k != nil && !k.Allows(what.Name) {
		return control.BadRequest("cannot create %s: the kind of %s is not for it: %s.profiles allows %s", what.Name, what.Clone, k.Section(), strings.Join(k.Profiles, ", "))
	}
	return nil
}

// kindOf is the kind that a new profile's own file is to name; "": the default.
func kindOf(what control.CreateProfile) string {
	if what.Kind == service.DefaultKind && !what.ExistOK {
		return ""
	}
	return what.Kind
}

// changedSecrets are the names of those whose values are others than before, in order.
func changedSecrets(before, given map[string]string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if value, has := before[name]; !has || value != given[name] {
			names = append(names, name)
		}
	}
	return names
}

// secretsNote says that a profile's secrets have changed, and whether its gateway still
// has those of before: a process keeps the files that it began with.
func secretsNote(changed []string, before, now control.Service) string {
	note := "changed: " + strings.Join(changed, ", ")
	if now.PID != nil && *now.PID > 0 && before.PID != nil && *before.PID == *now.PID {
		note += fmt.Sprintf("; the gateway, pid %d, has the old value until rlminit restart %s", *now.PID, strings.TrimPrefix(now.Name, service.GatewayPrefix))
	}
	return note
}

// Import creates a profile from an archive, whole or not at all.
func (r *Profiles) Import(ctx context.Context, what control.ImportProfile, from io.Reader, by control.Actor) (outcome control.Outcome, err error) {
	store, err := r.store()
	if err != nil {
		return outcome, err
	}
	a, err := archive.Open(from)
	if errors.Is(err, archive.ErrFault) {
		return outcome, control.BadRequest("%v", err)
	}
	if err != nil {
		return outcome, control.Failed("cannot read the archive: %v", err)
	}
	name := cmp.Or(what.Name, a.Profile)
	how := profiles.Creation{Import: a, Actor: recorded(by)}
	if what.Stopped {
		how.Intent = service.Stopped
	}
	before := r.before(name)
	p, made, err := store.Create(name, how)
	if err != nil {
		return outcome, problemOf(err)
	}
	if err := r.enrol(p, made, before, by.UID); err != nil {
		return outcome, err
	}
	outcome = r.services.Await(ctx, p.Service(), made, what.Wait)
	outcome.Note = joined(outcome.Note, missingNote(p.Name, a.Secrets, "no archive has"))
	return outcome, nil
}

// Up waits for a profile's gateway, if that is to run; one that does not come up is the
// error.
func (r *Profiles) Up(ctx context.Context, name string, wait *control.Wait) error {
	if outcome := r.services.Await(ctx, profiles.GatewayName(name), true, wait); outcome.Problem != nil {
		return outcome.Problem
	}
	return nil
}

// before is what is known under the name of a profile that is yet to be made: what
// runs there runs in a directory that somebody removed by hand, which nobody has
// noticed.
func (r *Profiles) before(name string) (e *entry) {
	r.registry.queue.Ask(func() { e = r.registry.names.of[profiles.GatewayName(name)] })
	return e
}

// enrol registers the gateway of a profile that was created, adopted or changed.
// before is the entry of its name before it was made: the watcher may have
// registered the new one by now.
func (r *Profiles) enrol(p profiles.Profile, made bool, before *entry, actor uint32) error {
	how := enrolment{cause: "profile changed", made: made, before: before, actor: actor}
	if made {
		how.cause = "profile created"
	}
	return r.enrolFor(how, p)
}

// changed brings a changed profile into force. A gateway that runs is restarted only if that
// is asked for.
func (r *Profiles) changed(p profiles.Profile, restart bool, by control.Actor) error {
	return r.enrolFor(enrolment{cause: "profile changed", actor: by.UID, later: !restart}, p)
}

// enrolment is how a profile that was changed comes into force.
type enrolment struct {
	cause  string // of what its service does now
	made   bool   // it is a new one
	before *entry // of one that was made: the entry of its name before
	actor  uint32
	later  bool // what runs goes on as it is
}

// enrolFor is enrol, as how says.
func (r *Profiles) enrolFor(how enrolment, p profiles.Profile) error {
	made, before := how.made, how.before
	var over chan struct{}
	r.registry.queue.Ask(func() {
		if e := r.registry.names.of[p.Service()]; e != nil && (e.life == Deleting || e.life == Deleted) {
			over = e.over
			return
		}
		if store := r.volume.Store(); store != nil && r.registry.names.life(p.Service()) != Absent {
			// A later change may have come here before us.
			if newest, err := store.Load(p.Name); err == nil {
				p = newest
			}
		}
		prop := ofProfile(p, r.settings.Current())
		scheduled := prop.Value != nil && prop.Value.Schedule != nil // which then says when it runs
		prop.Desired, prop.Start = p.Record.Desired, p.Record.Desired == service.Running && !scheduled
		prop.Cause, prop.Actor, prop.Later = how.cause, &how.actor, how.later
		renew := made && before != nil && before == r.registry.names.of[prop.Name] && before.life == Supervised
		r.registry.register(prop)
		if renew {
			r.services.Renew(prop)
		}
	})
	if over == nil {
		return nil
	}
	if !made {
		return control.Conflict("profile %q is being deleted; try again when it is gone", p.Name)
	}
	<-over // the one before is gone, and its deletion looks then for a profile
	return nil
}

// Delete stops a profile's gateway, takes its slot away, and then its directory,
// and with a purge its log too. Meanwhile nobody registers the profile; all else
// goes on.
func (r *Profiles) Delete(ctx context.Context, name string, how control.Deletion, by control.Actor) (answer control.Deleted, err error) {
	for {
		store, p, err := r.profile(name)
		if err != nil {
			return answer, err
		}
		if err := store.CheckDelete(p.Name, how.Purge); err != nil {
			return answer, problemOf(err) // and nothing has been stopped
		}
		release := r.vacateJobs(p.Name, "its profile was deleted")
		defer release()
		ended, other := r.beginDeletion(p.Service(), deleted, &by.UID)
		if other != nil {
			<-other
			continue // is there one still?
		}
		// A caller that goes away does not hurry it: the gateway may still write.
		log := <-ended
		answer, err = r.remains(store, p.Name, log, how, by)
		r.endDeletion(p.Service())
		return answer, problemOf(err)
	}
}

// Text is a profile's profile.yaml, and which profile that is.
func (r *Profiles) Text(name string) (answer control.ProfileText, err error) {
	store, p, err := r.profile(name)
	if err != nil {
		return answer, err
	}
	p, id, err := store.ToEdit(p.Name)
	answer = control.ProfileText{Text: string(p.Text()), ID: id, Kind: config.KindCalled(p.Kind())}
	d, faults := r.settings.Current().For(p.Service()).GatewayDefinition(config.Profile{Name: p.Name, Kind: p.Kind(), Dir: p.Dir, Port: p.Port})
	if len(faults) == 0 {
		for name, v := range d.Environment { // which is this profile's alone
			v.Text = redact.Value(name, v.Text)
			d.Environment[name] = v
		}
		answer.Says = service.OwnText(d)
	}
	if err == nil {
		answer.Secrets, err = store.Secrets.Names(p.Name)
	}
	return answer, problemOf(err)
}

// Edit puts another profile.yaml in force, if it has no fault, and is made of the one
// that is there, of the profile that is there.
func (r *Profiles) Edit(name string, what control.ReplaceProfile, by control.Actor) (view control.Profile, err error) {
	store, p, err := r.profile(name)
	if err != nil {
		return view, err
	}
	if err := p.With([]byte(what.Text)).Valid(r.settings.Current()); err != nil {
		return view, control.BadRequest("%v", err)
	}
	base := profiles.Base{ID: what.ID, Text: what.Base}
	if what.Claimed {
		base.Check = func(p profiles.Profile) error {
			return cmp.Or(r.claimed(p.Name, p.Kind()), r.claimed(p.Name, p.With([]byte(what.Text)).Kind()))
		}
	}
	next, err := store.ReplaceFrom(p.Name, base, []byte(what.Text))
	if err != nil {
		return view, problemOf(err)
	}
	store.Records.NoteChange(next.Name, nil, profiles.Actor(by))
	if err := r.changed(next, what.Restart, by); err != nil {
		return view, err
	}
	return r.describe(next), nil
}

// claimed refuses a profile of a kind whose gateways run without a deadline. No profile says
// anything else about that than its kind.
func (r *Profiles) claimed(name, kind string) error {
	c := r.settings.Current().For(profiles.GatewayName(name))
	switch {
	case c.Gateway == nil:
		return control.Refused("the profile %s belongs to no fleet: its configuration has no gateway section", name)
	case c.Gateway.KindNamed(kind) == nil:
		return control.Refused("the profile %s belongs to no fleet: %s", name, c.Gateway.NoKind(kind))
	}
	if d, _ := c.GatewayDefinition(config.Profile{Name: name, Kind: kind}); d.Deadline == service.DeadlineRequired {
		return nil
	}
	return control.Refused("the profile %s belongs to no fleet: its kind %s does not have `deadline: required`; give the declaration another name, or another kind", name, config.KindCalled(kind))
}

// Rename gives a profile another name: its service ends, as for a deletion, and
// one of the new name takes its place.
func (r *Profiles) Rename(ctx context.Context, name string, what control.RenameProfile, by control.Actor) (outcome control.Outcome, err error) {
	for {
		store, p, err := r.profile(name)
		if err != nil {
			return outcome, err
		}
		if err := store.CheckRename(p.Name, what.To); err != nil {
			return outcome, problemOf(err) // and nothing has been stopped
		}
		if err := r.runsAs(p, what.To); err != nil {
			return outcome, err
		}
		if r.jobs != nil {
			release, err := r.jobs.Reserve(p.Name, "renamed")
			if err != nil {
				return outcome, err
			}
			defer release()
		}
		ended, other := r.beginDeletion(p.Service(), "profile renamed to "+what.To, &by.UID)
		if other != nil {
			<-other
			continue // is there one still?
		}
		if log := <-ended; log != nil {
			<-log // it follows its profile
		}
		renamed, err := store.Rename(p.Name, what.To, recorded(by))
		r.endDeletion(p.Service()) // where it failed, the old one comes back
		if err != nil {
			return outcome, problemOf(err)
		}
		if err := r.enrolFor(enrolment{cause: "profile renamed from " + p.Name, made: true, actor: by.UID}, renamed); err != nil {
			return outcome, err
		}
		return r.services.Await(ctx, renamed.Service(), true, what.Wait), nil
	}
}

// runsAs refuses a name under which a gateway that runs could not be started again.
func (r *Profiles) runsAs(p profiles.Profile, name string) error {
	if is, there := r.services.Status(p.Service()); !there || is.PID == nil {
		return nil
	}
	named := p
	named.Name = name
	if err := named.Valid(r.settings.Current()); err != nil {
		return control.Conflict("profile %q is not renamed: its gateway runs, and could not be started as %s: %s", p.Name, name, profiles.Reason(err))
	}
	return nil
}

// Repair puts right whose the files of a profile are, or of all, and has their gateways go by
// what can be read then.
func (r *Profiles) Repair(name string, by control.Actor) (answer control.Repaired, err error) {
	store, err := r.store()
	if err != nil {
		return answer, err
	}
	root := by.UID == 0
	if name == control.AllProfiles {
		if !root {
			return answer, control.NewProblem(control.KindNotPermitted, "only root may repair all profiles at once: docker exec without -u")
		}
		return r.repairAll(store, by)
	}
	found, there := "", false
	if root { // its files may be such that nobody else reads them
		found, there = store.Ownership.Find(name)
	}
	if !there {
		_, p, err := r.profile(name)
		if err != nil {
			return answer, err
		}
		found = p.Name
	}
	if answer, err = r.repair(store, found, by); err != nil {
		return answer, problemOf(err)
	}
	// Whatever was done: what could not be read may have been put right by hand.
	r.registry.queue.Ask(func() { err = r.registry.reconcile(false, found) })
	return answer, problemOf(err)
}

// repair puts right whose the files of one profile are.
func (r *Profiles) repair(store *profiles.Store, name string, by control.Actor) (control.Repaired, error) {
	r.registry.AtRest.WakeNamed(profiles.GatewayName(name))
	did, err := store.Ownership.Repair(name, by.UID == 0)
	if did.Changed > 0 {
		store.Records.NoteChange(name, nil, profiles.Actor(by))
	}
	return control.Repaired{Profile: name, Changed: did.Changed, Left: did.Left}, err
}

// repairAll puts right whose the files of each profile are. One that cannot be repaired keeps
// no other from it, and the first of these is the error.
func (r *Profiles) repairAll(store *profiles.Store, by control.Actor) (control.Repaired, error) {
	names, roots, err := store.Ownership.Repairable()
	if err != nil {
		return control.Repaired{}, problemOf(err)
	}
	all := control.Repaired{Profile: control.AllProfiles, Changed: roots.Changed, Left: roots.Left}
	failed := 0
	for _, name := range names {
		one, err1 := r.repair(store, name, by)
		all.Changed += one.Changed
		all.Left = append(all.Left, one.Left...)
		if err1 != nil && !errors.Is(err1, fs.ErrNotExist) { // it is gone meanwhile
			failed++
			err = cmp.Or(err, err1)
		}
	}
	var asked error
	r.registry.queue.Ask(func() { asked = r.registry.reconcile(false) })
	if failed > 1 {
		err = fmt.Errorf("%w; and %d other profiles could not be repaired", err, failed-1)
	}
	return all, problemOf(cmp.Or(err, asked))
}

// Adopt takes the state in a profile's file for its desired state. Its
// gateway is as it was.
func (r *Profiles) Adopt(ctx context.Context, name string, by control.Actor) (profiles.Profile, error) {
	store, p, err := r.profile(name)
	if err != nil {
		return p, err
	}
	p, err = store.Adopt(ctx, p.Name, profiles.Actor(by))
	return p, problemOf(err)
}

// Trash is every profile that can be restored.
func (r *Profiles) Trash() ([]control.Trashed, error) {
	store, err := r.store()
	if err != nil {
		return nil, err
	}
	found, err := store.Trash.List()
	if err != nil {
		return nil, problemOf(err)
	}
	list := []control.Trashed{}
	for _, t := range found {
		view := describeTrashed(t)
		view.Needed = r.claims != nil && t.Revision != 0 && r.claims().Needs(t.Profile, t.Revision)
		list = append(list, view)
	}
	return list, nil
}

func describeTrashed(t profiles.Trashed) control.Trashed {
	return control.Trashed{Entry: t.Entry, Profile: t.Profile, At: t.At, Revision: t.Revision}
}

// Purge removes an entry of the trash for good.
func (r *Profiles) Purge(entry string, needed bool, by control.Actor) (answer control.Purged, err error) {
	store, err := r.store()
	if err != nil {
		return answer, err
	}
	left, err := store.Purge(entry, recorded(by), func(t profiles.Trashed, takeOut func() error) error {
		if r.claims == nil || t.Revision == 0 {
			return takeOut()
		}
		return r.claims().Release(describeTrashed(t), needed, takeOut)
	})
	if left != "" {
		answer.Left = []string{left}
	}
	if err == nil {
		r.forgetGone(store)
	}
	return answer, problemOf(err)
}

// deleted is the cause of the end of a profile's service.
const deleted = "profile deleted"

// beginDeletion ends a profile's service, for a cause. ended gives the end of its log, when
// nothing is left of it. other: somebody else deletes it, until that is closed.
func (r *Profiles) beginDeletion(name, cause string, actor *uint32) (ended <-chan (<-chan struct{}), other <-chan struct{}) {
	r.registry.queue.Ask(func() {
		if e := r.registry.names.of[name]; e != nil && e.over != nil {
			other = e.over
			return
		}
		action := r.registry.names.befall(name, Delete)
		e := r.registry.names.entry(name)
		e.over = make(chan struct{})
		if action == Remove {
			r.registry.remove(name, cause, actor, true)
		}
		end := make(chan (<-chan struct{}), 1)
		ended = end
		gone := e.gone
		if gone == nil { // there was no service
			end <- nil
			return
		}
		go func() {
			<-gone
			r.registry.queue.Ask(func() { end <- r.registry.names.entry(name).log })
		}()
	})
	return ended, other
}

// endDeletion asks, after one that succeeded too, what there is of the name:
// somebody may have made another meanwhile, or put something into its slot.
func (r *Profiles) endDeletion(name string) {
	r.registry.queue.Ask(func() {
		over := r.registry.names.entry(name).over
		r.registry.names.entry(name).over = nil
		if r.registry.names.befall(name, Over) == Ask {
			r.registry.look(name)
			r.registry.noticed(name)
		}
		close(over)
	})
}

// remains removes the rest of a profile without a service: its directory, and with
// purge its log. The profile's end counts: the rest of a purge is named.
func (r *Profiles) remains(store *profiles.Store, name string, log <-chan struct{}, how control.Deletion, by control.Actor) (answer control.Deleted, err error) {
	if how.Purge && log != nil {
		<-log // its last lines would come after
	}
	where, err := store.Delete(name, how.Purge, recorded(by))
	if err != nil {
		return answer, err
	}
	if !how.Purge {
		answer.Trash = where
		entry := path.Base(where)
		if how.ForgetSecrets {
			answer.Forgotten, err = store.Secrets.Lose(entry)
			if err == nil && r.claims != nil {
				_, err = r.claims().Forget(name, nil)
			}
			if err != nil {
				return answer, control.Failed("%s is deleted, but its secrets are not: %v; rlminit profile secret forget %s NAME removes one", name, err, name)
			}
		}
		answer.Secrets, err = store.Secrets.Names(secrets.Trashed(entry))
		return answer, err
	}
	if where != "" {
		answer.Left = append(answer.Left, where)
	}
	r.forgetGone(store)
	at := logs.Dir("", name)
	logged := store.Ours().Path(at)
	err = store.Ours().RemoveAll(at)
	switch {
	case errors.Is(err, unix.ELOOP):
		// The volume's owner may have put the logs elsewhere. Any service may have
		// put the link there as well, so nothing is removed behind it.
		if exists(logged) {
			answer.LogLeft = logged
		}
	case err != nil:
		answer.Left = append(answer.Left, logged)
	}
	return answer, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
