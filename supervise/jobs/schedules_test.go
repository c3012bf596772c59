package jobs

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/internal/schedule"
	"rlminit/job"
	"rlminit/job/table"
	"rlminit/service"
	"rlminit/wire"
)

// skips are what a journal has of occurrences that were not run.
type skips struct {
	*disk
	list []table.Skipped
}

func (s *skips) Note(kind string, body any) {
	s.keep(kind, body)
	s.disk.Note(kind, body)
}

func (s *skips) Append(kind string, body any) error {
	s.keep(kind, body)
	return s.disk.Append(kind, body)
}

func (s *skips) keep(kind string, body any) {
	if kind == table.TypeSkipped {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.list = append(s.list, body.(table.Skipped))
	}
}

func (s *skips) taken() []table.Skipped {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list
}

// An occurrence is run once, or recorded as skipped or missed, whoever looks and
// however often: a successor knows of both.
func TestOccurrences(t *testing.T) {
	for _, c := range []struct {
		catchUp schedule.CatchUp
		jobs    int // at the end
		missed  int
	}{{schedule.CatchUpNone, 1, 11}, {schedule.CatchUpOne, 2, 10}} {
		t.Run(string(c.catchUp), func(t *testing.T) {
			d := &skips{disk: newDisk("here")}
			g := newRig(t, d, Unrecorded())
			g.Open()
			what := Scheduled{
				Name: "nightly", Command: []string{"true"},
				Schedule: service.Schedule{Cron: "*/5 * * * *", CatchUp: c.catchUp, Overlap: service.OverlapSkip, Timeout: time.Minute},
			}
			g.host.profiles["nightly"] = true
			look := func(now time.Time) {
				// Each is another supervisor, that knows what is recorded.
				s := &schedules{runner: g.Runner, fd: -1, last: map[string]time.Time{}, list: func() []Scheduled { return []Scheduled{what} }}
				s.due(now)
				s.due(now)
			}
			ran := func() (n int) {
				d.View(func(h *table.Table) { n = len(h.Jobs) })
				return n
			}
			begin := time.Now()
			look(begin)
			first := begin.Truncate(5 * time.Minute).Add(5 * time.Minute)
			look(first.Add(time.Second))
			g.until("the first is run", func() bool { return ran() == 1 && g.host.spawned["job/1"] != 0 })
			look(first.Add(5*time.Minute + time.Second))
			g.until("the second is skipped", func() bool { return len(d.taken()) >= 1 })
			id := g.host.spawned["job/1"]
			g.Hear(&wire.Exited{ID: id, Exit: wire.Exit{At: 1}})
			g.until("the first is over", func() bool { return len(g.tasks.byID) == 0 })
			look(first.Add(60*time.Minute + 2*time.Minute))
			g.until("the rest is dealt with", func() bool { return len(d.taken()) >= 2 && ran() == c.jobs })
			look(first.Add(60*time.Minute + 3*time.Minute))
			list := d.taken()
			if len(list) != 2 || list[0].Count != 1 || !list[0].Occurs.Equal(first.Add(5*time.Minute)) || list[1].Count != c.missed || (list[1].Occurs == nil) != (c.catchUp == schedule.CatchUpOne) {
				b, _ := json.Marshal(list)
				t.Errorf("skipped: %s", b)
			}
			if ran() != c.jobs {
				t.Errorf("%d were run", ran())
			}
		})
	}
}

// A job of a service is not that of a profile which comes to have its name: it keeps no
// rename, no deletion ends it, and one that waits does not begin as the profile's.
func TestServiceIsNoProfile(t *testing.T) {
	g := newRig(t, newDisk("here"), Unrecorded())
	g.Open()
	what := Scheduled{Name: "tick", Of: "tick", Command: []string{"true"}, Schedule: service.Schedule{Cron: "* * * * *", Overlap: service.OverlapSkip, Timeout: time.Hour}}
	(&schedules{runner: g.Runner}).occur(g.journal.Load(), what, time.Now())
	g.until("its job is spawned", func() bool {
		g.task = g.tasks.byID["1"]
		return g.task != nil && g.spawn() != 0
	})
	g.Hear(&wire.Spawned{ID: g.task.run.id, PID: 1 << 30})
	j, err := (requests{g.Runner}).show("1")
	if err != nil || j.Profile != nil || j.Service == nil || *j.Service != "tick" {
		t.Errorf("shown as %+v, %v", j, err)
	}
	g.host.mu.Lock()
	g.host.services, g.host.profiles["tick"] = nil, true
	g.host.mu.Unlock()
	release, err := g.Reserve("tick", "renamed")
	if err != nil {
		t.Fatal(err)
	}
	release()
	g.Vacate("tick", "its profile was deleted")()
	g.until("it runs on", func() bool { return g.task.state.Marked == 0 && g.task.state.Stage == job.Alive })
	late := newTask("", "run", nil, control.RunJob{Command: []string{"true"}, Service: "tick", TimeoutMS: 1000, MaxOutput: 1000, Detach: true})
	if _, err := g.submit(late); err != nil {
		t.Fatal(err)
	}
	<-late.outcome.done
	if why := late.outcome.result.Error; why == nil || !strings.Contains(*why, `there is no service "tick"`) {
		t.Errorf("%+v", late.outcome.result)
	}
}

