package logs

import (
	"bytes"
	"slices"
	"sync/atomic"
)

// heldMost is how many bytes of unfinished lines all slots may have together
// before such lines are cut early.
const heldMost = 64 << 20

// memory is what the arena keeps of each slot, and what that comes to in all. It is
// the collector's, and never touches a file.
type memory struct {
	arena  *arena
	slots  []*Slot // by index; nil: not open
	held   int     // bytes of unfinished lines
	queued int     // bytes in queues
	dirty  []*Slot // with pages in their areas
	tend   func()  // has tidy called in a while
}

// slotAt is the slot of an index, if it is open.
func (m *memory) slotAt(index int) *Slot {
	if index < len(m.slots) {
		return m.slots[index]
	}
	return nil
}

// unchanged is the result that changes nothing in s.
func (m *memory) unchanged(s *Slot) result {
	e := s.entry
	return result{
		end: m.arena.base(), part: e.part[0],
		exitID: e.exitID, queueHead: e.queueHead, queueTail: e.queueTail,
		lostBytes: e.lostBytes, lostLines: e.lostLines,
		saidBytes: e.saidBytes, saidLines: e.saidLines,
	}
}

// commit puts a result into force, all of it or, where this process dies
// before the phase is stored, nothing. The stage must be empty or hold s's.
func (m *memory) commit(s *Slot, res result) error {
	r := m.arena.record
	r.res, r.slot = res, uint32(s.index)
	atomic.StoreUint32(&r.phase, applying)
	m.arena.at()
	return m.apply()
}

// apply puts the record's result into force. It may be done over.
func (m *memory) apply() error {
	r := m.arena.record
	res, e := &r.res, m.arena.entry(int(r.slot))
	if res.moved > 0 {
		rest, at := make([]byte, res.moved), partAt(int(r.slot), res.stream)
		if err := m.arena.load(rest, at+int64(res.movedFrom)); err != nil {
			return err
		}
		if err := m.arena.store(rest, at); err != nil {
			return err
		}
	}
	if res.partLen > 0 {
		at := partAt(int(r.slot), res.stream) + int64(res.partAt)
		if err := m.arena.store(m.arena.mem[res.partFrom:res.partFrom+uint64(res.partLen)], at); err != nil {
			return err
		}
	}
	queued := int(res.queueTail-res.queueHead) - int(e.queueTail-e.queueHead)
	if s := m.slots[r.slot]; !s.soiled && (queued != 0 || res.part != e.part[res.stream]) {
		s.soiled = true
		m.dirty = append(m.dirty, s)
		m.tend()
	}
	m.queued += queued
	m.held += int(res.part) - int(e.part[res.stream])
	e.part[res.stream] = res.part
	m.arena.at()
	e.exitID = res.exitID
	e.queueHead, e.queueTail = res.queueHead, res.queueTail
	m.arena.at()
	atomic.StoreUint64(&e.lostBytes, res.lostBytes)
	atomic.StoreUint64(&e.lostLines, res.lostLines)
	e.saidBytes, e.saidLines = res.saidBytes, res.saidLines
	m.arena.at()
	atomic.StoreUint64(&m.arena.record.base, res.end)
	m.arena.at()
	atomic.StoreUint32(&r.phase, idle)
	m.arena.at()
	return nil
}

// crowded says that there is no room for n more bytes of unfinished lines.
func (m *memory) crowded(n int) bool { return m.held+n > heldMost }

func (m *memory) room(s *Slot) int {
	if s.cfg.File && m.queued < queuedMost {
		return queueMost
	}
	return queueKeep
}

