package settings

import (
	"testing"

	"rlminit/config"
	"rlminit/wire"
)

// The lines of a definition are told where it is what they said, and not of one that
// still is as before.
func TestOrigins(t *testing.T) {
	bundle := config.Bundle{Path: "/etc/rlminit.yaml", Files: []config.File{{Name: "rlminit.yaml", Data: []byte("version: 1\nuser: \"0\"\nservices:\n  web: {command: [a]}\n  db: {command: [b]}\n")}}}
	c, faults := config.Parse(bundle, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	s := Fixed(c, &wire.Policy{})
	d := new(*c.Services["db"])
	if all := s.Origins(d); len(all) != 1 || all[0].Lines.First != 5 {
		t.Errorf("%+v", all)
	}
	d.Command = []string{"c"}
	if all := s.Origins(d); all != nil {
		t.Errorf("of another one %+v", all)
	}
	d.Name = "nobody"
	if all := s.Origins(d); all != nil {
		t.Errorf("of none %+v", all)
	}
}
