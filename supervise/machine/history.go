package machine

import "slices"

// History is what counts about earlier runs.
type History struct {
	Starts   []int64 `json:"starts,omitempty"`   // monotonic times of the latest starts, for limit and window
	Tries    int     `json:"tries,omitempty"`    // exponent of the next back-off
	Unready  int     `json:"unready,omitempty"`  // how many of the latest runs in a row were never ready, at most limit
	Restarts int     `json:"restarts,omitempty"` // restarts that nobody asked for
	LastExit *Exit   `json:"last_exit,omitempty"`

	// Unasked are the monotonic times of the latest restarts that nobody asked for, at
	// most UnaskedKept. A command does not clear them: no decision of this package rests
	// on them.
	Unasked []int64 `json:"unasked,omitempty"`

	// LastWords is how the last run ended, if its exit alone does not say that: the
	// service reported its failure, or rlminit had to end it. It is shown until a run
	// was good, or a command starts another.
	LastWords string `json:"last_words,omitempty"`
}

// UnaskedKept is the number of restarts whose times are kept.
const UnaskedKept = 3

// countRestart records a restart that nobody asked for. The slice is copied: the old
// State keeps its own.
func (h *History) countRestart(at int64) {
	h.Restarts++
	h.Unasked = append(slices.Clone(h.Unasked[max(0, len(h.Unasked)-UnaskedKept+1):]), at)
}

// clear forgets earlier starts: after a command they do not count.
func (h *History) clear() { h.Starts, h.Tries, h.Unready, h.LastWords = nil, 0, 0, "" }

// countRun counts the runs in a row that were never ready.
func (h *History) countRun(ready bool, p *Policy) {
	if ready {
		h.Unready = 0
	} else {
		h.Unready = min(h.Unready+1, p.Limit)
	}
}

// countStart records a start, and forgets starts that limit and window no longer
// need. The slice is copied: the old State keeps its own.
func (h *History) countStart(at int64, p *Policy) {
	if p.Limit <= 0 {
		h.Starts = nil
		return
	}
	old := h.Starts
	if n := len(old) - p.Limit + 1; n > 0 {
		old = old[n:]
	}
	for len(old) > 0 && old[0] <= at-int64(p.Window) {
		old = old[1:]
	}
	h.Starts = append(slices.Clone(old), at)
}

// startsBefore counts the starts in the window that ends at the given time, and
// tells when the first of them was.
func (h *History) startsBefore(at int64, p *Policy) (n int, first int64) {
	for _, t := range h.Starts {
		if t > at-int64(p.Window) {
			if n == 0 {
				first = t
			}
			n++
		}
	}
	return n, first
}

// addReport adds the service's report of its failure, after its exit, to the reason.
func (h *History) addReport(reason string, e *Event) string {
	said := explained(reason, e.Errno, e.ExitStatus, h.LastExit)
	if said != reason {
		h.LastWords = said
	}
	return said
}
