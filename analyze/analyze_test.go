package analyze

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/control"
)

var start = time.Date(2026, 5, 24, 18, 5, 33, 0, time.UTC)

// story is events of SERVICE STATE at milliseconds.
func story(steps ...any) []control.Event {
	var events []control.Event
	for i := 0; i < len(steps); i += 3 {
		at := start.Add(time.Duration(steps[i].(int)) * time.Millisecond)
		events = append(events, control.Event{At: at, Service: steps[i+1].(string), To: steps[i+2].(string)})
	}
	return events
}

func TestBoot(t *testing.T) {
	events := story(
		10, "web", "waiting", 10, "db", "starting", 10, "cache", "starting", 12, "cache", "running",
		300, "db", "running", 301, "web", "starting", 900, "web", "running",
		905, "seed", "starting", 910, "seed", "exited",
		950, "db", "stopping", 960, "db", "starting", 5000, "db", "running", // a later start
		20, "stuck", "starting",
	)
	person := uint32(0)
	events = append(events, control.Event{At: start.Add(8 * time.Second), Service: "later", To: "starting", Actor: &person},
		control.Event{At: start.Add(9 * time.Second), Service: "later", To: "running"})
	r := Boot(start, events, []control.Dependencies{
		{Service: "web", Requires: []string{"db"}, Wants: []string{"cache"}, After: []string{"seed", "gone"}},
	})
	var names []string
	for _, s := range r.Services {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, []string{"cache", "db", "web", "seed"}) || r.TookS != 0.91 {
		t.Errorf("%v in %v s", names, r.TookS)
	}
	web := r.Services[2]
	if web.After != "db" || web.BeganS != 0.01 || web.StartedS != 0.301 || web.ReadyS != 0.9 || web.Outcome != "running" {
		t.Errorf("%+v", web)
	}
	if !slices.Equal(r.Chain, []string{"seed"}) {
		t.Errorf("the chain is %v", r.Chain)
	}
	r = Boot(start, events[:7], []control.Dependencies{{Service: "web", After: []string{"db"}}, {Service: "db", After: []string{"web"}}})
	if !slices.Equal(r.Chain, []string{"web", "db"}) {
		t.Errorf("the chain is %v", r.Chain)
	}
	// A profile that is made later is not of the boot.
	r = Boot(start, story(10, "a", "starting", 20, "a", "running", 8000, "made", "starting", 8010, "made", "running"), nil)
	if len(r.Services) != 1 || r.TookS != 0.02 {
		t.Errorf("%+v", r)
	}
	if r := Boot(start, nil, nil); len(r.Services) != 0 || r.Chain == nil || r.TookS != 0 {
		t.Errorf("%+v", r)
	}
}

// The drawing is XML, with a text for each service, whatever its name.
func TestSVG(t *testing.T) {
	for _, r := range []Report{
		{}, Boot(start, story(10, `a<&">`, "starting", 70_000, `a<&">`, "running", 0, "b", "running"), nil),
	} {
		var out bytes.Buffer
		if err := r.SVG(&out); err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(bytes.NewReader(out.Bytes())); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in\n%s", err, out.String())
			}
		}
		if n := strings.Count(out.String(), "running)"); n != len(r.Services) {
			t.Errorf("%d services are drawn, of %d", n, len(r.Services))
		}
	}
	if err := (Report{}).SVG(broken{}); err == nil {
		t.Error("a write that failed is not told")
	}
	for _, total := range []float64{0.001, 0.03, 1, 7, 61, 3600} {
		if n := total / tickOf(total); n < 3.9 || n > 10 {
			t.Errorf("%v s has %v marks", total, n)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no room") }
