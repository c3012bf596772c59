package config

import (
	"strings"
	"testing"

	"rlminit/internal/document"
)

// What is told of where a definition stands is where it stands: its lines alone are
// the mapping that it is in.
func TestOrigins(t *testing.T) {
	const top = `# a comment
version: 1
services:
  web: {command: [a]}   # "b:"

  # of db
  db:
    command: [b]
    environment:
      A: |
        web: no service
        db: nor this
  "last one": 7
  two: {command: [c,
  web: d]}
  end: {command: [e]}
user: app
main:
  command: [m]
`
	c, _ := Parse(Bundle{Path: "/etc/rlminit.yaml", Files: []File{
		{Name: "rlminit.yaml", Data: []byte(top)}, {Name: "services.d/own.yaml", Data: []byte("command: [o]\nenabled: false\n")},
	}}, nil)
	for name, want := range map[string]document.Block{"web": {First: 4, Last: 6}, "db": {First: 7, Last: 12}, "two": {First: 14, Last: 15}, "end": {First: 16, Last: 16}, "main": {First: 18, Last: 20}} {
		all := c.Bundle().Origins(name)
		if len(all) != 1 || all[0].File != "rlminit.yaml" || all[0].Lines != want || len(all[0].Sum) != 64 {
			t.Errorf("%s is at %+v, want %v", name, all, want)
			continue
		}
		text := strings.Join(strings.SplitAfter(top, "\n")[want.First-1:want.Last], "")
		doc, faults := document.Parse("", []byte(text))
		node, _ := doc.Read(nil)
		if len(faults) > 0 || node.Get(name).Get("command").Absent() {
			t.Errorf("%v in %q", faults, text)
		}
	}
	own := c.Bundle().Origins("own")
	if len(own) != 2 || own[0].Lines.First != 0 || own[1].File != "services.d/own.yaml" || own[1].Lines.First != 1 || own[0].Sum == own[1].Sum {
		t.Errorf("%+v", own)
	}
	for _, text := range []string{top + "more: 'a\u2028b'\n", strings.ReplaceAll(top, "\n", "\r\n"), "version: 1\nservices: {web: {command: [a]}, db: {command: [b]}}\n"} {
		c, _ := Parse(Bundle{Files: []File{{Name: "rlminit.yaml", Data: []byte(text)}}}, nil)
		if c.Services["web"] == nil {
			t.Fatalf("no web in %q", text)
		}
		if all := c.Bundle().Origins("web"); all != nil {
			t.Errorf("of %q lines are told: %+v", text, all)
		}
	}
	if all := c.Bundle().Origins("nobody"); all != nil {
		t.Errorf("%+v", all)
	}
}
