package verbs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/fleet/agent"
	"rlminit/fleet/member"
	"rlminit/fleet/store"
	"rlminit/fleet/test/cluster"
)

// box is one that runs whatever it is told to.
type box struct {
	mu   sync.Mutex
	runs map[string]int64 // fence
}

func (b *box) Survey(context.Context) (out []agent.Run, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, fence := range b.runs {
		out = append(out, agent.Run{Name: name, Fence: fence})
	}
	return out, nil
}

func (b *box) Seen(ctx context.Context) ([]agent.Run, error)                { return b.Survey(ctx) }
func (b *box) Prepare(context.Context, string, agent.Profile) (bool, error) { return false, nil }
func (b *box) Try(context.Context, string, agent.Profile) error             { return nil }
func (b *box) Extend(context.Context, []agent.Deadline) ([]string, error)   { return nil, nil }
func (b *box) Start(_ context.Context, name string, fence, _ int64) error   { return b.put(name, fence) }

func (b *box) Stop(_ context.Context, name string) error { return b.put(name, 0) }
func (b *box) Restore(context.Context, string, int64, func(int64, int64)) (bytes int64, err error) {
	return 0, nil
}

func (b *box) put(name string, fence int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.runs, name); fence > 0 {
		b.runs[name] = fence
	}
	return nil
}

// Save fails: nothing can be stored.
func (b *box) Save(context.Context, string, int64, bool) (int64, error) {
	return 0, errors.New("the bucket is away")
}

// fleet is an etcd with members of it, and a configuration that names it.
type fleet struct {
	*testing.T
	etcd   *cluster.Cluster
	config string
}

func newFleet(t *testing.T, nodes int) *fleet {
	f := &fleet{T: t, etcd: cluster.Start(t, nodes), config: filepath.Join(t.TempDir(), "rlminit.yaml")}
	f.write(f.config, `version: 1
gateway: {command: [/bin/sleep, "1000"]}
fleet: {name: f, member: m0, lease: 4s, etcd: {endpoints: [`+strings.Join(f.etcd.Endpoints(), ", ")+`], timeout: 3s}}
`)
	return f
}

func (f *fleet) write(path, text string) {
	f.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

// member begins one, which ends with the test.
func (f *fleet) member(name string, is agent.Member, data member.Data) {
	st, err := store.Open(f.Context(), store.Config{Fleet: "f", Endpoints: f.etcd.Endpoints(), Timeout: 2 * time.Second})
	if err != nil {
		f.Fatal(err)
	}
	out := io.Discard
	if testing.Verbose() {
		out = os.Stderr
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- member.Run(ctx, member.Config{
			Fleet: "f", Agent: agent.Config{Member: name, TTL: int64(4 * time.Second), Settle: int64(time.Second)}, Member: is, Dir: f.TempDir(), Store: st,
			Box: &box{runs: map[string]int64{}}, Data: data, Log: log.New(out, name+": ", log.Ltime|log.Lmicroseconds), Poll: 200 * time.Millisecond,
		})
	}()
	f.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			f.Error(err)
		}
		st.Close()
	})
	f.eventually(name+" is there", func() bool { return strings.Contains(f.does(0, "members"), name) })
}

func (f *fleet) eventually(what string, is func() bool) {
	f.Helper()
	for begun := time.Now(); !is(); <-time.After(50 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			f.Fatalf("not within a minute: %s\n%s", what, f.does(0, "status"))
		}
	}
}

// does runs a verb, and returns all that it says.
func (f *fleet) does(want int, args ...string) string {
	f.Helper()
	var out bytes.Buffer
	if code := Main(f.Context(), append(args, "--config", f.config), &out, &out); code != want {
		f.Fatalf("rlminit fleet %s: exit code %d, not %d: %s", strings.Join(args, " "), code, want, &out)
	}
	return out.String()
}

// says is does, where it must say a text.
func (f *fleet) says(text string, want int, args ...string) {
	f.Helper()
	if out := f.does(want, args...); !strings.Contains(out, text) {
		f.Errorf("rlminit fleet %s says nothing of %q:\n%s", strings.Join(args, " "), text, out)
	}
}

