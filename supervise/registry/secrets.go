package registry

import (
	"slices"
	"time"

	"rlminit/control"
	"rlminit/profiles"
	"rlminit/service"
)

// Secrets tells of a profile's secrets, without their values.
func (r *Profiles) Secrets(name string) ([]control.Secret, error) {
	store, p, err := r.profile(name)
	if err != nil {
		return nil, err
	}
	names, err := store.Secrets.Names(p.Name)
	if err != nil {
		return nil, problemOf(err)
	}
	since, list := store.Secrets.Since(p.Name), []control.Secret{}
	is, _ := r.services.Status(p.Service())
	for _, name := range names {
		given := since[name]
		list = append(list, control.Secret{Name: name, Version: given.Version, At: given.At, UID: given.UID, InUse: startedAfter(is, given.At)})
	}
	return list, nil
}

// startedAfter tells whether a service has a process that began after a time.
func startedAfter(is control.Service, at time.Time) bool {
	return is.PID != nil && is.UptimeS != nil && time.Now().Add(-time.Duration(*is.UptimeS*float64(time.Second))).After(at)
}

// ForgetSecrets removes secrets of a profile wherever they are: the profile's own, those in
// the trash, and those in revisions. A process keeps those it began with.
func (r *Profiles) ForgetSecrets(name string, keys []string, by control.Actor) (answer control.ForgottenSecrets, err error) {
	if len(keys) == 0 {
		return answer, control.BadRequest("no secret is named; write the names of those that are to be forgotten")
	}
	for _, key := range keys {
		if fault := service.CheckSecret(key); fault != "" {
			return answer, control.BadRequest("%q %s", key, fault)
		}
	}
	store, err := r.store()
	if err != nil {
		return answer, err
	}
	there := false
	if _, p, err := r.profile(name); err == nil {
		name, there = p.Name, true
	}
	answer = control.ForgottenSecrets{Profile: name, Names: keys, Trash: []string{}, Revisions: []int{}}
	if r.claims != nil {
		had, err := r.claims().Forget(name, keys)
		if answer.Revisions = append(answer.Revisions, had...); err != nil {
			return answer, problemOf(err)
		}
	}
	own, trash, err := store.ForgetSecrets(name, keys, &by.UID)
	if answer.Own, answer.Trash = own, append(answer.Trash, trash...); err != nil {
		return answer, problemOf(err)
	}
	if !own && len(answer.Trash)+len(answer.Revisions) == 0 {
		return answer, control.NewProblem(control.KindNoSuchName, "no such secret is kept of a profile "+name+"; rlminit profile secret list shows those of one")
	}
	if !there || !own {
		return answer, nil
	}
	store.Records.NoteChange(name, nil, profiles.Actor(by))
	p, err := store.Load(name)
	if err == nil {
		err = r.enrolFor(enrolment{cause: "profile changed", actor: by.UID, later: true}, p)
	}
	return answer, problemOf(err)
}

// forgetGone removes from revisions the secrets of profiles that are neither there nor in
// the trash.
func (r *Profiles) forgetGone(store *profiles.Store) {
	if r.claims == nil {
		return
	}
	list, err := store.List()
	trash, err2 := store.Trash.List()
	if err != nil || err2 != nil {
		return // what there is, is not known
	}
	r.claims().ForgetGone(func(name string) bool {
		return slices.ContainsFunc(list, func(p profiles.Profile) bool { return p.Name == name }) ||
			slices.ContainsFunc(trash, func(t profiles.Trashed) bool { return t.Profile == name })
	})
}
