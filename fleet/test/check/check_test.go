package check_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/fleet/test/check"
)

const second = int64(time.Second)

// stored is what is in the last save of a sound history.
var stored = check.State{Fence: 5, At: 20 * second}

// sound is a history without a fault: a runs p on a, a is killed, and b takes it over with
// what a had written before its last save.
func sound() check.History {
	return check.History{
		Members: []string{"a", "b"}, Nodes: []string{"e0", "e1", "e2"}, Lease: 10 * time.Second, Till: 100 * second,
		Runs: []check.Run{
			{Profile: "p", Member: "a", Fence: "5", Revision: "1", Start: 2 * second, Last: 30 * second, Kept: []int64{10 * second, 20 * second, 29 * second}},
			{Profile: "p", Member: "b", Fence: "9", Revision: "1", Start: 41 * second, Last: 100 * second, Found: stored},
		},
		Claims: []check.Claim{
			{Profile: "p", Member: "a", Fence: 5, From: second, Till: 40 * second},
			{Profile: "p", Member: "b", Fence: 9, From: 40 * second},
		},
		Faults:  []check.Fault{{Kind: "kill", Target: "a", From: 30 * second, Till: 50 * second}},
		Changes: []check.Change{{Profile: "p", Revision: "1", Sent: second, Acked: 3 * second}},
		Saves:   []check.Save{{Profile: "p", Fence: 5, Revision: 6, At: 15 * second}, {Profile: "p", Fence: 5, Revision: 7, At: 25 * second}},
	}
}

