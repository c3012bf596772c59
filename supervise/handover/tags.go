package handover

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Tags is which service has which tag, a supplementary group of its own. It is a
// memfd that tier 1 holds too, for a tag decides who may command: a successor
// must not learn it from a file that a service can write, as a status is. The
// zero value gives no tags: the container cannot, or is not to.
type Tags struct {
	fd        int
	low, high uint32            // what may be given, both included; 0: nothing
	owner     map[uint32]string // Invariant: each has the mark of its name in the table
	left      map[mark]uint32   // a predecessor's, until their services claim them
	last      uint32            // that was given
}

// tagsKey names the table among what tier 1 holds.
const tagsKey = "tags"

// mark stands for a service's name, which may be long. The zero mark is nobody's.
type mark [16]byte

const markBytes = int64(len(mark{}))

func markOf(name string) mark {
	sum := sha256.Sum256([]byte(name))
	return mark(sum[:])
}

// ErrNoTag parks a service until a tag comes free. Run without one, it would be
// taken for somebody who may command.
var ErrNoTag = errors.New("all tags are in use; set tags to a wider range, or remove services")

// OpenTags takes the table of the tags low to high over, or makes it and has
// tier 1 hold it before anybody has a tag.
func OpenTags(low, high uint32, held Held, hold Hold) (*Tags, error) {
	if low == 0 {
		return &Tags{}, nil
	}
	t := &Tags{low: low, high: high, owner: map[uint32]string{}, left: map[mark]uint32{}}
	size := int64(high-low+1) * markBytes
	if fds := held.Take(tagsKey); len(fds) == 1 {
		t.fd = fds[0]
		return t, t.read(int(size))
	}
	var err error
	if t.fd, err = unix.MemfdCreate("tags", unix.MFD_CLOEXEC); err == nil {
		err = unix.Ftruncate(t.fd, size)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot note which service has which tag: %w", err)
	}
	hold(tagsKey, t.fd)
	return t, nil
}

// read learns what a predecessor noted.
func (t *Tags) read(size int) error {
	content := make([]byte, size)
	if n, err := unix.Pread(t.fd, content, 0); err != nil || n != size {
		return fmt.Errorf("cannot read which service has which tag: %d of %d bytes, %w", n, size, err)
	}
	for tag := t.low; len(content) > 0; tag++ {
		if m := mark(content); m != (mark{}) {
			t.left[m] = tag
		}
		content = content[markBytes:]
	}
	return nil
}

// note writes whose a tag is: memory, where writing fails only without any left.
func (t *Tags) note(tag uint32, m mark) error {
	_, err := unix.Pwrite(t.fd, m[:], int64(tag-t.low)*markBytes)
	return err
}

// Owner is the name of the service that has a tag; "" if none has.
func (t *Tags) Owner(tag uint32) string { return t.owner[tag] }

// Allot gives a service the tag that it has had so far, or a free one: the next
// after the last that was given, for tier 1 may still know a tag just freed as
// another's. The tag is 0 where there are none to give; ErrNoTag: all are taken.
func (t *Tags) Allot(name string) (tag uint32, err error) {
	if t.low == 0 {
		return 0, nil
	}
	m := markOf(name)
	if tag, had := t.left[m]; had {
		delete(t.left, m)
		t.owner[tag] = name
		return tag, nil
	}
	taken := map[uint32]bool{}
	for _, tag := range t.left {
		taken[tag] = true
	}
	for range t.high - t.low + 1 {
		if t.last++; t.last < t.low || t.last > t.high {
			t.last = t.low
		}
		if t.owner[t.last] == "" && !taken[t.last] {
			if t.note(t.last, m) != nil {
				return 0, ErrNoTag
			}
			t.owner[t.last] = name
			return t.last, nil
		}
	}
	return 0, ErrNoTag
}

// Free takes a tag back; 0 is none.
func (t *Tags) Free(tag uint32) {
	if tag == 0 {
		return
	}
	delete(t.owner, tag)
	_ = t.note(tag, mark{}) // or it stays with a service of that name
}

// FreeRest takes back the tags whose services are no more.
func (t *Tags) FreeRest() {
	for _, tag := range t.left {
		_ = t.note(tag, mark{})
	}
	clear(t.left)
}
