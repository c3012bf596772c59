package process

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// StoredFile is a descriptor that a service stored with FDSTORE=1.
type StoredFile struct {
	FD   int
	Name string
	Key  string // under which tier 1 holds it

	number uint64 // in order of arrival
}

// Store keeps what a service stored, sd_pid_notify_with_fds(3), in order of
// arrival. The zero value is empty.
type Store struct {
	files []StoredFile
	count uint64 // ever, for their keys. Invariant: no file's number is above it
}

// Files are what is stored, the oldest first.
func (s *Store) Files() []StoredFile { return s.files }

// Add stores a descriptor for a service.
func (s *Store) Add(service, name string, fd int) StoredFile {
	s.count++
	f := StoredFile{FD: fd, Name: cmp.Or(name, "stored"), number: s.count}
	f.Key = storePrefix(service) + strconv.FormatUint(s.count, 10) + "/" + f.Name
	s.files = append(s.files, f)
	return f
}

// Drop takes out the files that gone picks. Their descriptors are dropped's to
// close.
func (s *Store) Drop(gone func(StoredFile) bool, dropped func(StoredFile)) {
	s.files = slices.DeleteFunc(s.files, func(f StoredFile) bool {
		if !gone(f) {
			return false
		}
		dropped(f)
		return true
	})
}

// Restore takes back, out of what tier 1 held, what a service had stored before
// this process began.
func (s *Store) Restore(service string, held map[string][]int) {
	for key, fds := range held {
		rest, ok := strings.CutPrefix(key, storePrefix(service))
		if !ok || len(fds) != 1 {
			continue
		}
		number, name, _ := strings.Cut(rest, "/")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			continue
		}
		s.count = max(s.count, n)
		s.files = append(s.files, StoredFile{FD: fds[0], Name: name, Key: key, number: n})
		delete(held, key)
	}
	slices.SortFunc(s.files, func(a, b StoredFile) int { return cmp.Compare(a.number, b.number) })
}

// storePrefix begins the keys of a service among what tier 1 holds; number and
// name follow, so that a successor knows both.
func storePrefix(service string) string { return "fdstore/" + service + "/" }
