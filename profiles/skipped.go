package profiles

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
)

// severally is how many of what is skipped are said one by one; of more there is
// one line, and another when there are ten times as many.
const severally = 3

// skipped are the entries that a look at the profiles directory left out, by reason.
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

// told are the messages to people. It may be used from any goroutine.
type told struct {
	say func(string)

	mu      sync.Mutex
	said    map[string]bool
	skipped map[string]int // how many were said to be left out, by why
}

func newTold(say func(string)) *told {
	return &told{say: say, said: map[string]bool{}, skipped: map[string]int{}}
}

// maxSaid bounds what once remembers; hostile names must not fill memory.
const maxSaid = 4096

// once says a line that was not said yet.
func (t *told) once(line string) {
	t.mu.Lock()
	if t.said[line] || len(t.said) >= maxSaid {
		t.mu.Unlock()
		return
	}
	t.said[line] = true
	t.mu.Unlock()
	t.say(line)
}

// failure says why something could not be done, where it counts little. That there was
// nothing to do it to is none.
func (t *told) failure(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.once(err.Error())
	}
}

// entries names the entries left out of a directory.
func (t *told) entries(what *skipped, dir string) {
	for why, l := range what.all {
		if l.count <= severally {
			for _, line := range l.lines {
				t.once(line)
			}
			continue
		}
		t.mu.Lock()
		more := l.count >= 10*max(1, t.skipped[why])
		if more {
			t.skipped[why] = l.count
		}
		t.mu.Unlock()
		if more {
			t.say(fmt.Sprintf("%d entries of %s are skipped, such as %q: %s", l.count, dir, l.names[0], why))
		}
	}
}
