package history

import (
	"testing"
	"time"
)

// A job that is run once more, as its container ended, was submitted when it was first.
func TestRunOnceMoreIsSubmittedOnce(t *testing.T) {
	h := NewHistory()
	asked := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for i, line := range []string{`{"job":"1","kind":"run"}`, `{"job":"1","kind":"run","attempt":1}`} {
		h.Apply(Record{Type: TypeSubmitted, At: asked.Add(time.Duration(i) * time.Minute), Line: []byte(line)})
	}
	if e := h.Jobs["1"]; e == nil || !e.At.Equal(asked) || e.Attempt != 1 {
		t.Errorf("it is %+v", e)
	}
}
