package handover

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// States is what a successor is to know of each service: a text for each name,
// in a memfd that tier 1 holds too. What is in it decides what becomes of a
// service, and so it is nowhere that anybody else can write. States.Save has
// returned before anything is acknowledged that the text tells of: HANDOVER.md
// has the order, and what a kill between any two steps leaves.
//
// The file begins with what of the boot is done, BootWork. Then each service has a
// place of two copies. A text is written over the
// older one with a single pwrite(2), and counts with its checksum: one that was
// torn by a kill leaves the copy before it. It is memory, which does not wait.
type States struct {
	fd     int
	seq    uint64         // of the newest copy in the file
	places map[string]int // by name; negative: its newest copy is the second. See place
	free   []int          // places that are nobody's
	next   int            // the first place that was never used
	left   []State        // a predecessor's, as they were found
	write  func(b []byte, at int64) (int, error)
}

// State is the text of a name.
type State struct {
	Name string
	Text []byte
}

// statesKey names the file among what tier 1 holds.
const statesKey = "states"

const (
	copyBytes  = 2 << 10
	placeBytes = 2 * copyBytes // and what comes before the first place
	mostPlaces = 1 << 16       // as many as tier 1 has children
)

// StateMax is how long, in bytes, name and text may be together.
const StateMax = copyBytes - copyHeader - 1

// Faults of Save.
var (
	ErrStateTooLong  = fmt.Errorf("a name and its state have more than %d bytes", StateMax)
	ErrTooManyStates = fmt.Errorf("there are more than %d services", mostPlaces)
)

// OpenStates takes the file over, or makes it and has tier 1 hold it before
// anything stands in it.
func OpenStates(held Held, hold Hold) (*States, error) {
	s := &States{places: map[string]int{}}
	s.Through(func(b []byte, at int64) (int, error) { return unix.Pwrite(s.fd, b, at) })
	if fds := held.Take(statesKey); len(fds) == 1 {
		s.fd = fds[0]
		return s, s.read()
	}
	var err error
	if s.fd, err = unix.MemfdCreate("states", unix.MFD_CLOEXEC); err == nil {
		err = unix.Ftruncate(s.fd, bootWorkBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot keep the states of services for a successor: %w", err)
	}
	hold(statesKey, s.fd)
	return s, nil
}

// Through has the file written by write in place of pwrite(2): a simulation ends
// its supervisor in the middle of one.
func (s *States) Through(write func(b []byte, at int64) (int, error)) { s.write = write }

// BootWork is what of the boot is done.
func (s *States) BootWork() BootWork { return BootWork{s.fd} }

// Left is what a predecessor left, in no order. It is for whoever takes over, once.
func (s *States) Left() []State {
	left := s.left
	s.left = nil
	return left
}

// Save keeps a text for a name, in place of the one before. When it fails, that
// one still counts.
func (s *States) Save(name string, text []byte) error {
	if len(name) > 255 || len(name)+len(text) > StateMax {
		return ErrStateTooLong
	}
	at, known := s.places[name]
	if !known {
		if at = s.vacant(); at == 0 {
			return ErrTooManyStates
		}
	}
	if err := s.put(-at, name, text); err != nil {
		if !known {
			s.free = append(s.free, at)
		}
		return err
	}
	s.places[name] = -at
	return nil
}

// Forget lets a name go.
func (s *States) Forget(name string) error {
	at, known := s.places[name]
	if !known {
		return nil
	}
	if err := s.put(-at, name, nil); err != nil {
		return err
	}
	delete(s.places, name)
	s.free = append(s.free, -at)
	return nil
}

// vacant is a place for a name that has none, 0 if there is none. The sign of a
// place says which of its copies is the newest: negative for the second.
func (s *States) vacant() (place int) {
	if n := len(s.free); n > 0 {
		place, s.free = s.free[n-1], s.free[:n-1]
		return place
	}
	if s.next == mostPlaces {
		return 0
	}
	s.next++
	return s.next
}

// offset is where the copy begins that a place's sign names.
func offset(place int) int64 {
	if place < 0 {
		return int64(-place)*placeBytes + copyBytes
	}
	return int64(place) * placeBytes
}

// put writes the copy of a place; without a text the place is nobody's from then on.
func (s *States) put(place int, name string, text []byte) error {
	s.seq++
	b := make([]byte, copyHeader, copyHeader+1+len(name)+len(text))
	b = append(b, byte(len(name)))
	b = append(append(b, name...), text...)
	number(b, s.seq)
	n, err := s.write(b, offset(place))
	if err == nil && n < len(b) {
		err = errors.New("a part of it was not written")
	}
	if err != nil {
		return fmt.Errorf("cannot keep the state of %s for a successor: %w", name, err)
	}
	return nil
}

// read learns what a predecessor wrote. A copy that is not whole is as good as
// not there.
func (s *States) read() error {
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return fmt.Errorf("cannot read the states of services: %w", err)
	}
	s.next = int(min((st.Size+placeBytes-1)/placeBytes-1, mostPlaces))
	b := make([]byte, placeBytes)
	for place := 1; place <= s.next; place++ {
		n, err := unix.Pread(s.fd, b, offset(place))
		if err != nil {
			return fmt.Errorf("cannot read the states of services: %w", err)
		}
		clear(b[n:])
		first, second := b[:copyBytes], b[copyBytes:]
		seq, name, text := understand(first)
		newest := place
		if other, otherName, otherText := understand(second); other > seq {
			seq, name, text, newest = other, otherName, otherText, -place
		}
		s.seq = max(s.seq, seq)
		if len(text) == 0 {
			s.free = append(s.free, newest)
			continue
		}
		s.places[name] = newest
		s.left = append(s.left, State{name, append([]byte(nil), text...)})
	}
	return nil
}

// understand reads a copy; its number is 0 where it is not whole.
func understand(b []byte) (seq uint64, name string, text []byte) {
	seq, body := numbered(b)
	if len(body) == 0 || int(body[0]) >= len(body) {
		return 0, "", nil
	}
	return seq, string(body[1 : 1+body[0]]), body[1+body[0]:]
}
