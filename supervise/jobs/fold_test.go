package jobs

import (
	"encoding/json"
	"strings"
	"testing"

	"rlminit/journal"
	"rlminit/journal/places"
)

// Where the directory is that a job has written into, after each record.
func TestWrittenDirectoryIsFollowed(t *testing.T) {
	for _, row := range []struct {
		name    string
		records string // TYPE BODY, each on a line
		want    places.Place
	}{
		{"restored under another name", `profile_deleted {"profile":"alice","trash":"alice-1"}
profile_created {"profile":"dirk","restored":"alice-1"}`, "profiles/dirk"},
		{"purged", `profile_deleted {"profile":"alice","trash":"alice-1"}
profile_purged {"profile":"alice","trash":"alice-1"}`, "gone"},
		{"another entry is purged", `profile_deleted {"profile":"alice","trash":"alice-1"}
profile_purged {"profile":"alice","trash":"alice-2"}`, "trash/alice-1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := NewFold()
			records := `job_submitted {"job":"5","kind":"internal","profile":"alice","path":"f"}` + "\n" + row.records
			for line := range strings.Lines(records) {
				kind, body, _ := strings.Cut(strings.TrimSpace(line), " ")
				f.Apply(journal.Record{Type: kind, Line: []byte(body)})
				snapshot, err := json.Marshal(f.Snapshot())
				if err == nil {
					err = f.Restore(snapshot)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if e := f.table.Jobs["5"]; e == nil || e.Place() != row.want {
				t.Errorf("it is %+v, and not in %s", e, row.want)
			}
		})
	}
}
