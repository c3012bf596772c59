package nemesis_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rlminit/fleet/test/check"
	"rlminit/fleet/test/nemesis"
)

var (
	minutes    = flag.Float64("minutes", 0, "how long the fleet is tormented; 0: not at all")
	seed       = flag.Uint64("seed", 0, "of the faults; 0: another one each time")
	lease      = flag.Duration("lease", 10*time.Second, "of the members")
	slack      = flag.Duration("slack", 0, "that a failover may take besides, on a machine that is slow")
	noDeadline = flag.Bool("no-deadline", false, "the build whose deadlines are off, in which the checker must find two gateways at once")
	keep       = flag.String("keep", "", "a directory to which the recordings and the faults are copied")
)

const profiles = 12

// TestNemesis torments three nodes of etcd and five members with twelve profiles, and
// judges what the gateways recorded.
func TestNemesis(t *testing.T) {
	if *minutes == 0 {
		t.Skip("needs Docker, root and minutes: make test-fleet-nemesis MINUTES=3")
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	run := time.Duration(*minutes * float64(time.Minute))
	calm := *lease + 10*time.Second
	t.Logf("seed %d, %s of faults and %s of calm, leases of %s", *seed, run, calm, *lease)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := begin(ctx, t, nemesis.Spec{Nodes: 3, Members: 5, Lease: *lease, NoDeadline: *noDeadline})
	watch, stop := context.WithCancel(ctx)
	defer stop()
	watcher := w.Watch(watch)
	outages := w.Probe(watch)

	say := func(format string, args ...any) {
		t.Logf("%s %s", time.Now().UTC().Format("15:04:05.000"), fmt.Sprintf(format, args...))
	}
	changes := &changer{w: w, say: say, luck: rand.New(rand.NewPCG(*seed, 99))}
	if err := changes.first(ctx); err != nil {
		t.Fatal(err)
	}
	asked, done := context.WithCancel(ctx)
	changing := make(chan struct{})
	go func() {
		defer close(changing)
		changes.goOn(asked)
	}()
	plan := nemesis.Plan(*seed, run, nemesis.Names(w.Members), nemesis.Names(w.Nodes))
	if *noDeadline {
		plan = nemesis.NeedDeadlines(*lease, nemesis.Names(w.Members))
	}
	faults, err := w.Inflict(ctx, plan, say)
	if err != nil {
		t.Error(err)
	}
	done()
	<-changing
	time.Sleep(calm) // the fleet is left alone for as long as it may take to recover
	till := check.Now()
	stop()
	claims, saves, errs := watcher.Seen()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	runs, err := check.Read(w.Recordings)
	if err != nil {
		t.Fatal(err)
	}
	judge(t, check.History{
		Members: nemesis.Names(w.Members), Nodes: nemesis.Names(w.Nodes), Lease: *lease, Slack: *slack,
		Runs: runs, Claims: claims, Saves: saves, Faults: faults, Changes: changes.all, Outages: outages(), Till: till,
	})
}

// begin makes a fleet that is removed with the test.
func begin(ctx context.Context, t *testing.T, spec nemesis.Spec) *nemesis.World {
	t.Helper()
	if err := nemesis.Sweep(); err != nil {
		t.Fatal(err)
	}
	dir, err := nemesis.Dir()
	if err != nil {
		t.Fatal(err)
	}
	w, err := nemesis.New(ctx, dir, spec)
	t.Cleanup(func() {
		if t.Failed() {
			for _, c := range append(w.Members, w.Nodes...) {
				t.Logf("%s printed:\n%s", c.Name, c.Logs())
			}
		}
		if *keep != "" {
			if err := os.CopyFS(filepath.Join(*keep, fmt.Sprint("seed-", *seed)), os.DirFS(w.Recordings)); err != nil {
				t.Error(err)
			}
		}
		if err := errors.Join(w.Remove(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// judge prints what was found, and fails if a promise was broken; of a build whose
// deadlines are off, if none was.
func judge(t *testing.T, h check.History) {
	t.Helper()
	found := check.Check(h)
	t.Logf("\n%s", check.Summary(h, found))
	overlaps := 0
	broken := check.Broken(found)
	booted := time.Now().Add(-time.Duration(check.Now()))
	for _, f := range found {
		t.Logf("%s %s: %s: %s", booted.Add(time.Duration(f.From)).UTC().Format("15:04:05.000"), f.Profile, f.Kind, f.Text)
	}
	for _, f := range broken {
		if f.Kind == check.Overlap {
			overlaps++
		}
	}
	switch {
	case len(h.Runs) < profiles || len(h.Faults) == 0 || len(h.Saves) < profiles:
		t.Errorf("%d gateways ran, %d faults were made, and data were stored %d times: this has shown nothing", len(h.Runs), len(h.Faults), len(h.Saves))
	case *noDeadline && overlaps == 0:
		t.Error("the deadlines are off, and no two gateways were found at once: this checker finds nothing")
	case !*noDeadline && len(broken) > 0:
		t.Errorf("%d promises were broken; run it again with -seed %d", len(broken), *seed)
	}
}
