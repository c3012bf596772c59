package journal

import (
	"bytes"
	"testing"
	"time"
)

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

// Damages one past the bound are skipped like the others, and are not told one by one.
func TestOneDamageTooMany(t *testing.T) {
	var text []byte
	for n := range maxBad + 1 {
		text = append(text, "rubbish\n"...)
		text = appendRecord(text, uint64(n+1), time.Unix(1, 0), "0123abcd", "x", []byte("{}"))
	}
	found, err := scan(bytes.NewReader(text), 0, -1, nil)
	if err != nil || found.records != maxBad+1 || len(found.bad) != maxBad {
		t.Errorf("%d records and %d damages, %v", found.records, len(found.bad), err)
	}
}
