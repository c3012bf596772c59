// Package rights touches the files of users with their rights and no others, in the
// place of a supervisor that has a uid of its own.
//
// A User is asked, and a process carries it out: Serve, which tier 1 starts, one for all
// users. Its real, effective and saved ids are the supervisor's, so that no service can
// signal, limit or trace it (kill(2), prlimit(2) and ptrace(2) ask for those). For the
// time of a call, and in one thread, what the kernel holds against the owners of files
// are a user's: uid, gid (setfsuid(2)) and groups. They are cleared after it. For that
// the process keeps the right to change ids, in force only while it does so; a filter of
// system calls knows no ids and no lists of groups but those of the services' user and of
// profiles, so that even a process in which a service could run code would be no more
// than all of these. What it does are the operations of durable.Dir on descriptors that
// come with the request, and a few on paths that root's configuration names.
//
// What may wait for a file system that does not answer is bounded: of all calls, of
// which one gives its place to another after a while; and of each user, so that its file
// system keeps no other user waiting.
//
// The two speak over a pair of packet sockets. The side of the supervisor never
// trusts what comes from a user's file more than if it had read that itself. A
// process that ends, or stops answering, is replaced. What it was in the middle of is
// asked of the next one, with the word that it was asked before: that one takes away what
// was left of something new, or sees that all was done (durable.Request.Again). Four ends
// in a row are ErrEnded.
//
// Where the supervisor has the user's uid, a User has no process: it is nil, and
// everything is done at once.
package rights
