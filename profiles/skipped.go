package profiles

import (
	"fmt"
	"sync"
)

// severally is how many of what is skipped are said one by one; of more there is
// one line, and another when there are ten times as many.
const severally = 3

// skipped is what a look at the profiles directory left out, by why.
type skipped struct {
	mu  sync.Mutex
	all map[string]*left
}

// left are the entries that were left out for one reason.
type left struct {
	count int
	lines []string // of the first few
	names []string
}

// Why an entry is no profile.
const (
	noDirectory = "they are no directories"
	noName      = "no profile can have such a name"
)

// add notes one, with the line that is said of it alone.
func (s *skipped) add(why, name, line string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]*left{}
	}
	l := s.all[why]
	if l == nil {
		l = &left{}
		s.all[why] = l
	}
	if l.count++; l.count <= severally {
		l.lines, l.names = append(l.lines, line), append(l.names, name)
	}
}

// tell says what was left out.
func (s *Store) tell(what *skipped) {
	for why, l := range what.all {
		if l.count <= severally {
			for _, line := range l.lines {
				s.sayOnce(line)
			}
			continue
		}
		s.mu.Lock()
		more := l.count >= 10*max(1, s.skipped[why])
		if more {
			s.skipped[why] = l.count
		}
		s.mu.Unlock()
		if more {
			s.say(fmt.Sprintf("%d entries of %s are skipped, such as %q: %s", l.count, s.home.Path(profilesDir), l.names[0], why))
		}
	}
}
