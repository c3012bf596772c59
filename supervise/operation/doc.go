// Package operation keeps what was asked of services and what became of it, and
// decides how a rolling one goes on.
//
// An operation has an id and members, each in one State; it is over when all of
// its members are. The later command on a member wins: the earlier operation ends
// as superseded for it. Roll is the gate of a rolling operation, a pure function
// of what is seen of the members: whom to take next, whom it waits for, and when
// it stops. History is the fold of all operations in the journal, over boots.
//
// The package starts and stops nothing, and has no clock.
//
// What runs when the supervisor is replaced ends as interrupted: the intents that
// it recorded are carried out by the successor, as always; a restart, rolling or
// not, is taken no further. A member that was stopped to be restarted is started
// again by what was published of it, so none is left half-way. What runs when the
// container ends is interrupted too: what is wanted comes up at the next boot.
package operation