// TestEachFaultIsFound: nothing is found in a sound history, and in one that is
// spoilt in one way, that alone.
func TestEachFaultIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(h *check.History)
		want  []check.Kind
	}{
		"nothing": {func(*check.History) {}, nil},
		"the first goes on while the second runs": {func(h *check.History) {
			h.Runs[0].Last = 42 * second
		}, []check.Kind{check.Outlived, check.Overlap}},
		"it goes on for a beat after its claim": {func(h *check.History) {
			h.Runs[0].Last = 40*second + 1
		}, []check.Kind{check.Outlived}},
		"two under one fence": {func(h *check.History) {
			h.Runs = append(h.Runs, check.Run{Profile: "p", Member: "a", Fence: "5", Revision: "1", Start: 10 * second, Last: 20 * second, Found: stored})
		}, []check.Kind{check.Overlap}},
		"it was frozen, and ends when it thaws": {func(h *check.History) {
			h.Faults[0] = check.Fault{Kind: "freeze", Target: "a", Freezes: true, From: 30 * second, Till: 60 * second}
			h.Runs[0].Last = 61 * second
		}, []check.Kind{check.FrozenOutlived, check.FrozenOverlap}},
		"it was frozen, and does not end": {func(h *check.History) {
			h.Faults[0] = check.Fault{Kind: "freeze", Target: "a", Freezes: true, From: 30 * second, Till: 60 * second}
			h.Runs[0].Last = 62 * second
		}, []check.Kind{check.Outlived, check.Overlap}},
		"the other one was frozen": {func(h *check.History) {
			h.Faults = append(h.Faults, check.Fault{Kind: "freeze", Target: "b", Freezes: true, From: 41 * second, Till: 43 * second})
			h.Runs[0].Last = 42 * second
		}, []check.Kind{check.Outlived, check.Overlap}},
		"two of one fence on a frozen machine": {func(h *check.History) {
			h.Faults = append(h.Faults, check.Fault{Kind: "freeze", Target: "a", Freezes: true, From: 12 * second, Till: 19 * second})
			h.Runs = append(h.Runs, check.Run{Profile: "p", Member: "a", Fence: "5", Revision: "1", Start: 10 * second, Last: 20 * second, Found: stored})
		}, []check.Kind{check.Overlap}},
		"a fence goes backwards": {func(h *check.History) {
			h.Runs[1].Fence, h.Claims[1].Fence = "4", 4
		}, []check.Kind{check.FenceBack}},
		"two members have one fence": {func(h *check.History) {
			h.Runs[1].Fence, h.Claims[1].Fence = "5", 5
		}, []check.Kind{check.FenceShared}},
		"no fence": {func(h *check.History) {
			h.Runs[1].Fence = ""
		}, []check.Kind{check.NoClaim, check.NoFence}},
		"a claim of somebody else": {func(h *check.History) {
			h.Claims[1].Member = "c"
		}, []check.Kind{check.NoClaim}},
		"nobody takes it over": {func(h *check.History) {
			h.Runs[1].Start = 43 * second
		}, []check.Kind{check.Unserved}},
		"a slow machine": {func(h *check.History) {
			h.Runs[1].Start, h.Slack = 72*second, 30*time.Second
		}, nil},
		"a machine that is slower": {func(h *check.History) {
			h.Runs[1].Start, h.Slack = 73*second, 30*time.Second
		}, []check.Kind{check.Unserved}},
		"nobody runs it at the end": {func(h *check.History) {
			h.Runs[1].Last = 80 * second
		}, []check.Kind{check.Unserved}},
		"nobody can": {func(h *check.History) {
			h.Runs[1].Start = 55 * second
			h.Faults = append(h.Faults, check.Fault{Kind: "kill", Target: "b", From: 31 * second, Till: 50 * second})
		}, nil},
		"nobody could, and nobody did after that": {func(h *check.History) {
			h.Runs[1].Start = 63 * second
			h.Faults = append(h.Faults, check.Fault{Kind: "kill", Target: "b", From: 31 * second, Till: 50 * second})
		}, []check.Kind{check.Unserved}},
		"etcd has lost a node meanwhile": {func(h *check.History) {
			h.Runs[1].Start = 46 * second
			h.Faults = append(h.Faults, check.Fault{Kind: "pause", Target: "e0", From: 35 * second, Till: 60 * second})
		}, nil},
		"etcd has lost a node, and nobody takes it over": {func(h *check.History) {
			h.Runs[1].Start = 48 * second
			h.Faults = append(h.Faults, check.Fault{Kind: "pause", Target: "e0", From: 35 * second, Till: 60 * second})
		}, []check.Kind{check.Unserved}},
		"etcd carried nothing out": {func(h *check.History) {
			h.Runs[1].Start = 71 * second
			h.Outages = append(h.Outages, check.Outage{From: 31 * second, Till: 60 * second})
		}, nil},
		"etcd answers again, and nobody takes it over": {func(h *check.History) {
			h.Runs[1].Start = 73 * second
			h.Outages = append(h.Outages, check.Outage{From: 31 * second, Till: 60 * second})
		}, []check.Kind{check.Unserved}},
		"etcd carried nothing out for a moment": {func(h *check.History) {
			h.Runs[1].Start = 44 * second
			h.Outages = append(h.Outages, check.Outage{From: 31 * second, Till: 34 * second})
		}, nil},
		"etcd carried nothing out for some moments": {func(h *check.History) {
			h.Runs[1].Start = 80 * second
			for at := int64(31); at < 80; at += 11 {
				h.Outages = append(h.Outages, check.Outage{From: at * second, Till: (at + 2) * second})
			}
		}, []check.Kind{check.Unserved}},
		"one that is hit claims it again and again": {func(h *check.History) {
			h.Members, h.Claims = append(h.Members, "c"), h.Claims[:1]
			for i := range int64(4) {
				h.Claims = append(h.Claims, check.Claim{Profile: "p", Member: "b", Fence: 9 + i, From: (40 + 11*i) * second, Till: (51 + 11*i) * second})
			}
			h.Claims = append(h.Claims, check.Claim{Profile: "p", Member: "c", Fence: 20, From: 84 * second})
			h.Runs[1] = check.Run{Profile: "p", Member: "c", Fence: "20", Revision: "1", Start: 85 * second, Last: 100 * second, Found: stored}
			h.Faults = append(h.Faults, check.Fault{Kind: "pause", Target: "b", From: 39 * second, Till: 99 * second})
		}, []check.Kind{check.Unserved}},
		"one that is hit claims it": {func(h *check.History) {
			h.Members = append(h.Members, "c")
			h.Claims[1] = check.Claim{Profile: "p", Member: "b", Fence: 9, From: 40 * second, Till: 51 * second}
			h.Claims = append(h.Claims, check.Claim{Profile: "p", Member: "c", Fence: 12, From: 51 * second})
			h.Runs[1] = check.Run{Profile: "p", Member: "c", Fence: "12", Revision: "1", Start: 51 * second, Last: 100 * second, Found: stored}
			h.Faults = append(h.Faults, check.Fault{Kind: "pause", Target: "b", From: 39 * second, Till: 99 * second})
		}, nil},
		"the second was hit too": {func(h *check.History) {
			h.Members = append(h.Members, "c")
			h.Claims[1] = check.Claim{Profile: "p", Member: "b", Fence: 9, From: 40 * second, Till: 51 * second}
			h.Claims = append(h.Claims, check.Claim{Profile: "p", Member: "c", Fence: 12, From: 51 * second})
			h.Runs[1] = check.Run{Profile: "p", Member: "c", Fence: "12", Revision: "1", Start: 52 * second, Last: 100 * second, Found: stored}
			h.Faults = append(h.Faults, check.Fault{Kind: "kill", Target: "b", From: 41 * second, Till: 99 * second})
		}, nil},
		"an acknowledged change": {func(h *check.History) {
			h.Changes = append(h.Changes, check.Change{Profile: "p", Revision: "2", Sent: 60 * second, Acked: 61 * second})
		}, []check.Kind{check.NotApplied}},
		"a change that was not acknowledged": {func(h *check.History) {
			h.Changes = append(h.Changes, check.Change{Profile: "p", Revision: "2", Sent: 60 * second})
		}, nil},
		"a change that came undone": {func(h *check.History) {
			h.Runs[1].Last = 60 * second
			h.Runs = append(h.Runs, check.Run{Profile: "p", Member: "b", Fence: "9", Revision: "2", Start: 61 * second, Last: 70 * second, Found: stored},
				check.Run{Profile: "p", Member: "b", Fence: "9", Revision: "1", Start: 71 * second, Last: 100 * second, Found: stored})
			h.Changes = append(h.Changes, check.Change{Profile: "p", Revision: "2", Sent: 60 * second, Acked: 62 * second})
		}, []check.Kind{check.NotApplied}},
		"what was stored is not there": {func(h *check.History) {
			h.Runs[1].Found = check.State{}
		}, []check.Kind{check.Lost}},
		"an older save is there": {func(h *check.History) {
			h.Runs[1].Found = check.State{Fence: 5, At: 10 * second}
		}, []check.Kind{check.Lost}},
		"what an older claim has written later is there": {func(h *check.History) {
			h.Runs[1].Found = check.State{Fence: 4, At: 28 * second}
		}, []check.Kind{check.Lost}},
		"what nobody wrote is there": {func(h *check.History) {
			h.Runs[1].Found = check.Torn
		}, []check.Kind{check.Lost}},
		"an older save is current again": {func(h *check.History) {
			h.Saves = append(h.Saves, check.Save{Profile: "p", Fence: 5, Revision: 8, At: 15 * second})
			h.Runs[1].Found = check.State{Fence: 5, At: 10 * second}
		}, []check.Kind{check.Lost}},
		"what was stored is hidden by a save of who ran nothing": {func(h *check.History) {
			h.Saves = append(h.Saves, check.Save{Profile: "p", Fence: 7, Revision: 8, At: 35 * second})
			h.Runs[1].Found = check.State{}
		}, []check.Kind{check.Lost}},
		"more than was stored is there": {func(h *check.History) {
			h.Runs[1].Found = check.State{Fence: 5, At: 29 * second}
		}, nil},
		"what was stored after the claim is not there": {func(h *check.History) {
			h.Saves[1].Revision = 10
			h.Runs[1].Found = check.State{Fence: 5, At: 10 * second}
		}, nil},
		"what was written just as it was stored is not there": {func(h *check.History) {
			h.Runs[0].Kept[1] = 25*second - 1
			h.Runs[1].Found = check.State{Fence: 5, At: 10 * second}
		}, nil},
		"what the one before had found is not there, and nothing was written since": {func(h *check.History) {
			h.Runs[0].Kept, h.Runs[0].Found = nil, check.State{Fence: 3, At: second}
			h.Runs[1].Found = check.State{}
		}, []check.Kind{check.Lost}},
		"what a gateway of the same claim has left is not there": {func(h *check.History) {
			h.Runs[1].Last, h.Runs[1].Kept = 60*second, []int64{50 * second}
			h.Runs = append(h.Runs, check.Run{Profile: "p", Member: "b", Fence: "9", Revision: "1", Start: 61 * second, Last: 100 * second, Found: stored})
		}, []check.Kind{check.Lost}},
		"what was written before the claim was given back is not there": {func(h *check.History) {
			h.Claims[0].Returned = true
		}, []check.Kind{check.Lost}},
		"all that was written before the claim was given back is there": {func(h *check.History) {
			h.Claims[0].Returned = true
			h.Runs[1].Found = check.State{Fence: 5, At: 29 * second}
		}, nil},
		"a profile that was taken back, and runs": {func(h *check.History) {
			h.Changes = append(h.Changes, check.Change{Profile: "p", Sent: 60 * second, Acked: 61 * second})
		}, []check.Kind{check.NotApplied}},
	} {
		t.Run(name, func(t *testing.T) {
			h := sound()
			c.spoil(&h)
			var got []check.Kind
			found := check.Check(h)
			for _, f := range found {
				got = append(got, f.Kind)
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("found %+v\nwant %q", found, c.want)
			}
		})
	}
}

