package supervise

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"rlminit/wire"
)

// tagTable is which service has which tag. It is a memfd that tier 1 holds too,
// for a tag decides who may command: a successor must not learn it from a file
// that a service can write, as a status is.
type tagTable struct {
	fd   int
	left map[mark]uint32 // a predecessor's, until their services claim them
	low  uint32
}

// tagsKey names it among what tier 1 holds.
const tagsKey = "tags"

// mark stands for a service's name, which may be long. The zero mark is nobody's.
type mark [16]byte

func markOf(name string) mark {
	sum := sha256.Sum256([]byte(name))
	return mark(sum[:])
}

// errNoTag parks a service until a tag comes free. Run without one, it would be
// taken for somebody who may command.
var errNoTag = errors.New("all tags are in use; set tags to a wider range, or remove services")

// openTags takes the table over, or makes it and sees to it that tier 1 holds it
// before anybody has a tag.
func (s *Supervisor) openTags() error {
	low, high := s.policy.TagLow, s.policy.TagHigh
	if !s.tagged || low == 0 {
		return nil
	}
	size := int(high-low+1) * len(mark{})
	if held := s.takeHeld(tagsKey); len(held) == 1 {
		s.table = tagTable{held[0], map[mark]uint32{}, low}
		return s.table.read(size)
	}
	fd, err := unix.MemfdCreate("tags", unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(fd, int64(size))
	}
	if err != nil {
		return fmt.Errorf("cannot note which service has which tag: %w", err)
	}
	s.table = tagTable{fd, map[mark]uint32{}, low}
	s.link.send(&wire.Hold{Key: tagsKey}, []int{fd}, nil)
	s.link.flush()
	return nil
}

// read learns what a predecessor noted.
func (t tagTable) read(size int) error {
	content := make([]byte, size)
	if n, err := unix.Pread(t.fd, content, 0); err != nil || n != size {
		return fmt.Errorf("cannot read which service has which tag: %d of %d bytes, %w", n, size, err)
	}
	for tag := t.low; len(content) > 0; tag++ {
		if m := mark(content); m != (mark{}) {
			t.left[m] = tag
		}
		content = content[len(mark{}):]
	}
	return nil
}

// note writes whose a tag is: memory, where writing fails only without any left.
func (t tagTable) note(tag uint32, m mark) error {
	_, err := unix.Pwrite(t.fd, m[:], int64(tag-t.low)*int64(len(m)))
	return err
}

// allotTag gives u the tag that it has had so far, or a free one: the next after
// the last that was given, for tier 1 may still know a tag just freed as
// another's. It tells whether u has what it is to have.
func (s *Supervisor) allotTag(u *unit) bool {
	low, high := s.policy.TagLow, s.policy.TagHigh
	if !s.tagged || low == 0 || u.tag != 0 {
		return true
	}
	name := markOf(u.name)
	if tag, had := s.table.left[name]; had {
		delete(s.table.left, name)
		u.tag, s.tags[tag] = tag, u
		return true
	}
	taken := map[uint32]bool{}
	for _, tag := range s.table.left {
		taken[tag] = true
	}
	for range high - low + 1 {
		if s.lastTag++; s.lastTag < low || s.lastTag > high {
			s.lastTag = low
		}
		if s.tags[s.lastTag] == nil && !taken[s.lastTag] {
			if s.table.note(s.lastTag, name) != nil {
				return false
			}
			u.tag, s.tags[s.lastTag] = s.lastTag, u
			return true
		}
	}
	return false
}

// freeTag takes u's tag back.
func (s *Supervisor) freeTag(u *unit) {
	if u.tag == 0 {
		return
	}
	delete(s.tags, u.tag)
	_ = s.table.note(u.tag, mark{}) // or it stays with a service of that name
	u.tag = 0
}

// freeRest takes back the tags whose services are no more.
func (s *Supervisor) freeRest() {
	for _, tag := range s.table.left {
		_ = s.table.note(tag, mark{})
	}
	clear(s.table.left)
}