// enqueue puts out at the queue's end, once res is committed. The oldest lines
// make room for it; where that is not enough, so do those at out's beginning,
// and their size in bytes is returned.
func (m *memory) enqueue(s *Slot, out []byte, res *result) (cut int) {
	e, room := s.entry, m.room(s)
	if len(out) > room {
		cut = len(out)
		if i := bytes.IndexByte(out[len(out)-room-1:], '\n'); i >= 0 {
			cut = len(out) - room + i
		}
		defer m.lose(s, out[:cut], res)
		out = out[cut:]
	}
	if excess := int(e.queueTail-e.queueHead) + len(out) - room; excess > 0 {
		m.drop(s, excess)
		res.queueHead, res.lostBytes, res.lostLines = e.queueHead, e.lostBytes, e.lostLines
	}
	m.ring(s.index, e.queueTail, out, m.arena.store)
	res.queueTail = e.queueTail + uint64(len(out))
	return cut
}

// lose counts out as lost, where it was to be in a file.
func (m *memory) lose(s *Slot, out []byte, res *result) {
	if s.cfg.File {
		res.lostBytes += uint64(len(out))
		res.lostLines += uint64(bytes.Count(out, []byte{'\n'}))
	}
}

// drop takes whole lines of at least excess bytes from the queue's beginning.
// It is in force at once: what comes next overwrites them.
func (m *memory) drop(s *Slot, excess int) {
	e := s.entry
	held := make([]byte, min(e.queueTail-e.queueHead, uint64(excess)+4096))
	for {
		m.ring(s.index, e.queueHead, held, m.arena.load)
		if i := bytes.IndexByte(held[excess-1:], '\n'); i >= 0 {
			held = held[:excess+i]
			break
		}
		if all := e.queueTail - e.queueHead; uint64(len(held)) < all {
			held = make([]byte, min(all, 2*uint64(len(held))))
			continue
		}
		break
	}
	now := m.unchanged(s)
	now.queueHead += uint64(len(held))
	if e.sendEnd > e.queueHead {
		atomic.StoreUint64(&e.sendEnd, 0) // nobody can tell any more how far that got
	}
	m.lose(s, held, &now)
	must(m.commit(s, now))
}

// ring applies store or load to b at a position of the queue.
func (m *memory) ring(slot int, at uint64, b []byte, access func([]byte, int64) error) {
	place := int64(at % queueSize)
	first := min(int64(len(b)), queueSize-place)
	must(access(b[:first], queueAt(slot)+place))
	if first < int64(len(b)) {
		must(access(b[first:], queueAt(slot)))
	}
}

// sent takes n bytes, which are in the file, off the queue.
func (m *memory) sent(s *Slot, n int) {
	res := m.unchanged(s)
	m.arena.at()
	res.queueHead += uint64(n)
	must(m.commit(s, res))
	atomic.StoreUint64(&s.entry.sendEnd, 0)
}

// place puts a slot at an index.
func (m *memory) place(index int, s *Slot) {
	for len(m.slots) <= index {
		m.slots = append(m.slots, nil)
	}
	m.slots[index] = s
}

// count adds what a slot holds, or takes it off.
func (m *memory) count(e *entry, sign int) {
	m.held += sign * (int(e.part[0]) + int(e.part[1]))
	m.queued += sign * int(e.queueTail-e.queueHead)
}

// tidy gives back the pages of areas that hold nothing any more.
func (m *memory) tidy() {
	for _, s := range m.dirty {
		s.soiled = false
		if e := s.entry; e.part == [2]uint32{} && e.queueTail == e.queueHead {
			m.arena.free(partAt(s.index, 0), areaSize)
		}
	}
	m.dirty = m.dirty[:0]
}

// forget empties a slot's place.
func (m *memory) forget(s *Slot) {
	m.count(s.entry, -1)
	m.arena.free(partAt(s.index, 0), areaSize)
	*s.entry = entry{}
	m.slots[s.index] = nil
}

// clean takes a slot from the list of those that tidy looks at.
func (m *memory) clean(s *Slot) {
	if s.soiled {
		m.dirty = slices.DeleteFunc(m.dirty, func(other *Slot) bool { return other == s })
		s.soiled = false
	}
}
