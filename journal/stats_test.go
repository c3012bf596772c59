package journal

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"
)

// What is counted is what the disk has: each record and byte of it, and what it
// did not take.
func TestStats(t *testing.T) {
	m := newModel()
	o := openModel(t, m, "0123abcd")
	defer o.Close()
	o.add(t, "one", "two")
	o.Note(say("noted"))
	o.Flush(context.Background())
	s := o.Stats()
	name := segmentName(1)
	if len(m.names) != 2 || m.names[name] == nil {
		t.Fatalf("there is not one segment: %v", m.names)
	}
	if size := int64(len(m.names[name].data)); s.Segment != size || s.Bytes != uint64(size) {
		t.Errorf("%d bytes are on the disk: %+v", size, s)
	}
	if s.Records != 4 || s.Segments != 1 || s.Syncs != 3 || s.SyncTime <= 0 || s.Refused != 0 || s.Dropped != 0 {
		t.Errorf("a snapshot, two records and a note: %+v", s)
	}

	m.mu.Lock()
	m.fault = func(string) error { return unix.EIO }
	m.mu.Unlock()
	if _, err := o.Append(context.Background(), say("three"), say("four")); err == nil {
		t.Fatal("a disk that fails takes a record")
	}
	o.Note(say("a note that fails"))
	o.Flush(context.Background())
	before, s := s, o.Stats()
	if s.Refused != 2 || s.Dropped != 1 || s.Records != before.Records || s.Bytes != before.Bytes {
		t.Errorf("two records and a note were refused: %+v", s)
	}

	m.mu.Lock()
	m.fault = nil
	m.mu.Unlock()
	o.add(t, "five")
	s = o.Stats()
	// The record that says how many notes are missing is one too.
	if s.Refused != 2 || s.Dropped != 1 || s.Records < before.Records+2 {
		t.Errorf("after that the disk works: %+v", s)
	}
}
