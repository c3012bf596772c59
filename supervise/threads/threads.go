// Package threads keeps the runtime from wanting a thread that it cannot have. A
// service that uses up the container's processes would end us by that: a runtime
// that needs a thread and gets none gives up. So some are made while there is room,
// and what may wait in the kernel takes turns.
package threads

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// How many are at hand beside those that the runtime starts by itself. Where the
// container's limit on processes is low, services need the room more.
const (
	most       = 24
	fewest     = 5
	fewestPIDs = 20  // with which a container starts at all
	plenty     = 500 // a limit from which on nobody needs to take turns

	shareOfPlenty = 16
)

// limit is the container's, and atHand how many threads are at hand.
var (
	limit  = sync.OnceValue(pidsLimit)
	atHand = sync.OnceValue(func() int { return enough(limit()) })
)

func enough(limit int) int { return max(fewest, min(most, (limit-fewestPIDs)/2)) }

// Share is how many may do something at the same time that may wait in the kernel:
// a quarter of the threads. A quarter each is for writes to the volume, launches
// and requests, and the rest for the loop, the journal, the publisher, the registry
// and the logs.
func Share() int {
	if limit() >= plenty {
		return shareOfPlenty
	}
	return max(2, atHand()/4)
}

// pidsLimit is the container's limit on processes, by the files of cgroup v2 and
// v1; a great many where neither shows one.
func pidsLimit() int {
	for _, file := range []string{"/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"} {
		content, err := os.ReadFile(file)
		if limit, bad := strconv.Atoi(strings.TrimSpace(string(content))); err == nil && bad == nil {
			return limit
		}
	}
	return 1 << 30
}

// Reserve has the runtime start threads while there is room for them.
func Reserve() {
	var started sync.WaitGroup
	release := make(chan struct{})
	for range atHand() {
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

// Turns are a share of the threads, for those who do one kind of thing. With nil
// nobody waits for anybody.
type Turns chan struct{}

// NewTurns is a Share, or nil where there are processes in plenty.
func NewTurns() Turns {
	if limit() >= plenty {
		return nil
	}
	return make(Turns, Share())
}

// Take waits for a turn, which done ends. It ends by itself after lasts: who waits
// long, for a file system that does not answer or for a service, keeps nobody else
// waiting.
func (t Turns) Take(lasts time.Duration) (done func()) {
	if t == nil {
		return func() {}
	}
	t <- struct{}{}
	over := sync.OnceFunc(func() { <-t })
	late := time.AfterFunc(lasts, over)
	return func() {
		late.Stop()
		over()
	}
}
