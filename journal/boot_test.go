package journal

import (
	"encoding/json"
	"testing"
	"time"
)

// TestPriorExit: how a boot ended, as the next one finds it from the records, and
// from the snapshot of them.
func TestPriorExit(t *testing.T) {
	transition := func(service, to string) Entry {
		return Entry{Type: TypeTransition, Body: struct {
			Service string `json:"service"`
			To      string `json:"to"`
		}{service, to}}
	}
	oom := func(service string) Entry { return Entry{Type: TypeOOMSeen, Body: OOMSeen{service, "out of memory"}} }
	ended := Entry{Type: TypeBootEnded}
	for name, c := range map[string]struct {
		machine string // of the next boot
		records []Entry
		want    Exit
	}{
		"stopped":                                 {"m1", []Entry{transition("web", "running"), ended}, ExitClean},
		"stopped, and another machine":            {"m2", []Entry{ended}, ExitClean},
		"killed":                                  {"m1", []Entry{transition("web", "running")}, ExitKilled},
		"killed at once":                          {"m1", nil, ExitKilled},
		"the machine was started anew":            {"m2", []Entry{transition("web", "running")}, ExitHost},
		"killed for want of memory":               {"m1", []Entry{oom("web"), transition("web", "backoff")}, ExitOOM},
		"out of memory, while another runs":       {"m1", []Entry{oom("web"), transition("db", "running")}, ExitOOM},
		"out of memory, and up again, and killed": {"m1", []Entry{oom("web"), transition("web", "starting"), transition("web", "running")}, ExitKilled},
		"out of memory, and killed long after":    {"m1", []Entry{oom("web"), transition("web", "failed"), {Type: TypeOOMOutlived, Body: struct{}{}}}, ExitKilled},
		"out of memory again, and killed":         {"m1", []Entry{oom("web"), {Type: TypeOOMOutlived, Body: struct{}{}}, oom("db")}, ExitOOM},
		"out of memory, and stopped":              {"m1", []Entry{oom("web"), ended}, ExitClean},
		"out of memory, and another machine":      {"m2", []Entry{oom("web")}, ExitHost},
	} {
		t.Run(name, func(t *testing.T) {
			var b Boots
			seq := uint64(0)
			apply := func(boot string, e Entry) {
				t.Helper()
				body, err := encodeBody(e)
				if err != nil {
					t.Fatal(err)
				}
				seq++
				line := appendRecord(nil, seq, time.Time{}, boot, e.Type, body)
				r, err := parseRecord(line[:len(line)-1])
				if err != nil {
					t.Fatal(err)
				}
				b.Apply(r)
			}
			if begun, recorded := b.Begin("b1", "m1"); recorded || begun.PriorExit != ExitUnknown {
				t.Errorf("the first is %+v, recorded %v", begun, recorded)
			}
			apply("b1", Entry{Type: TypeBootBegun, Body: BootBegun{Machine: "m1", PriorExit: ExitUnknown}})
			for _, e := range c.records {
				apply("b1", e)
			}
			for _, how := range []string{"from the records", "from the snapshot"} {
				if begun, recorded := b.Begin("b1", "m1"); !recorded || begun.PriorExit != ExitUnknown {
					t.Errorf("%s, a successor finds %+v, recorded %v", how, begun, recorded)
				}
				if begun, recorded := b.Begin("b2", c.machine); recorded || begun.PriorExit != c.want || begun.PriorBoot != "b1" {
					t.Errorf("%s: %+v, recorded %v, want %s", how, begun, recorded, c.want)
				}
				section, err := json.Marshal(b.Snapshot())
				if err != nil {
					t.Fatal(err)
				}
				b = Boots{}
				if err := b.Restore(section); err != nil {
					t.Fatal(err)
				}
			}
			apply("b1", oom("late")) // of a writer that has lost the volume
			apply("b2", Entry{Type: TypeBootBegun, Body: BootBegun{Machine: c.machine, PriorBoot: "b1", PriorExit: c.want}})
			apply("b1", ended)
			if begun, _ := b.Begin("b3", c.machine); begun.PriorExit != ExitKilled {
				t.Errorf("what another boot wrote counts for this one: %+v", begun)
			}
		})
	}
}