// TestSilences: an outage is what is longer than a second between two answers.
func TestSilences(t *testing.T) {
	got := check.Silences([]int64{3 * second, 0, 5 * second, second, 2*second - 1})
	if want := []check.Outage{{From: 2*second - 1, Till: 3 * second}, {From: 3 * second, Till: 5 * second}}; !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// TestFailovers: the time from a member's death until another one runs the profile,
// and how near the two came to each other.
func TestFailovers(t *testing.T) {
	h := sound()
	if got := check.Failovers(h)["kill"]; !slices.Equal(got, []time.Duration{11 * time.Second}) {
		t.Errorf("failovers: %v", got)
	}
	hit := sound()
	hit.Faults = append(hit.Faults, check.Fault{Kind: "pause", Target: "e0", From: 39 * second, Till: 60 * second})
	if got := check.Failovers(hit); len(got["kill"]) != 0 || len(got["kill"+check.EtcdToo]) != 1 {
		t.Errorf("failovers with a fault of etcd: %v", got)
	}
	if m, ok := check.Margin(h); !ok || m != 10*time.Second {
		t.Errorf("margin: %v, %v", m, ok)
	}
	frozen := sound()
	frozen.Faults[0] = check.Fault{Kind: "freeze", Target: "a", Freezes: true, From: 30 * second, Till: 60 * second}
	frozen.Runs[0].Last = 61 * second
	if m, ok := check.Margin(frozen); ok {
		t.Errorf("margin of a gateway that was frozen: %v", m)
	}
	h.Runs[0].Last = 42 * second
	found := check.Check(h)
	if text := check.Summary(h, found); !strings.Contains(text, "1 × "+string(check.Overlap)) || !strings.Contains(text, "median  11.0 s") {
		t.Errorf("summary:\n%s", text)
	}
	if len(check.Broken([]check.Finding{{Kind: check.FrozenOverlap}, {Kind: check.Overlap}})) != 1 {
		t.Error("what breaks a promise is not told from what does not")
	}
}

// TestRead: what a killed gateway left is read to its last whole line, and what no
// gateway wrote is refused.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := check.Run{Profile: "p", Member: "a", Fence: "5", Revision: "1", Start: 7, Last: 9, Term: 9, Found: check.State{Fence: 4, At: 6}, Kept: []int64{8}}
	write("whole", check.Header(7, want)+"\n8 beat\n8 kept\n9 term\n12 be")
	write("empty", "")
	runs, err := check.Read(dir)
	if err != nil || len(runs) != 1 || !reflect.DeepEqual(runs[0], want) {
		t.Errorf("read %+v, %v", runs, err)
	}
	for _, content := range []string{"8 beat\n", check.Header(7, want) + "\n6 beat\n", check.Header(7, want) + "\n8 sang\n", "7 start member=a\n"} {
		write("whole", content)
		if runs, err := check.Read(dir); err == nil {
			t.Errorf("%q is read as %+v", content, runs)
		}
	}
}

