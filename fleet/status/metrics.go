package status

import (
	"io"
	"time"

	"rlminit/fleet/agent"
	"rlminit/fleet/store"
	"rlminit/metrics"
)

// Snapshot is what a member knows at a moment.
type Snapshot struct {
	Version, Fleet, Member string

	View     *agent.View // a copy
	Revision int64       // of etcd, up to which View has all changes; 0: nothing is known yet
	Phases   map[agent.Phase]int
	Deadline int64  // of what runs here, unless a keep-alive is confirmed before; 0: there is no session
	Trouble  string // why the session is not renewed, or only by beats that put nothing; "": it is
	Counts   Counts
	Etcd     store.Asked
}

// Counts are what a member has counted since its agent began.
type Counts struct {
	Won, Lost, Unsure        int64 // claims
	KeepAlives, NotConfirmed int64
	Data                     bool // data is kept
	Saves, Restores          Transfers
}

// Transfers are those of data, of one kind.
type Transfers struct {
	Done, Failed int64
	Bytes        int64
	Took         time.Duration // of all that were done
	Last         time.Time     // when the last one was done; zero: none was
}

// Add counts one that has begun at a moment.
func (t *Transfers) Add(begun time.Time, bytes int64, err error) {
	if err != nil {
		t.Failed++
		return
	}
	t.Done, t.Bytes, t.Last = t.Done+1, t.Bytes+bytes, time.Now()
	t.Took += t.Last.Sub(begun)
}

// states are those of profiles and of members, as they are counted.
var (
	profileStates = []string{"running", "starting", "waiting", "stopped"}
	memberStates  = []string{"live", "drained", "gone"}
)

// Write writes a snapshot in a format of rlminit/metrics. now is CLOCK_BOOTTIME, as the
// deadline is.
func Write(to io.Writer, format string, s Snapshot, now int64) error {
	t := metrics.NewText(to, format)
	t.Head("rlminit_fleet_info", "gauge", "", "The agent that answers.")
	t.Sample(metrics.Label("fleet", s.Fleet)+","+metrics.Label("member", s.Member)+","+metrics.Label("version", s.Version), 1)
	writeFleet(t, s.View)
	own := s.View.Members[s.Member]
	t.One("rlminit_fleet_member_weight", "gauge", "", "The weight of this member; 0 while it has no session.", own.Weight)
	t.One("rlminit_fleet_member_capacity", "gauge", "", "How many profiles this member takes at most; 0: any number.", float64(own.Capacity))
	t.Head("rlminit_fleet_claims", "gauge", "", "Profiles that this member has, by how far they are.")
	for p := agent.Claiming; p <= agent.Releasing; p++ {
		t.Sample(metrics.Label("phase", p.String()), float64(s.Phases[p]))
	}
	writeSession(t, s, now)
	if s.Counts.Data {
		writeTransfers(t, "save", "saved", s.Counts.Saves)
		writeTransfers(t, "restore", "restored", s.Counts.Restores)
	}
	return t.End()
}

// writeFleet writes what is the same at all members that have heard of all changes.
func writeFleet(t *metrics.Text, v *agent.View) {
	counts := map[string]int{}
	for _, m := range Members(v) {
		counts[m.State]++
	}
	t.Head("rlminit_fleet_members", "gauge", "", "Members of the fleet by state.")
	for _, state := range memberStates {
		t.Sample(metrics.Label("state", state), float64(counts[state]))
	}
	clear(counts)
	unplaced := 0
	for name := range v.Profiles {
		state := stateOf(v, name)
		counts[state]++
		if state == "waiting" && !v.Taken(name) {
			unplaced++
		}
	}
	t.Head("rlminit_fleet_profiles", "gauge", "", "Declared profiles by state.")
	for _, state := range profileStates {
		t.Sample(metrics.Label("state", state), float64(counts[state]))
	}
	t.One("rlminit_fleet_profiles_unplaced", "gauge", "", "Profiles that wait, and that no member takes.", float64(unplaced))
	t.One("rlminit_fleet_profiles_moving", "gauge", "", "Moves that are not done.", float64(len(v.Moves)))
	full := map[bool]float64{true: 1}[v.Full()]
	t.One("rlminit_fleet_etcd_full", "gauge", "", "1: etcd has no space left (its alarm NOSPACE), so what runs goes on, and nothing is started elsewhere.", full)
	t.One("rlminit_fleet_profiles_failing", "gauge", "", "Profiles that could not be started, and have not run for a minute since.", float64(len(v.Backoffs)))
}

// writeSession writes what this member has to do with etcd.
func writeSession(t *metrics.Text, s Snapshot, now int64) {
	left := time.Duration(0)
	if s.Deadline != 0 {
		left = max(time.Duration(s.Deadline-now), 0)
	}
	t.One("rlminit_fleet_deadline_seconds", "gauge", "seconds", "How long what runs at this member may go on, unless a keep-alive is confirmed before; 0: not any more, or there is no session.", left.Seconds())
	t.One("rlminit_fleet_revision", "gauge", "", "The revision of etcd up to which this member knows all changes.", float64(s.Revision))
	c := s.Counts
	t.Head("rlminit_fleet_claim_attempts", "counter", "", "Claims that this member has tried to get, by outcome.")
	t.Sample(metrics.Label("outcome", "won"), float64(c.Won))
	t.Sample(metrics.Label("outcome", "lost"), float64(c.Lost))
	t.Sample(metrics.Label("outcome", "unsure"), float64(c.Unsure))
	t.One("rlminit_fleet_keepalives", "counter", "", "Keep-alives that were confirmed.", float64(c.KeepAlives))
	t.One("rlminit_fleet_keepalive_failures", "counter", "", "Keep-alives that were not confirmed.", float64(c.NotConfirmed))
	t.Head("rlminit_fleet_etcd_request_seconds", "summary", "seconds", "How long requests to etcd took.")
	t.Sum("", float64(s.Etcd.Requests), s.Etcd.Took.Seconds())
	t.One("rlminit_fleet_etcd_request_failures", "counter", "", "Requests to etcd that had no answer in time, or an error.", float64(s.Etcd.Failed))
}

func writeTransfers(t *metrics.Text, what, done string, of Transfers) {
	name := "rlminit_fleet_data_" + what
	t.Head(name+"_seconds", "summary", "seconds", "How long it took until data was "+done+".")
	t.Sum("", float64(of.Done), of.Took.Seconds())
	t.One("rlminit_fleet_data_"+done+"_bytes", "counter", "bytes", "Compressed data that was "+done+".", float64(of.Bytes))
	t.One(name+"_failures", "counter", "", "How often data could not be "+done+".", float64(of.Failed))
	if !of.Last.IsZero() {
		t.One("rlminit_fleet_data_last_"+what+"_timestamp_seconds", "gauge", "seconds", "When data was "+done+" last.", float64(of.Last.UnixMilli())/1000)
	}
}
