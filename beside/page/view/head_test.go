package view

import (
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