// TestState: a state is read as it was written, and what no gateway wrote is known.
func TestState(t *testing.T) {
	dir := t.TempDir()
	if s, err := check.ReadState(dir); s != (check.State{}) || err != nil {
		t.Errorf("where none is: %v, %v", s, err)
	}
	want := check.State{Fence: 5, At: 7}
	if err := check.WriteState(dir, want); err != nil {
		t.Fatal(err)
	}
	if s, err := check.ReadState(dir); s != want || err != nil {
		t.Errorf("%v, %v", s, err)
	}
	for _, content := range []string{"", "5 7", "5 7\nmore\n", "5\n", "x 7\n"} {
		if err := os.WriteFile(filepath.Join(dir, "state"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := check.ReadState(dir); s != check.Torn || err != nil {
			t.Errorf("%q is read as %v, %v", content, s, err)
		}
	}
	if err := check.WriteState(filepath.Join(dir, "none"), want); err == nil {
		t.Error("a state was written where no directory is")
	}
}

// TestLosses: what another member's gateway had written after its last save.
func TestLosses(t *testing.T) {
	h := sound()
	if got := check.Losses(h); !slices.Equal(got, []time.Duration{9 * time.Second}) {
		t.Errorf("losses: %v", got)
	}
	if text := check.Summary(h, nil); !strings.Contains(text, "data was stored 2 times; 0 claims were given back; 1 claims began with another member's, which lacked the last 9.0 s in the median, at worst 9.0 s") {
		t.Errorf("summary:\n%s", text)
	}
}
