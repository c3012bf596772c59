package wire

// The figures that the parts agree on where the container's limit on processes is low.
const (
	FewestPIDs = 64  // the fewest for a start with a configuration
	PlentyPIDs = 500 // enough for nobody to take turns

	othersPIDs = 28 // that are not counted for the supervisor's threads: PID 1's, and some for services

	fewestThreads = 6
	mostThreads   = 24
	begunThreads  = 3 // that a runtime has beside those: for timers, for the end of a pipe, and for the running goroutine

	// FilesThreads are those the file helper has ready: one hears requests,
	// and each of the others can be somebody else for the time of a call. For that
	// the runtime has one more.
	FilesThreads = 6
)

// SupervisorThreads is how many threads tier 2 has ready for what waits in the kernel,
// by the limit. Where that is low, services need the room more.
func SupervisorThreads(limit int) int {
	return max(fewestThreads, min(mostThreads, (limit-othersPIDs)/2))
}

// SupervisorRoom is how many processes and threads a tier 2 needs to start, with
// the process that touches the services' files where that is one of its own.
func SupervisorRoom(limit int, files bool) int {
	n := SupervisorThreads(limit) + begunThreads
	if files {
		n += FilesThreads + 1 + begunThreads
	}
	return n
}