// Where no schedule is run, that is said in the place of a next occurrence; and what one
// that is switched off has missed is not made up for.
func TestScheduleThatIsNotRun(t *testing.T) {
	d := &skips{disk: newDisk("here")}
	g := newRig(t, d, Unrecorded())
	g.Open()
	g.host.profiles["nightly"] = true
	what := Scheduled{Name: "nightly", Of: "nightly", Schedule: service.Schedule{Cron: "*/5 * * * *", CatchUp: schedule.CatchUpOne, Timeout: time.Minute}}
	s := &schedules{runner: g.Runner, fd: -1, last: map[string]time.Time{}, list: func() []Scheduled { return []Scheduled{what} }}
	begin := time.Now()
	s.due(begin)
	if is := g.NextOf(what); is.Next == nil || is.NotRun != "" {
		t.Errorf("in force: %+v", is)
	}
	what.Off = NotOn
	s.due(begin.Add(time.Second))
	if is := g.NextOf(what); is.Next != nil || is.NotRun == "" {
		t.Errorf("switched off: %+v", is)
	}
	if next := s.due(begin.Add(time.Hour)); !next.IsZero() {
		t.Errorf("it is looked at again at %s", next)
	}
	what.Off = ""
	s.due(time.Now())
	ran := 0
	d.View(func(h *table.Table) { ran = len(h.Jobs) })
	if ran > 0 || len(d.taken()) > 0 {
		t.Errorf("%d were run, skipped %v", ran, d.taken())
	}
	g.host.has("")
	if is := g.NextOf(what); is.Next != nil || is.NotRun != "it is not ours" {
		t.Errorf("without a volume: %+v", is)
	}
}

// A stop ends what its schedule has begun, with what waits for that, and the next
// occurrence is run all the same.
func TestOccurrencesAreEnded(t *testing.T) {
	d := &skips{disk: newDisk("here")}
	g := newRig(t, d, Unrecorded())
	g.Open()
	g.host.profiles["nightly"] = true
	what := Scheduled{Name: "nightly", Of: "nightly", Command: []string{"true"}, Schedule: service.Schedule{Cron: "*/5 * * * *", Overlap: service.OverlapQueue, Timeout: time.Minute}}
	s := &schedules{runner: g.Runner, fd: -1, last: map[string]time.Time{}, list: func() []Scheduled { return []Scheduled{what} }}
	if over := g.EndOccurrences("nightly", "stop by uid 0"); over != nil {
		t.Error("there was something to end")
	}
	begin := time.Now()
	s.due(begin)
	first := begin.Truncate(5 * time.Minute).Add(5 * time.Minute)
	s.due(first)
	g.until("the first runs", func() bool { return g.host.spawned["job/1"] != 0 })
	s.due(first.Add(5 * time.Minute)) // waits for it
	over := g.EndOccurrences("nightly", "stop by uid 0")
	if over == nil {
		t.Fatal("nothing was ended")
	}
	g.until("it is told to end", func() bool { return len(g.host.ended) == 1 })
	select {
	case <-over:
		t.Error("it is over before its process is")
	default:
	}
	g.Hear(&wire.Exited{ID: g.host.spawned["job/1"], Exit: wire.Exit{At: 1}})
	<-over
	g.until("the one that waited is skipped", func() bool { return len(d.taken()) == 1 })
	s.due(first.Add(10 * time.Minute))
	g.until("the next is run", func() bool { return g.host.spawned["job/2"] != 0 })
	g.Hear(&wire.Exited{ID: g.host.spawned["job/2"], Exit: wire.Exit{At: 2}})
	g.until("it is over", func() bool { return len(g.tasks.byID) == 0 })
	g.until("no occurrence waits", func() bool { return len(g.waiting) == 0 })
}
