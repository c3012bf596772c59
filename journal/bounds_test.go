package journal

import "testing"

// The note after the last that fits is dropped and counted; a record that somebody waits for
// is taken all the same.
func TestOneNoteTooMany(t *testing.T) {
	q := &queue{wake: make(chan struct{}, 1)}
	for range maxNotes {
		if !q.put(&request{note: true}) {
			t.Fatal("a note is dropped that fits")
		}
	}
	if q.put(&request{note: true}) || q.dropped != 1 {
		t.Errorf("%d are dropped", q.dropped)
	}
	if !q.put(&request{}) {
		t.Error("a record is refused for notes")
	}
}
