package supervise

import (
	"runtime"
	"sync"
)

// threadsReserved is how many threads the runtime has at hand beside those that
// it starts by itself: one for each thing that may wait in the kernel at the same
// time (the journal, the publisher, the registry, a log, a launch).
const threadsReserved = 5

// reserveThreads has the runtime start threads while there is room for them. A
// service that uses up the container's processes would otherwise end us: a
// runtime that cannot have a thread when it needs one gives up.
func reserveThreads() {
	var started sync.WaitGroup
	release := make(chan struct{})
	for range threadsReserved {
		started.Add(1)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread() // or the thread would end with the goroutine
			started.Done()
			<-release
		}()
	}
	started.Wait()
	close(release)
}