// apply applies profiles, each of them a line.
func (f *fleet) apply(want int, text, profiles string, more ...string) {
	f.Helper()
	set := filepath.Join(filepath.Dir(f.config), "set.yaml")
	f.write(set, "version: 1\nprofiles:\n"+profiles)
	var p fleetPlan
	if err := json.Unmarshal([]byte(f.does(control.ExitPending, "plan", set, "--json")), &p); err != nil {
		f.Fatal(err)
	}
	f.says(text, want, append([]string{"apply", set, "--approve", p.Hash, "--steady", "10ms"}, more...)...)
}

// What is said of a profile that cannot run, cannot move or has nowhere to go.
func TestVerbs(t *testing.T) {
	f := newFleet(t, 1)
	f.member("m0", agent.Member{Labels: map[string]string{"zone": "a"}}, nil)
	f.member("m1", agent.Member{Labels: map[string]string{"zone": "b"}, Capacity: 1}, nil)
	f.apply(control.ExitApplied, "applied: 3 changed", "  alice: {labels: {zone: a}}\n  bob: {labels: {zone: b}}\n  carol: {state: stopped}\n")

	const others = "  bob: {labels: {zone: b}}\n  carol: {state: stopped}\n"
	f.apply(control.ExitUnhealthy, "alice: no member takes it: m0, m1: it has no label zone=q", "  alice: {labels: {zone: q}}\n"+others)
	f.apply(control.ExitTimedOut, "rolled back: not done after 1s: zed: no member takes it: m0: it has no label zone=b; m1: it is full",
		"  alice: {labels: {zone: a}}\n  zed: {labels: {zone: b}}\n"+others, "--timeout", "1s")

	f.says("runs nowhere", control.ExitExists, "move", "carol", "m0")
	if out := f.does(0, "why", "carol"); out != "carol is stopped\n" {
		t.Errorf("why of a stopped one: %s", out)
	}
	f.says("cannot move to m0: it has no label zone=b", control.ExitExists, "move", "bob", "m0")
	f.says("alice runs at m0 already", 0, "move", "alice", "m0")

	f.says("m1 is not drained", 0, "drain", "m1", "--undo")
	f.says("there is no member m7; those that are there: m0, m1", control.ExitNoSuchName, "drain", "m7")
	f.does(control.ExitNoSuchName, "drain", "m7", "--undo")
	f.says("what moves would leave its files at m1, since the section fleet has no data", control.ExitExists, "drain", "m1")
	f.says("m1 is not drained", 0, "drain", "m1", "--undo") // it was refused before it began
	f.says("bob: no member takes it: m0: it has no label zone=b; m1: it is drained", control.ExitUnhealthy, "drain", "m1", "--without-data", "--timeout", "30s")
	f.says("m1 takes profiles again", 0, "drain", "m1", "--undo")
	f.eventually("bob runs", func() bool { return strings.Contains(f.does(0, "status", "bob"), "running") })

	f.member("m2", agent.Member{Labels: map[string]string{"zone": "a"}}, nil)
	f.says("m0 is drained: what it had runs elsewhere", 0, "drain", "m0", "--without-data")
	if out := f.does(0, "status", "alice"); !strings.Contains(out, "running  m2") {
		t.Errorf("alice when m0 is drained:\n%s", out)
	}

	f.member("m3", agent.Member{Labels: map[string]string{"zone": "c"}}, nil)
	f.apply(control.ExitApplied, "applied: 1 changed", "  alice: {labels: {zone: c}}\n"+others)
	f.says("it runs where its labels do not fit: m2: it has no label zone=c; rlminit fleet rebalance moves it", 0, "status", "alice")
	f.says("what moves would leave its files at their members", control.ExitExists, "rebalance")
	f.says("alice runs at m3", 0, "rebalance", "--without-data")
}

// A move whose data cannot be stored is late and says why; a move to the member that has the
// profile takes it back.
func TestMoveTakenBack(t *testing.T) {
	f := newFleet(t, 1)
	f.member("m0", agent.Member{}, &box{})
	f.apply(control.ExitApplied, "applied: 1 changed", "  alice: {}\n")
	f.member("m1", agent.Member{}, nil)
	f.says("would leave its files at m0", control.ExitExists, "move", "alice", "m1")
	f.says("not done after 2s: alice: it moves to m1", control.ExitTimedOut, "move", "alice", "m1", "--without-data", "--timeout", "2s")
	f.says("alice runs at m0", 0, "move", "alice", "m0")
	if out := f.does(0, "status", "--json"); !strings.Contains(out, `"running"`) || strings.Contains(out, "m1") {
		t.Errorf("alice after the move was taken back: %s", out)
	}
}

