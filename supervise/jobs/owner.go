package jobs

import (
	"fmt"

	"rlminit/control"
	"rlminit/job/table"
)

// Owner is whose a job or a session is: a profile's, a service's of the configuration, or
// with neither the services' user's. One name may be a service's and then a profile's, or
// the other way round, so that a name alone is nobody's:
//
//	what is asked                                 of a profile's    of a service's
//	does it keep a rename, is it ended by a       yes               no
//	deletion, does it begin during either
//	does it begin when its owner is no more       no                no
//	is it bounded by jobs.per_profile             yes               yes
//	the user                                      the profile's     the services'
//
// The end of a service ends no job of it.
type Owner struct{ Profile, Service string }

// OwnerOf is whose the jobs of a service are, which may be a profile's gateway.
func OwnerOf(profile, service string) Owner {
	if profile != "" {
		service = ""
	}
	return Owner{profile, service}
}

// ownerOf is whose a job is that is asked for, once it was named.
func ownerOf(q *control.RunJob) Owner { return Owner{q.Profile, q.Service} }

// give makes a job an owner's.
func (o Owner) give(q *control.RunJob) { q.Profile, q.Service = o.Profile, o.Service }

// recordedOwner is whose a job was when it was submitted.
func recordedOwner(s *table.Submitted) Owner { return Owner{s.Profile, s.Service} }

// Name is what it is called; "": it is the services' user.
func (o Owner) Name() string { return o.Profile + o.Service }

func (o Owner) String() string {
	switch {
	case o.Profile != "":
		return fmt.Sprintf("profile %q", o.Profile)
	case o.Service != "":
		return fmt.Sprintf("service %q", o.Service)
	}
	return "no profile"
}
