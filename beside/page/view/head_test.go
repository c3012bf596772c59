package view

import (
	"bytes"
	"strings"
	"testing"

	"rlminit/control"
)

// The title, the icon and the top of a page name the box and count the services that are ill, by
// their verdict alone.
func TestHead(t *testing.T) {
	p := fleetPages(t, "")
	for _, test := range []struct {
		services []control.Service
		title    string
		top      string
		icon     string
	}{
		{nil, "<title>Services · box · rlminit</title>", "none ill", "well-"},
		{[]control.Service{{Name: "a", State: "exited", Verdict: "ill"}, {Name: "b", State: "failed", Verdict: "off"}, {Name: "c", State: "running", Verdict: "ill"}}, "<title>✖ 2 ill · Services · box · rlminit</title>", "2 ill</a>", "ill-"},
	} {
		h := headOf(test.services)
		h.Box = "box"
		var out strings.Builder
		if err := p.templates["overview"].ExecuteTemplate(&out, "layout", page{Title: "Services", Head: h, Body: overviewBody{}}); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{test.title, test.top, `<link id="icon" rel="icon" href="/static/` + test.icon} {
			if !strings.Contains(out.String(), part) {
				t.Errorf("the page lacks %s:\n%s", part, out.String())
			}
		}
	}
}

// The reason of a revision that was rolled back has its service's log below it: a line for each, and
// in lists the first line alone.
func TestReasonOfARevision(t *testing.T) {
	r := control.Revision{Reason: "alice: exit 3\nno such file\nbye", Steps: []control.RevisionStep{{Reason: "alice: exit 3\nno such file\nbye"}}}
	b := (&planPages{fleetPages(t, "").base}).revisionOf(r)
	if b.Reason != "alice: exit 3" || b.Steps[0].Reason != "alice: exit 3" || strings.Join(b.Lines, "|") != "no such file|bye" {
		t.Errorf("%q, %q, step %q", b.Reason, b.Lines, b.Steps[0].Reason)
	}
	var out bytes.Buffer
	if err := fleetPages(t, "").part(&out, "revision", "revision", b); err != nil || !strings.Contains(out.String(), `<li><span class="text">bye</span></li>`) {
		t.Errorf("%v: %s", err, out.String())
	}
}