// slow is data of which the restore takes until it is told.
type slow struct {
	box
	done chan struct{}
}

func (s *slow) Restore(ctx context.Context, _ string, _ int64, told func(done, all int64)) (bytes int64, err error) {
	for {
		told(45<<20, 120<<20)
		select {
		case <-s.done:
			return 120 << 20, nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// How far a restore is, is said until the profile runs.
func TestProgressOfRestore(t *testing.T) {
	f := newFleet(t, 1)
	data := &slow{done: make(chan struct{})}
	f.member("m0", agent.Member{}, data)
	applied := make(chan struct{})
	go func() {
		defer close(applied)
		f.apply(control.ExitApplied, "applied: 1 changed", "  alice: {}\n")
	}()
	f.eventually("the progress is said", func() bool { return strings.Contains(f.does(0, "status"), "its data is restored: 45 of 120 MB") })
	close(data.done)
	<-applied
	if out := f.does(0, "why", "alice"); strings.Contains(out, "restored") {
		t.Errorf("alice runs: %s", out)
	}
}

// Without a quorum a verb says so, within its --timeout; one endpoint that is down is named.
func TestLostQuorum(t *testing.T) {
	f := newFleet(t, 3)
	f.etcd.Nodes[0].Kill()
	begun := time.Now()
	f.says("etcd at "+f.etcd.Nodes[0].Client+" does not answer; others do", 0, "status")
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("with one of three nodes down a verb takes %s", took)
	}
	f.etcd.Nodes[1].Kill()
	for _, args := range [][]string{{"status"}, {"move", "alice", "m0", "--timeout", "2s"}, {"drain", "m0", "--undo"}} {
		begun := time.Now()
		f.eventually("no node leads", func() bool {
			return strings.Contains(f.does(control.ExitNoAnswer, args...), "etcd has no quorum: 1 of 3 endpoints answer")
		})
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("without a quorum rlminit fleet %v takes %s", args, took)
		}
	}
}

// What a command line has wrong.
func TestUsage(t *testing.T) {
	for line, text := range map[string]string{
		"drain m0 --limit 0":     "--limit is 0; write 1 or more",
		"rebalance --limit x":    `invalid argument "x" for "--limit" flag; see rlminit fleet rebalance --help`,
		"apply set --rolling -1": "--rolling is -1; write 1 or more",
		"members m0":             "1 arguments do not fit; write rlminit fleet members",
		"move alice":             "write rlminit fleet move NAME MEMBER",
	} {
		var out bytes.Buffer
		if code := Main(t.Context(), strings.Fields(line), &out, &out); code != control.ExitUsage || !strings.Contains(out.String(), text) || strings.Contains(out.String(), "strconv") {
			t.Errorf("rlminit fleet %s: exit code %d: %s", line, code, &out)
		}
	}
	var out bytes.Buffer
	if Main(t.Context(), []string{"--help"}, &out, &out); !strings.Contains(out.String(), fmt.Sprintf("; %d no answer\nof etcd", control.ExitNoAnswer)) {
		t.Errorf("the help has no exit codes: %s", &out)
	}
}

// What comes from etcd commands no terminal, and stays on its line, as text and as JSON.
func TestNothingCommandsATerminal(t *testing.T) {
	hostile := "a\x1b]52;c;eA==\a\u009b31m\u202e\nb\tc"
	value := []map[string]string{{"why": hostile}}
	for _, json := range []bool{false, true} {
		var out bytes.Buffer
		o := &options{json: json}
		if err := o.write(&out, value, func(t *screen) {
			t.printf("%s\t%v\n", hostile, errors.New(hostile))
			t.println(hostile)
		}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.ContainsAny(got, "\x1b\a\t\u009b\u202e") || !json && strings.Count(got, "\n") != 2 {
			t.Errorf("JSON %v: %q", json, got)
		}
	}
}
