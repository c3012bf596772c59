package loop

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"rlminit/journal"
	"rlminit/service"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/settings"
	"rlminit/wire"
)

// TestGoldenTraces runs the loop over the scripts in testdata, and holds against them what
// crosses its border: verbs and kernel events in; messages to tier 1, records of the journal
// and rows for a successor out. HACKING.md says how to read and rewrite them.
func TestGoldenTraces(t *testing.T) {
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	defer slog.SetDefault(was)
	defer func(was func() int64) { boottime = was }(boottime)
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			boottime = func() int64 { return int64(time.Since(began)) + int64(time.Hour) }
			g := begin(t, began)
			defer g.end()
			datadriven.RunTest(t, path, g.run)
		})
	})
}

// golden is a supervisor under a script.
type golden struct {
	*simulation
	script *script
	ctx    context.Context
	over   context.CancelFunc
}

// begin has everything ready for a boot.
func begin(t *testing.T, began time.Time) *golden {
	s := &simulation{T: t, world: newWorld(1), rand: rand.New(rand.NewPCG(1, 0)), home: volumeDir(t), wanted: map[string]machine.Want{}, shared: map[*service.Definition]string{}}
	g := &golden{simulation: s, script: &script{began: began, latest: map[string]string{}}}
	g.script.records = func(each func(journal.Record)) {
		if j := s.journal(); j != nil {
			_ = j.Read(context.Background(), journal.Query{After: g.script.seq}, func(r journal.Record) error {
				each(r)
				return nil
			})
		}
	}
	s.world.script, s.world.peaceful = g.script, true
	s.furnish()
	g.ctx, g.over = context.WithCancel(t.Context())
	return g
}

// furnish gives it what a simulation of profiles has.
func (s *simulation) furnish() {
	s.begin()
	s.homes = &homes{
		sim: s, runtime: s.TempDir(), all: map[string]*home{}, seen: map[string]string{},
		lagging: map[string]bool{}, touched: map[string]int{}, out: map[string]bool{}, gone: map[string]bool{},
	}
	s.homes.slotsAre(1)
	s.listen()
	s.settings = func(table *handover.Table) *settings.Settings {
		fd, err := wire.Sealed("bundle", s.homes.bundle.Encode())
		if err != nil {
			s.Fatal(err)
		}
		is, err := settings.Open(fd, table, &wire.Policy{User: wire.Identity{Name: "app", Home: "/"}}, s.homes.runtime)
		if err != nil {
			s.Fatal(err)
		}
		return is
	}
	s.hold()
}

// journal is that of the supervisor of the moment; nil: it has none.
func (s *simulation) journal() *journal.Journal {
	if s.now == nil || s.absent {
		return nil
	}
	return s.now.Records.volume.Journal.Open.Load()
}

func (g *golden) end() {
	g.kill()
	g.over()
	synctest.Wait()
	for _, wrong := range g.world.wrong {
		g.Error(wrong)
	}
}

// verbs are the directives that a user gives, each with what the control socket answers.
var verbs = map[string]func(*golden, *datadriven.TestData) (answer string, err error){
	"start": (*golden).operate, "stop": (*golden).operate, "restart": (*golden).operate,
	"cancel": (*golden).cancelled, "wait": (*golden).waited, "reload": (*golden).reloaded, "status": (*golden).status,
	"create": (*golden).profile, "delete": (*golden).profile, "rename": (*golden).profile,
}

// events are the directives of what the kernel, a service or another container does.
var events = map[string]func(*golden, *datadriven.TestData){
	"boot": (*golden).boot, "advance": func(*golden, *datadriven.TestData) {}, "replace": func(g *golden, _ *datadriven.TestData) { g.replaced() },
	"exit": (*golden).exits, "ready": (*golden).readies, "ill": (*golden).ails, "deaf": (*golden).ails, "well": (*golden).ails,
	"write": (*golden).writes, "volume": (*golden).takes,
}

// run carries out one directive, and returns what crossed the border in its time.
func (g *golden) run(t *testing.T, d *datadriven.TestData) string {
	pass := 100 * time.Millisecond
	if d.Cmd == "advance" {
		pass = g.duration(d, d.CmdArgs[0].Key)
	}
	verb, event := verbs[d.Cmd], events[d.Cmd]
	switch {
	case verb != nil:
		given := *d // the next directive takes its place
		go func() {
			answer, err := verb(g, &given)
			time.Sleep(10 * time.Microsecond) // what else this moment brings comes first
			if err != nil {
				answer = "refused: " + err.Error()
			}
			for line := range strings.Lines(strings.TrimSpace(answer)) {
				g.script.say("answer", "%s: %s", given.Cmd, strings.ReplaceAll(strings.TrimSpace(line), g.home, "HOME"))
			}
		}()
	case event != nil:
		event(g, d)
	default:
		d.Fatalf(t, "no directive %q", d.Cmd)
	}
	time.Sleep(pass)
	synctest.Wait()
	return g.script.taken()
}

func (g *golden) duration(d *datadriven.TestData, text string) time.Duration {
	is, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(g.T, "%v", err)
	}
	return is
}

// argument is one of a directive's; "": it has none of that name.
func argument(d *datadriven.TestData, name string) string {
	if arg, has := d.Arg(name); has && len(arg.Vals) == 1 {
		return arg.Vals[0]
	}
	return ""
}

// names are the arguments of a directive without a value.
func names(d *datadriven.TestData) (all []string) {
	for _, arg := range d.CmdArgs {
		if len(arg.Vals) == 0 {
			all = append(all, arg.Key)
		}
	}
	return all
}
