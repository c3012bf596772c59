package check

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// State is what a gateway keeps in its directory: the fence under which it was written,
// and when.
type State struct{ Fence, At int64 }

// Torn is what a gateway finds where there is a file that no gateway wrote.
var Torn = State{-1, -1}

// Compare orders states: that of a higher fence is newer, and of one fence the later one.
func (s State) Compare(other State) int {
	return cmp.Or(cmp.Compare(s.Fence, other.Fence), cmp.Compare(s.At, other.At))
}

const stateFile = "state"

// ReadState reads the state in a directory; the zero State if there is none.
func ReadState(dir string) (State, error) {
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("cannot read the state: %w", err)
	}
	var s State
	if n, err := fmt.Sscanf(string(text), "%d %d\n", &s.Fence, &s.At); n != 2 || err != nil || string(text) != s.text() {
		return Torn, nil
	}
	return s, nil
}

// WriteState writes a state into a directory, whole or not at all.
func WriteState(dir string, s State) error {
	file := filepath.Join(dir, stateFile)
	err := os.WriteFile(file+".new", []byte(s.text()), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("cannot keep the state: %w", err)
	}
	return nil
}

func (s State) text() string { return fmt.Sprintf("%d %d\n", s.Fence, s.At) }

// Save is data of a profile that etcd has named as current.
type Save struct {
	Profile  string
	Fence    int64 // of who saved
	Revision int64 // of etcd, from which on it was current
	At       int64 // it has what was written before
}

// Sure is how exactly the beginning of a save is known, whose time is one of another clock, and
// what was written before it.
const Sure = int64(20 * time.Millisecond)

// lost finds gateways whose directory had less than what had been stored before their
// claim, or less than what a gateway had left there of a claim that was given back or is the
// same. Runs are in the order of their starts.
func (h *History) lost(runs []Run) []Finding {
	var all []Finding
	for i, r := range runs {
		fence, ok := r.fence()
		if !ok {
			continue
		}
		if r.Found == Torn {
			all = append(all, Finding{Lost, r.Profile, r.Start, r.Last, r.Member + " began with a state that nobody had written"})
			continue
		}
		whence, least := "a save before its claim", h.stored(r.Profile, fence, runs)
		for _, before := range runs[:i] {
			s := before.left(min(before.Last, r.Start))
			c, _ := h.claimOf(before)
			switch same := before.Fence == r.Fence && before.Member == r.Member; {
			case s.Compare(least) <= 0:
			case same:
				whence, least = "the gateway before it", s
			case c.Returned:
				whence, least = "the gateway of a claim that was given back", s
			}
		}
		if r.Found.Compare(least) < 0 {
			all = append(all, Finding{Lost, r.Profile, r.Start, r.Last, fmt.Sprintf(
				"fence %s on %s began with what fence %d had written at %d; %s had what fence %d had written at %d",
				r.Fence, r.Member, r.Found.Fence, r.Found.At, whence, least.Fence, least.At)})
		}
	}
	return all
}

// stored is what the saves before a claim had at least: what one of them had, all later ones
// must have.
func (h *History) stored(profile string, fence int64, runs []Run) (least State) {
	for _, save := range h.Saves {
		if save.Profile != profile || save.Revision >= fence {
			continue
		}
		for _, r := range runs {
			if f, ok := r.fence(); !ok || f != save.Fence || r.Start > save.At-Sure {
				continue
			}
			if s := r.left(save.At - Sure); s.Compare(least) > 0 {
				least = s
			}
		}
	}
	return least
}

// left is what was in a gateway's directory at a time at which it ran, or after it.
func (r *Run) left(at int64) State {
	i, _ := slices.BinarySearch(r.Kept, at+1)
	if fence, ok := r.fence(); ok && i > 0 {
		return State{fence, r.Kept[i-1]}
	}
	return r.Found
}

// Losses are, for each claim whose first gateway began at another member than the one before,
// how much of what that one had found or written last was not there, shortest first.
func Losses(h History) (all []time.Duration) {
	for _, profile := range h.profiles() {
		runs := h.runsOf(profile)
		for i := 1; i < len(runs); i++ {
			before, r := runs[i-1], runs[i]
			last := before.left(before.Last)
			if r.Fence != before.Fence && r.Member != before.Member && r.Found != Torn && last != (State{}) {
				all = append(all, max(0, time.Duration(last.At-max(r.Found.At, runs[0].Start))))
			}
		}
	}
	slices.Sort(all)
	return all
}
