package reconcile

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/service"
)

var update = flag.Bool("update", false, "write the golden file")

func gateway(name string, r service.Record) Profile {
	return Profile{Name: name, Service: "gateway-" + name, Fingerprint: "1", Record: r}
}

// text is one operation as the golden file has it.
func (op Op) text() string {
	words := []string{op.Kind.String(), op.Service}
	if op.Kind == Register || op.Kind == Intend {
		words = append(words, map[bool]string{true: "start", false: "stopped"}[op.Start])
	}
	if op.Adopt {
		words = append(words, "adopt")
	}
	if op.Record {
		words = append(words, "record="+map[service.Intent]string{"": "port"}[op.Intent]+string(op.Intent))
	}
	if op.Stale {
		words = append(words, "stale")
	}
	if op.Profile != "" && (op.Kind == Register || op.Kind == Report) {
		words = append(words, "log: prior_state="+op.PriorState+" action="+op.Action)
	}
	if op.Reason != "" {
		words = append(words, fmt.Sprintf("(%s)", op.Reason))
	}
	return strings.Join(words, " ")
}

// Every row of the boot rules, and each thing that can happen later.
func TestGolden(t *testing.T) {
	recorded := func(desired service.Intent, seen service.Seen) service.Record {
		return service.Record{Origin: service.Recorded, Desired: desired, Seen: seen}
	}
	one := func(r service.Record) Input {
		return Input{FoundState: service.Stopped, Profiles: []Profile{gateway("alice", r)}}
	}
	type row struct {
		name string
		in   Input
	}
	var rows []row
	for _, desired := range []service.Intent{"running", "stopped", ""} {
		for _, seen := range []service.Seen{"starting", "running", "degraded", "draining", "stopped", "startup_failed", "", "unknown"} {
			rows = append(rows, row{fmt.Sprintf("boot: desired_state=%s gateway_state=%s", desired, seen), one(recorded(desired, seen))})
		}
	}
	for _, found := range []service.Intent{"running", "stopped"} {
		in := one(service.Record{})
		in.FoundState = found
		rows = append(rows, row{"boot: no state file, found_state=" + string(found), in})
		in = one(service.Record{Origin: service.Corrupt, Fault: "corrupt: it is empty"})
		in.FoundState = found
		rows = append(rows, row{"boot: corrupt state file, found_state=" + string(found), in})
	}
	for _, seen := range []service.Seen{"running", "stopped"} {
		r := recorded("", seen)
		r.Origin = service.Imported
		rows = append(rows, row{"boot: imported gateway_state=" + string(seen), one(r)})
		r.Desired = "running"
		rows = append(rows, row{"boot: imported desired_state=running gateway_state=" + string(seen), one(r)})
	}
	with := func(in Input, change func(*Input)) Input { change(&in); return in }
	running := one(recorded("running", "running"))
	stopped := one(recorded("stopped", "stopped"))
	const name = "gateway-alice"
	rows = append(rows,
		row{"boot: the port is not recorded", with(one(recorded("stopped", "stopped")), func(in *Input) { in.Profiles[0].Unrecorded = true })},
		row{"boot: found, stopped, the port is not recorded", with(one(service.Record{}), func(in *Input) { in.Profiles[0].Unrecorded = true })},
		row{"boot: a broken profile", with(one(recorded("running", "running")), func(in *Input) { in.Profiles[0].Fault = "profile.yaml:1: bad" })},
		row{"boot: the volume is held", with(running, func(in *Input) { in.Held = true })},
		row{"taken over: alive, wanted running", with(running, func(in *Input) { in.Present = []Present{{Service: name, Alive: true}} })},
		row{"taken over: alive, wanted stopped", with(stopped, func(in *Input) { in.Present = []Present{{Service: name, Alive: true}} })},
		row{"taken over: wanted running, but stop --runtime", with(running, func(in *Input) { in.Present = []Present{{Service: name, Wanted: "stopped"}} })},
		row{"taken over: alive, the profile is gone", Input{Present: []Present{{Service: name, Alive: true}}}},
		row{"taken over: alive, the profile is broken", with(one(recorded("running", "")), func(in *Input) {
			in.Profiles[0].Fault = "bad"
			in.Present = []Present{{Service: name, Alive: true}}
		})},
		row{"live: nothing changed", with(running, func(in *Input) {
			in.Present = []Present{{Service: name, Registered: true, Fingerprint: "1", Alive: true}}
		})},
		row{"live: stopped by a person, nothing changed", with(running, func(in *Input) { in.Present = []Present{{Service: name, Registered: true, Fingerprint: "1"}} })},
		row{"live: the definition changed", with(running, func(in *Input) { in.Present = []Present{{Service: name, Registered: true, Fingerprint: "0"}} })},
		row{"live: it broke while it runs", with(one(recorded("running", "")), func(in *Input) {
			in.Profiles[0].Fault = "bad"
			in.Present = []Present{{Service: name, Registered: true, Fingerprint: "1", Alive: true}}
		})},
		row{"live: it is still broken in the same way", with(one(recorded("running", "")), func(in *Input) {
			in.Profiles[0].Fault = "bad"
			in.Present = []Present{{Service: name, Fault: "bad"}}
		})},
		row{"live: it was broken from the start, and is mended", with(running, func(in *Input) { in.Present = []Present{{Service: name, Fault: "bad"}} })},
		row{"live: it broke while it ran, and is mended", with(running, func(in *Input) {
			in.Present = []Present{{Service: name, Registered: true, Fingerprint: "1", Fault: "bad"}}
		})},
		row{"live: the profile is gone", Input{Present: []Present{{Service: name, Registered: true, Fingerprint: "1", Alive: true}}}},
		row{"live: the volume was lost", with(running, func(in *Input) {
			in.Held = true
			in.Present = []Present{{Service: name, Registered: true, Fingerprint: "1", Alive: true}}
		})},
	)
	static := func(s Static) Input { s.Service, s.Fingerprint = "web", "1"; return Input{Services: []Static{s}} }
	rows = append(rows,
		row{"static: enabled, no record", static(Static{Enabled: true})},
		row{"static: disabled, no record", static(Static{})},
		row{"static: enabled, a person stopped it", static(Static{Enabled: true, Recorded: "stopped"})},
		row{"static: disabled, a person started it", static(Static{Recorded: "running"})},
		row{"static: enabled, stopped on a volume held by another", with(static(Static{Enabled: true, Recorded: "stopped"}), func(in *Input) { in.Held = true })},
		row{"static: scheduled, a person started it", static(Static{Enabled: true, Scheduled: true, Recorded: "running"})},
		row{"static: scheduled, no record, on a volume held by another", with(static(Static{Enabled: true, Scheduled: true}), func(in *Input) { in.Held = true })},
		row{"boot: a scheduled profile, desired_state=running", with(one(recorded("running", "stopped")), func(in *Input) { in.Profiles[0].Scheduled = true })},
		row{"static: registered, and the volume was taken: a person stopped it", with(static(Static{Enabled: true, Recorded: "stopped"}), func(in *Input) {
			in.Taken = true
			in.Present = []Present{{Service: "web", Registered: true, Fingerprint: "1", Alive: true}}
		})},
		row{"static: scheduled, registered, and the volume was taken", with(static(Static{Enabled: true, Scheduled: true, Recorded: "running"}), func(in *Input) {
			in.Taken = true
			in.Present = []Present{{Service: "web", Registered: true, Fingerprint: "1"}}
		})},
		row{"static: broken", static(Static{Enabled: true, Fault: "bad"})},
		row{"order", Input{
			FoundState: service.Running,
			Profiles:   []Profile{gateway("b", service.Record{}), gateway("a", service.Record{}), {Name: "x", Service: "gateway-x", Fault: "bad"}},
			Services:   []Static{{Service: "zeta", Enabled: true}, {Service: "beta", Fault: "bad"}, {Service: "mid", Fingerprint: "2"}},
			Present:    []Present{{Service: "gone", Registered: true}, {Service: "mid", Registered: true, Fingerprint: "1"}},
		}},
	)
	var got strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&got, "%s\n", r.name)
		ops := Diff(r.in)
		for _, op := range ops {
			fmt.Fprintf(&got, "    %s\n", op.text())
		}
		if len(ops) == 0 {
			got.WriteString("    nothing\n")
		}
	}
	golden := filepath.Join("testdata", "diff.txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("differs from %s (go test ./reconcile -update, then read the diff):\n%s", golden, got.String())
	}
}

