package reap

import (
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/reap/say"
	"rlminit/wire"
)

// held is what tier 2 has had us keep: descriptors under keys, which its
// successor gets back.
//
// Invariant: count is the number of descriptors in byKey, and no entry of that is
// empty. Of place.mostHeld that many are taken, and one for each child.
type held struct {
	byKey   map[string][]int
	count   int
	refused map[string]string // keys whose last Hold was refused, and their services

	place    *place
	children *children
	closer   closer
	voice    *say.Voice
}

const (
	longestKey  = 256
	heldReserve = 256 // descriptors that Hold leaves free for the rest
	mostKeys    = 1 << 15
	mostRefused = 1 << 12 // before that many services could not be held, the table of them is full
)

// hold keeps descriptors under a key, in place of those there.
func (h *held) hold(key string, fds []int) {
	if len(fds) == 0 {
		h.release(key)
		return
	}
	more := len(fds) - len(h.byKey[key])
	_, known := h.byKey[key]
	if key == "" || len(key) > longestKey || !known && len(h.byKey) >= mostKeys || h.crowded(more) {
		h.closer.close(fds)
		h.refuse(key)
		return
	}
	h.release(key)
	h.byKey[key] = fds
	h.count += len(fds)
}

// refuse notes whose descriptors could not be kept. What is started with them
// would lose its log at the next end of tier 2, and die of that: it is not
// started, see admit.
func (h *held) refuse(key string) {
	h.voice.Once("no more descriptors can be held for services (limit " + say.Number(h.place.mostHeld) +
		"): what needs them is not started; raise --ulimit nofile")
	if name := serviceOf(key); name != "" && len(h.refused) < mostRefused {
		h.refused[key] = name
	}
}

// serviceOf is the service that a key is about: the part after the first slash,
// up to the next one.
func serviceOf(key string) string {
	_, rest, _ := strings.Cut(key, "/")
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// admit refuses the spawn of a service that lacks a held descriptor.
func (h *held) admit(name string) *refusal {
	for _, of := range h.refused {
		if of == name {
			return &refusal{wire.StepPolicy, unix.EMFILE, "PID 1 cannot hold more descriptors (" + say.Number(h.place.mostHeld) +
				" of them), and without its log it would not survive the end of the supervisor; raise --ulimit nofile"}
		}
	}
	return nil
}

// crowded tells whether so many descriptors more are too many: those that we
// need ourselves, for the next tier 2 above all, shall always be there.
func (h *held) crowded(more int) bool {
	return more > 0 && h.count+len(h.closer.left)+len(h.children.byID)+more > h.place.mostHeld
}

// release closes the descriptors under a key.
func (h *held) release(key string) {
	delete(h.refused, key)
	h.closer.close(h.byKey[key])
	h.count -= len(h.byKey[key])
	delete(h.byKey, key)
}
