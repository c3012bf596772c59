package journal

import "testing"

// A record is found by each name that it is about, and by no other word in it.
func TestRecordsAreFoundByName(t *testing.T) {
	for _, c := range []struct {
		line, name string
		found      bool
	}{
		{`{"service":"web","to":"running"}`, "web", true},
		{`{"service":"web","to":"running"}`, "running", false},
		{`{"services":["web","db"]}`, "db", true},
		{`{"profiles":{"alice":{}}}`, "alice", true},
		{`{"profile":"alice","to":"bob"}`, "alice", true},
		{`{"profile":"alice","to":"bob"}`, "bob", true},
		{`{"profile":"alice","to":"bob"}`, "carol", false},
	} {
		if (Record{Line: []byte(c.line)}).names([]string{c.name}) != c.found {
			t.Errorf("%s by %s: not %v", c.line, c.name, c.found)
		}
	}
}
