package doctor

import (
	"fmt"
	"strings"
	"time"
)

// slowStep is how long a step of the boot may take before it is told: nothing is
// served meanwhile.
const slowStep = 10 * time.Second

// remedies are what to do about steps of rlminit's own that take long.
var remedies = map[string]string{
	"owners":      "leave deep out of own, or list the directories that need it alone",
	"directories": "seed from a smaller tree, or put what is large into the image and read it there",
	"volume":      "the volume's disk is slow to answer: docker logs has what it waited for",
}

// cautions are what the configuration says that cannot be as it seems.
func (e *examination) cautions() {
	for _, line := range e.Cautions {
		what, remedy, _ := strings.Cut(line, "; ")
		e.add("configuration", Warn, what, remedy)
	}
}

// boot: where the time before the services went.
func (e *examination) boot() {
	if len(e.Steps) == 0 {
		return
	}
	var all, longest time.Duration
	var name string
	for _, s := range e.Steps {
		all += s.Took
		if s.Took > longest {
			longest, name = s.Took, s.Name
		}
		if s.Took >= slowStep {
			remedy := remedies[s.Name]
			if remedy == "" {
				remedy = "rlminit analyze shows what it was; nothing is started before a boot step has ended"
			}
			e.add("boot", Warn, fmt.Sprintf("%s took %s of the last boot", s.Name, s.Took.Round(time.Millisecond)), remedy)
		}
	}
	if longest < slowStep {
		e.add("boot", OK, fmt.Sprintf("the steps of the last boot took %s, the longest of them, %s, %s",
			all.Round(time.Millisecond), name, longest.Round(time.Millisecond)), "")
	}
}