// carryOut is what a supervisor does with operations, as far as Diff can see.
func carryOut(in Input, ops []Op) Input {
	present := map[string]Present{}
	for _, p := range in.Present {
		present[p.Service] = p
	}
	fingerprint := map[string]string{}
	for _, p := range in.Profiles {
		fingerprint[p.Service] = p.Fingerprint
	}
	for _, s := range in.Services {
		fingerprint[s.Service] = s.Fingerprint
	}
	for _, op := range ops {
		p := present[op.Service]
		p.Service = op.Service
		switch op.Kind {
		case Unregister:
			delete(present, op.Service)
			continue
		case Report:
			p.Fault = op.Reason
		case Update, Register:
			p.Registered, p.Fault, p.Fingerprint = true, "", fingerprint[op.Service]
		}
		present[op.Service] = p
	}
	in.Present = nil
	for _, p := range present {
		in.Present = append(in.Present, p)
	}
	return in
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func randomInput(r *rand.Rand) Input {
	in := Input{FoundState: pick[service.Intent](r, "running", "stopped"), Held: r.IntN(10) == 0}
	record := func() service.Record {
		return service.Record{
			Origin:  pick(r, service.Missing, service.Recorded, service.Imported, service.Corrupt),
			Desired: pick[service.Intent](r, "", "running", "stopped"),
			Seen:    pick[service.Seen](r, "", "running", "stopped", "draining"),
		}
	}
	for i := range r.IntN(5) {
		name := fmt.Sprintf("p%d", i)
		p := gateway(name, record())
		p.Fault, p.Fingerprint, p.Unrecorded = pick(r, "", "", "bad"), pick(r, "1", "2"), r.IntN(2) == 0
		in.Profiles = append(in.Profiles, p)
	}
	for i := range r.IntN(4) {
		in.Services = append(in.Services, Static{
			Service: fmt.Sprintf("s%d", i), Enabled: r.IntN(2) == 0, Fault: pick(r, "", "", "bad"), Fingerprint: pick(r, "1", "2"), Recorded: record().Desired,
		})
	}
	for _, name := range []string{"gateway-p0", "gateway-p1", "gateway-p4", "s0", "s3"} {
		if r.IntN(2) == 0 {
			in.Present = append(in.Present, Present{
				Service: name, Registered: r.IntN(2) == 0, Alive: r.IntN(2) == 0, Fault: pick(r, "", "bad"),
				Fingerprint: pick(r, "1", "2"), Wanted: pick[service.Intent](r, "", "", "running", "stopped"),
			})
		}
	}
	return in
}

func TestCarriedOutItLeavesNothingToDo(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	for range 20_000 {
		in := randomInput(r)
		ops := Diff(in)
		after := carryOut(in, ops)
		if again := Diff(after); len(again) != 0 {
			t.Fatalf("seed %d: %+v\nthen still %+v", seed, in, again)
		}
		seen := map[string]bool{}
		for _, op := range ops {
			if seen[op.Service] {
				t.Fatalf("seed %d: two operations on %s", seed, op.Service)
			}
			seen[op.Service] = true
			if (op.Start || op.Record) && op.Kind != Register && op.Kind != Report {
				t.Fatalf("seed %d: %+v", seed, op)
			}
		}
		// The order of what is found decides nothing.
		slices.Reverse(in.Profiles)
		slices.Reverse(in.Services)
		slices.Reverse(in.Present)
		if got := Diff(in); !slices.Equal(got, ops) {
			t.Fatalf("seed %d: another order, another plan:\n%+v\n%+v", seed, ops, got)
		}
	}
}

// What was decided and recorded is decided again at the next boot.
func TestTheNextBootDecidesAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 5000 {
		in := randomInput(r)
		in.Present, in.Held, in.Services = nil, false, nil
		first := map[string]bool{}
		for _, op := range Diff(in) {
			first[op.Service] = op.Start
			for i := range in.Profiles {
				p := &in.Profiles[i]
				if p.Service != op.Service || !op.Record {
					continue
				}
				was := p.Record
				p.Unrecorded, p.Record = false, service.Record{Origin: service.Recorded, Desired: was.Desired, Seen: was.Seen}
				if was.Origin == service.Missing || was.Origin == service.Corrupt {
					p.Record.Desired, p.Record.Seen = "", service.SeenStopped
				}
				if op.Intent != service.IntentNone {
					p.Record.Desired = op.Intent
				}
			}
		}
		for _, op := range Diff(in) {
			if op.Start != first[op.Service] {
				t.Fatalf("%s: start %v, at the next boot %v", op.Service, first[op.Service], op.Start)
			}
		}
	}
}

