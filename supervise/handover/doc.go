// Package handover is what outlives the supervisor because PID 1 holds it too:
// descriptors under a key, and one table of rows, of services, tags, operations,
// definitions and what of the boot is done. HANDOVER.md has what is in it and the order
// in which it is written. A successor finds it with what tier 1 gives back at its start;
// no service can write any of it.
package handover

// Held are the descriptors that tier 1 gave back, by the key under which a
// predecessor had them held. What nobody takes is closed at the end of the boot.
type Held map[string][]int

// Take hands over the descriptors under key, if any.
func (h Held) Take(key string) []int {
	fds := h[key]
	delete(h, key)
	return fds
}

// Hold has tier 1 hold a descriptor under a key, and returns when it does. A
// negative one: nothing any more.
type Hold func(key string, fd int)
