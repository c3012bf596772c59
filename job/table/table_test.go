package table

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"rlminit/journal/places"
)

// A job that is run once more, as its container ended, was submitted when it was first.
func TestRunOnceMoreIsSubmittedOnce(t *testing.T) {
	h := New()
	asked := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for i, line := range []string{`{"job":"1","kind":"run"}`, `{"job":"1","kind":"run","attempt":1}`} {
		h.Apply(Record{Type: TypeSubmitted, At: asked.Add(time.Duration(i) * time.Minute), Line: []byte(line)})
	}
	if e := h.Jobs["1"]; e == nil || !e.At.Equal(asked) || e.Attempt != 1 {
		t.Errorf("it is %+v", e)
	}
}

// The key of a job is remembered as long as the job is, over a snapshot too.
func TestKeyIsRememberedWithItsJob(t *testing.T) {
	h := New()
	apply := func(kind, line string) { h.Apply(Record{Type: kind, Line: []byte(line)}) }
	end := func(n int) { apply(TypeCompleted, fmt.Sprintf(`{"job":"%d","state":"succeeded"}`, n)) }
	apply(TypeSubmitted, `{"job":"1","kind":"run","key":"K"}`)
	end(1)
	snapshot, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Restore(snapshot); err != nil {
		t.Fatal(err)
	}
	for n := 2; n <= mostOver+1; n++ {
		if e := h.Keyed("K"); e == nil || e.Job != "1" {
			t.Fatalf("before job %d it is that of %+v", n, e)
		}
		apply(TypeSubmitted, fmt.Sprintf(`{"job":"%d","kind":"run"}`, n))
		end(n)
	}
	if e := h.Keyed("K"); e != nil || len(h.keys) != 0 {
		t.Errorf("it is that of %+v, of %v", e, h.keys)
	}
}

// The key of a write goes with the profile that it was into: another one of the name
// has yet to be written into.
func TestKeyOfAWriteThatHasMoved(t *testing.T) {
	h := New()
	h.Apply(Record{Type: TypeSubmitted, Line: []byte(`{"job":"1","kind":"write","profile":"alice","path":"f","key":"K"}`)})
	if e := h.Keyed("K"); e == nil || e.Job != "1" {
		t.Fatalf("it is that of %+v", e)
	}
	h.Moved(places.Move{From: places.InProfile("alice"), To: places.InProfile("bob")})
	if e := h.Keyed("K"); e != nil {
		t.Errorf("it is that of job %s, which wrote into %s", e.Job, e.Place())
	}
}

// A job of a service's schedule is the service's, also where it was recorded as a
// profile's of that name; that of a gateway's is its profile's.
func TestScheduledJobIsItsServices(t *testing.T) {
	h := New()
	for _, line := range []string{
		`{"job":"1","kind":"schedule","profile":"tick","schedule":"tick"}`,
		`{"job":"2","kind":"schedule","profile":"alice","schedule":"gateway-alice"}`,
		`{"job":"3","kind":"schedule","service":"tick","schedule":"tick"}`,
	} {
		h.Apply(Record{Type: TypeSubmitted, Line: []byte(line)})
	}
	for id, want := range map[string][2]string{"1": {"", "tick"}, "2": {"alice", ""}, "3": {"", "tick"}} {
		if e := h.Jobs[id]; [2]string{e.Profile, e.Service} != want {
			t.Errorf("job %s is of profile %q and service %q", id, e.Profile, e.Service)
		}
	}
}