func BenchmarkDiff(b *testing.B) {
	in := Input{FoundState: service.Stopped}
	for i := range 10_000 {
		name := fmt.Sprintf("p%05d", i)
		in.Profiles = append(in.Profiles, gateway(name, service.Record{Origin: service.Recorded, Desired: "running"}))
		if i%2 == 0 {
			in.Present = append(in.Present, Present{Service: "gateway-" + name, Registered: true, Fingerprint: "1"})
		}
	}
	b.ResetTimer()
	began := time.Now()
	for range b.N {
		if ops := Diff(in); len(ops) != 5000 {
			b.Fatal(len(ops))
		}
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/1000/float64(b.N), "ms/10000-profiles")
}

// Where a set is declared, it decides what is wanted, whatever is recorded.
func TestDeclaredIntent(t *testing.T) {
	for _, row := range []struct {
		declared, desired service.Intent
		astray, want      string
	}{
		{"running", "running", "", ""},
		{"stopped", "stopped", "", ""},
		{"running", "stopped", "", "intend start"},
		{"stopped", "running", "", "intend"},
		{"running", "running", "failed", "intend start"},
		{"stopped", "stopped", "running", "intend"},
		{"", "running", "failed", ""},
	} {
		p := gateway("alice", service.Record{Origin: service.Recorded, Desired: row.desired})
		p.Declared = row.declared
		in := Input{Profiles: []Profile{p}, Present: []Present{{
			Service: "gateway-alice", Registered: true, Fingerprint: "1", Desired: row.desired, Astray: row.astray,
		}}}
		got := ""
		for _, op := range Diff(in) {
			got = op.Kind.String()
			if op.Start {
				got += " start"
			}
		}
		if got != row.want {
			t.Errorf("%+v: %q", row, got)
		}
		in.Present = nil
		if ops := Diff(in); row.declared != "" && (len(ops) != 1 || ops[0].Kind != Register || ops[0].Start != (row.declared == "running")) {
			t.Errorf("%+v, absent: %+v", row, ops)
		}
	}
}
