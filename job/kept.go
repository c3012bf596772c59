package job

// SessionsDir and UndoDir are what jobs keep below a profile's directory, or below the
// services' user's home:
//
//	what                who makes it         who removes it
//	.rlminit-sessions/  a session, its own,  the session's end; what is left of one when
//	                    which nobody else    its profile comes out of the trash, Restore
//	                    takes over
//	.rlminit-undo/      a write, an entry    a later write, the oldest; the undo
//	                    for each
//
// Both are of jobs that the journal of that volume knows by number, and go where the
// directory goes: with a rename, into the trash and out of it. A copy is another
// profile, which has neither: a clone, an archive.
const (
	SessionsDir = ".rlminit-sessions"
	UndoDir     = ".rlminit-undo"
)

// Keeps tells whether what has a name at the top of a profile's directory is what jobs
// keep there, and so no part of a copy.
func Keeps(name string) bool { return name == SessionsDir || name == UndoDir }
