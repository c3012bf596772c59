package wire

// What the parts must agree on where the container's limit on processes is low.
const (
	FewestPIDs  = 20  // with which a container starts at all
	CrampedPIDs = 40  // below it each tier makes do with one processor, and services and supervisor share a uid
	PlentyPIDs  = 500 // from which on nobody needs to take turns
	OwnUserPIDs = 60  // below it profiles share the services' uid: there is no room for who touches their files besides

	fewestThreads = 6
	mostThreads   = 24
	begunThreads  = 3 // that a runtime has beside those: for timers, for the end of a pipe, and for whoever runs

	// FilesThreads is how many the process that touches the services' files has ready.
	FilesThreads = 5
)

// SupervisorThreads is how many threads tier 2 has ready for what waits in the kernel,
// by the limit. Where that is low, services need the room more.
func SupervisorThreads(limit int) int {
	return max(fewestThreads, min(mostThreads, (limit-FewestPIDs)/2))
}

// SupervisorRoom is how many processes and threads a tier 2 needs to start, with
// the process that touches the services' files where that is one of its own.
func SupervisorRoom(limit int, files bool) int {
	n := SupervisorThreads(limit) + begunThreads
	if files {
		n += FilesThreads + begunThreads
	}
	return n
}
