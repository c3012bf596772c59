// Package rights touches the files of a user with that user's rights and no
// others, in the place of a supervisor that has a uid of its own.
//
// A User is asked, and a process carries it out: Serve, which tier 1 starts. Its
// real, effective and saved ids are the supervisor's, so that no service can signal,
// limit or trace it (kill(2), prlimit(2) and ptrace(2) ask for those); only the ones
// that the kernel holds against the owners of files are the user's (setfsuid(2)), and
// it has no capability. That is the services' user. Users of profiles share one such
// process: a thread takes on the ids of one for a single call. For that it keeps the
// right to change ids, in force only while it does so, and a filter of system calls
// knows no ids but theirs, so that even one in which a profile's user could run code
// would be no more than all of these. What it does are the operations of durable.Dir on descriptors that
// come with the request, and a few on paths that root's configuration names.
//
// A call that waits for a file system gives its place to another after a while, so
// that one that does not answer keeps nobody from those that do.
//
// The two speak over a pair of packet sockets. The side of the supervisor never
// trusts what comes from a user's file more than if it had read that itself. A
// process that ends, or stops answering, is replaced. What it was in the middle of is
// asked of the next one if it only looks; anything else is ErrEnded, for nobody knows
// how far it came.
//
// Where the supervisor has the user's uid, a User has no process: it is nil, and
// everything is done at once.
package rights
