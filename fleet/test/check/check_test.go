package check_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/fleet/test/check"
)

const second = int64(time.Second)

// sound is a history without a fault: a runs p on a, a is killed, and b takes it over.
func sound() check.History {
	return check.History{
		Members: []string{"a", "b"}, Nodes: []string{"e0", "e1", "e2"}, Lease: 10 * time.Second, Till: 100 * second,
		Runs: []check.Run{
			{Profile: "p", Member: "a", Fence: "5", Revision: "1", Start: 2 * second, Last: 30 * second},
			{Profile: "p", Member: "b", Fence: "9", Revision: "1", Start: 41 * second, Last: 100 * second},
		},
		Claims: []check.Claim{
			{Profile: "p", Member: "a", Fence: 5, From: second, Till: 40 * second},
			{Profile: "p", Member: "b", Fence: 9, From: 40 * second},
		},
		Faults:  []check.Fault{{Kind: "kill", Target: "a", From: 30 * second, Till: 50 * second}},
		Changes: []check.Change{{Profile: "p", Revision: "1", Sent: second, Acked: 3 * second}},
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
			h.Runs = append(h.Runs, check.Run{Profile: "p", Member: "a", Fence: "5", Revision: "1", Start: 10 * second, Last: 20 * second})
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
			h.Runs = append(h.Runs, check.Run{Profile: "p", Member: "a", Fence: "5", Revision: "1", Start: 10 * second, Last: 20 * second})
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
			h.Runs[1] = check.Run{Profile: "p", Member: "c", Fence: "20", Revision: "1", Start: 85 * second, Last: 100 * second}
			h.Faults = append(h.Faults, check.Fault{Kind: "pause", Target: "b", From: 39 * second, Till: 99 * second})
		}, []check.Kind{check.Unserved}},
		"one that is hit claims it": {func(h *check.History) {
			h.Members = append(h.Members, "c")
			h.Claims[1] = check.Claim{Profile: "p", Member: "b", Fence: 9, From: 40 * second, Till: 51 * second}
			h.Claims = append(h.Claims, check.Claim{Profile: "p", Member: "c", Fence: 12, From: 51 * second})
			h.Runs[1] = check.Run{Profile: "p", Member: "c", Fence: "12", Revision: "1", Start: 51 * second, Last: 100 * second}
			h.Faults = append(h.Faults, check.Fault{Kind: "pause", Target: "b", From: 39 * second, Till: 99 * second})
		}, nil},
		"the second was hit too": {func(h *check.History) {
			h.Members = append(h.Members, "c")
			h.Claims[1] = check.Claim{Profile: "p", Member: "b", Fence: 9, From: 40 * second, Till: 51 * second}
			h.Claims = append(h.Claims, check.Claim{Profile: "p", Member: "c", Fence: 12, From: 51 * second})
			h.Runs[1] = check.Run{Profile: "p", Member: "c", Fence: "12", Revision: "1", Start: 52 * second, Last: 100 * second}
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
			h.Runs = append(h.Runs, check.Run{Profile: "p", Member: "b", Fence: "9", Revision: "2", Start: 61 * second, Last: 70 * second},
				check.Run{Profile: "p", Member: "b", Fence: "9", Revision: "1", Start: 71 * second, Last: 100 * second})
			h.Changes = append(h.Changes, check.Change{Profile: "p", Revision: "2", Sent: 60 * second, Acked: 62 * second})
		}, []check.Kind{check.NotApplied}},
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
	want := check.Run{Profile: "p", Member: "a", Fence: "5", Revision: "1", Start: 7, Last: 9, Term: 9}
	write("whole", check.Header(7, want)+"\n8 beat\n9 term\n12 be")
	write("empty", "")
	runs, err := check.Read(dir)
	if err != nil || len(runs) != 1 || runs[0] != want {
		t.Errorf("read %+v, %v", runs, err)
	}
	for _, content := range []string{"8 beat\n", check.Header(7, want) + "\n6 beat\n", check.Header(7, want) + "\n8 sang\n", "7 start member=a\n"} {
		write("whole", content)
		if runs, err := check.Read(dir); err == nil {
			t.Errorf("%q is read as %+v", content, runs)
		}
	}
}
