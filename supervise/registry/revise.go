package registry

import (
	"context"
	"errors"

	"rlminit/control"
	"rlminit/profiles"
	"rlminit/service"
)

// Store is the volume's, or the problem of not having it.
func (r *Profiles) Store() (*profiles.Store, error) { return r.store() }

// Make creates a profile with a whole profile.yaml and its secrets, and has it
// supervised.
func (r *Profiles) Make(name string, text []byte, secrets map[string]string, intent service.Intent, actor uint32) error {
	store, err := r.store()
	if err != nil {
		return err
	}
	before := r.before(name)
	p, made, err := store.Create(name, profiles.Creation{Text: text, Secrets: secrets, Intent: intent})
	if err != nil {
		return problemOf(err)
	}
	return r.enrol(p, made, before, actor)
}

// Announce has others wait for the gateways of profiles that are about to be made, and will
// be started. Withdraw follows when all of them were, or will not be.
func (r *Profiles) Announce(names []string) { r.services.Announce(services(names)) }

// Withdraw is for announced names, whatever became of them.
func (r *Profiles) Withdraw(names []string) { r.services.Withdraw(services(names)) }

// services are the names of the profiles' services.
func services(names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = profiles.GatewayName(name)
	}
	return all
}

// replace writes a profile's profile.yaml whole.
func (r *Profiles) replace(name string, text []byte) (profiles.Profile, error) {
	store, err := r.store()
	if err != nil {
		return profiles.Profile{}, err
	}
	p, err := store.Replace(name, text)
	if err != nil {
		return profiles.Profile{}, problemOf(err)
	}
	return p, nil
}

// Replace writes a profile's profile.yaml whole, and brings it into force.
func (r *Profiles) Replace(name string, text []byte, actor uint32) error {
	p, err := r.replace(name, text)
	if err != nil {
		return err
	}
	return r.enrol(p, false, nil, actor)
}

// ReplaceLater is Replace where what runs goes on as it is, and a profile at rest goes on
// resting.
func (r *Profiles) ReplaceLater(name string, text []byte, actor uint32) error {
	p, err := r.replace(name, text)
	if err != nil {
		return err
	}
	rests := false
	r.registry.queue.Ask(func() {
		if rests = r.registry.names.life(p.Service()) == Resting; rests {
			r.registry.names.of[p.Service()].judged = nil
		}
	})
	if rests {
		return nil
	}
	return r.enrolFor(enrolment{cause: "profile changed", actor: actor, later: true}, p)
}

// Discard is Delete where the profile gets a name in the trash that the caller
// has chosen.
func (r *Profiles) Discard(ctx context.Context, name, trash string, actor uint32) error {
	for {
		store, p, err := r.profile(name)
		if err != nil {
			return err
		}
		if p.Name == profiles.Default {
			return control.Conflict("the profile %q is the home directory itself, and cannot be deleted", p.Name)
		}
		release := r.vacateJobs(p.Name, "its profile was deleted")
		defer release()
		ended, other := r.beginDeletion(p.Service(), deleted, &actor)
		if other != nil {
			<-other
			continue // is there one still?
		}
		select {
		case <-ended:
			err = store.Discard(p.Name, trash)
		case <-ctx.Done():
			<-ended // it is on its way out, and comes back with the directory
			err = errors.New("its service did not end in time")
		}
		r.endDeletion(p.Service())
		return problemOf(err)
	}
}
