package tee

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// Lines beyond what waits for a stdout that nobody reads are skipped, and their number is
// told where they would have been.
func TestOnePastWhatWaits(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	tee, err := New(int(w.Fd()), false)
	if err != nil {
		t.Fatal(err)
	}
	tee.mu.Lock() // nothing is written meanwhile
	tee.waiting = bytes.Repeat([]byte("w\n"), most/2)
	tee.take([]byte("too much\n"))
	if tee.skipped != 1 || len(tee.waiting) != most {
		t.Errorf("%d are skipped, and %d bytes wait", tee.skipped, len(tee.waiting))
	}
	tee.waiting = nil
	tee.take([]byte("more\n"))
	tee.more.Signal()
	tee.mu.Unlock()
	tee.Close(time.After(20 * time.Second))
	w.Close()
	all, err := io.ReadAll(r)
	if err != nil || !strings.Contains(string(all), "skipped 1 lines here") || !strings.HasSuffix(string(all), "more\n") {
		t.Errorf("%q, %v", all, err)
	}
}
