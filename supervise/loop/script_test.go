package loop

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
	"rlminit/journal"
	"rlminit/supervise/remember"
	"rlminit/wire"
)

// script is what a golden trace has seen cross the loop's border. A nil one sees nothing.
type script struct {
	began   time.Time
	records func(each func(journal.Record)) // those that are new
	names   sync.Map                        // of services, by spawn id

	mu     sync.Mutex
	lines  []string
	latest map[string]string // by key: the row that was shown last
	seq    uint64            // the journal's record that was shown last
	notes  []note            // what is shown at the end of the directive
}

type note struct{ what, says string }

// say adds a line, with the time since the boot.
func (s *script) say(what, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted(false)
	s.line(what, format, args...)
}

func (s *script) line(what, format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%6.1f %-7s %s", time.Since(s.began).Seconds(), what, fmt.Sprintf(format, args...)))
}

// taken are the lines since it was called last.
func (s *script) taken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted(true)
	lines := s.lines
	if s.lines = nil; len(lines) == 0 {
		return "nothing\n"
	}
	return strings.Join(lines, "\n") + "\n"
}

// to is a message to tier 1.
func (s *script) to(m wire.Message) {
	if s == nil {
		return
	}
	switch m := m.(type) {
	case *wire.Spawn:
		s.names.Store(m.ID, m.Name)
		s.say("to", "spawn %d: %s", m.ID, m.Name)
	case *wire.Signal:
		s.say("to", "signal %v to %s", unix.SignalName(unix.Signal(m.Signal)), s.name(m.ID))
	case *wire.Acknowledge:
		s.say("to", "acknowledge %s", s.name(m.ID))
	}
}

// from is a message of tier 1: an event of the kernel.
func (s *script) from(m wire.Message) {
	if s == nil {
		return
	}
	switch m := m.(type) {
	case *wire.Spawned:
		s.say("from", "spawned %s, pid %d", s.name(m.ID), m.PID)
	case *wire.Exited:
		how := fmt.Sprintf("code %d", m.Exit.Code)
		if m.Exit.Signal != 0 {
			how = unix.SignalName(unix.Signal(m.Exit.Signal))
		}
		s.say("from", "exited %s: %s", s.name(m.ID), how)
	}
}

func (s *script) name(id uint64) string {
	name, _ := s.names.Load(id)
	return fmt.Sprintf("%d: %v", id, name)
}

// row is one for a successor that was written.
func (s *script) row(key string, text []byte) {
	if s == nil {
		return
	}
	says := ofRow(key, text)
	s.mu.Lock()
	same := s.latest[key] == says
	if s.latest[key] = says; says == forgotten { // by the registry, which follows in its own time
		s.notes = append(s.notes, note{"row", key + ": " + says})
	}
	s.mu.Unlock()
	if says != "" && says != forgotten && !same {
		s.say("row", "%s: %s", key, says)
	}
}

const forgotten = "forgotten"

// ofRow is what of a row a person wants to read; "": nothing.
func ofRow(key string, text []byte) string {
	switch {
	case !strings.HasPrefix(key, remember.ServicesUnder) && !strings.HasPrefix(key, remember.OperationsUnder):
	case len(text) == 0:
		return forgotten
	case strings.HasPrefix(key, remember.ServicesUnder):
		var is remember.Service
		_ = json.Unmarshal(text, &is)
		m := &is.Machine
		says := fmt.Sprintf("desired %s, %s", is.Desired, cmp.Or(string(m.Phase), "stopped"))
		for _, more := range []struct {
			is   bool
			says string
		}{
			{m.ID != 0, fmt.Sprintf(" %d", m.ID)},
			{m.PID != 0, fmt.Sprintf(", pid %d", m.PID)},
			{m.Blocked != "", ", waits: " + m.Blocked},
			{m.Timer.At != 0, fmt.Sprintf(", looks again in %s", time.Duration(m.Timer.At-boottime()).Round(100*time.Millisecond))},
			{m.Health != "", ", " + string(m.Health)},
			{is.Before != "", fmt.Sprintf(", before %s", is.Before)},
			{is.Owed, ", a start is owed"},
			{m.Removed, ", removed"},
			{m.Reason != "", ": " + m.Reason},
		} {
			if more.is {
				says += more.says
			}
		}
		return says
	default:
		var is control.Operation
		_ = json.Unmarshal(text, &is)
		return ofOperation(is)
	}
	return ""
}

func ofOperation(is control.Operation) string {
	says := is.Verb + " " + is.State
	if is.Reason != "" {
		says += " (" + is.Reason + ")"
	}
	for _, m := range is.Members {
		says += ", " + m.Name + " " + m.State
		if m.Reason != "" {
			says += " (" + m.Reason + ")"
		}
	}
	return says
}

// noted shows the records that are new. Notes, for which nobody waits, follow at the
// end of a directive.
func (s *script) noted(all bool) {
	s.records(func(r journal.Record) {
		s.seq = r.Seq
		switch r.Type {
		case "boot_begun":
		case "transition":
			s.notes = append(s.notes, note{"journal", ofTransition(r)})
		case "operation_ended":
			var is control.Operation
			_ = r.Decode(&is)
			s.notes = append(s.notes, note{"journal", r.Type + " " + ofOperation(is)})
		default:
			s.line("journal", "%s", ofRecord(r))
		}
	})
	if all {
		for _, note := range s.notes {
			s.line(note.what, "%s", note.says)
		}
		s.notes = nil
	}
}

func ofTransition(r journal.Record) string {
	var is control.Event
	_ = r.Decode(&is)
	says := fmt.Sprintf("%s: from %s to %s", is.Service, is.From, is.To)
	if is.Actor != nil {
		says += fmt.Sprintf(", by %d", *is.Actor)
	}
	return says + ": " + is.Cause
}

// varying is what of a record, or of an answer, is another one in each run.
var varying = regexp.MustCompile(`\d{8}T\d{6}Z?|\d{4}-\d\d-\d\d[T-]\d\d[:-]?\d\d[:-]?\d\d(\.\d+)?Z?`)

// ofRecord is a record without its head.
func ofRecord(r journal.Record) string {
	var body map[string]any
	_ = json.Unmarshal(r.Line, &body)
	for _, head := range []string{"seq", "at", "boot", "type", "sum", "v"} {
		delete(body, head)
	}
	says := r.Type
	for _, key := range slices.Sorted(maps.Keys(body)) {
		text, _ := json.Marshal(body[key])
		says += " " + key + "=" + varying.ReplaceAllString(string(text), "TIME")
	}
	return says
}

// boot starts the container, with the configuration that is the directive's text.
func (g *golden) boot(d *datadriven.TestData) {
	g.absent = argument(d, "volume") == "absent"
	g.configure(d.Input)
	if g.now != nil {
		g.kill()
		g.world.mu.Lock()
		g.world.boots++
		clear(g.world.table)
		g.world.outbox = nil
		g.world.mu.Unlock()
		clear(g.script.latest)
		g.hold()
		g.homes.slotsAre(g.homes.path + 1) // each start of the container has an empty one
	}
	g.replace(g.ctx)
}

// configure writes the configuration, and reads it as a boot does.
func (g *golden) configure(text string) {
	file := filepath.Join(g.homes.runtime, "rlminit.yaml")
	text = "version: 1\nuser: app\nhome: " + g.home + "\n" + text + "\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		g.Fatal(err)
	}
	bundle, err := config.ReadUntrusted(file)
	if err != nil {
		g.Fatal(err)
	}
	c, faults := config.Parse(bundle, nil)
	if len(faults) > 0 {
		g.Fatal(faults.Err())
	}
	g.homes.config, g.homes.bundle = c, bundle
}

// replaced is a supervisor that is killed, and its successor.
func (g *golden) replaced() {
	g.kill()
	g.script.say("kill", "the supervisor; another takes over")
	g.replace(g.ctx)
}

// living is the process of the service that a directive names.
func (g *golden) process(d *datadriven.TestData) *body {
	for _, b := range g.world.table {
		if b.name == d.CmdArgs[0].Key && b.state == wire.ChildAlive && b.asking == nil {
			return b
		}
	}
	d.Fatalf(g.T, "%s has no process", d.CmdArgs[0].Key)
	return nil
}

// exits is a process that ends by itself, or is killed by somebody.
func (g *golden) exits(d *datadriven.TestData) {
	g.world.mu.Lock()
	defer g.world.mu.Unlock()
	code, _ := strconv.Atoi(argument(d, "code"))
	if signal := argument(d, "signal"); signal != "" {
		g.world.dies(g.process(d), -1, unix.SignalNum("SIG"+signal))
	} else {
		g.world.dies(g.process(d), int32(code), 0)
	}
}

// readies is a process that says READY=1.
func (g *golden) readies(d *datadriven.TestData) {
	g.world.mu.Lock()
	defer g.world.mu.Unlock()
	b := g.process(d)
	g.world.tell(func() {
		g.script.say("from", "READY=1 of %s", b.name)
		b.said = true
		g.world.ready(b)
	})
}

// ails is a process that answers its health probe badly, or well again, or that does not
// hear a signal to end.
func (g *golden) ails(d *datadriven.TestData) {
	g.world.mu.Lock()
	defer g.world.mu.Unlock()
	switch b := g.process(d); d.Cmd {
	case "ill":
		b.ill = refuses
	case "well":
		b.ill = well
	case "deaf":
		b.deaf = true
	}
}

// writes is somebody that writes a profile's profile.yaml by hand, which the watcher sees.
func (g *golden) writes(d *datadriven.TestData) {
	name := d.CmdArgs[0].Key
	if err := os.WriteFile(filepath.Join(g.home, "profiles", name, "profile.yaml"), []byte(d.Input+"\n"), 0o640); err != nil {
		g.Fatal(err)
	}
	g.now.Registry.Look(name)
}

// takes is the volume that comes, for the container that had it has ended.
func (g *golden) takes(*datadriven.TestData) {
	g.absent = false
	g.now.Records.volume.Use(g.store)
	g.now.Registry.Look()
}

var by = control.Actor{UID: 1000}

// wait is what a verb with wait=5s waits for.
func (g *golden) wait(d *datadriven.TestData) *control.Wait {
	if text := argument(d, "wait"); text != "" {
		return &control.Wait{TimeoutMS: g.duration(d, text).Milliseconds()}
	}
	return nil
}

// operate is start, stop and restart.
func (g *golden) operate(d *datadriven.TestData) (answer string, err error) {
	if text := argument(d, "rolling"); text != "" {
		width, err := strconv.Atoi(text)
		if err != nil {
			return "", err
		}
		how := control.BeginOperation{Verb: d.Cmd, Names: names(d), Rolling: width}
		if steady := argument(d, "steady"); steady != "" {
			how.SteadyMS = g.duration(d, steady).Milliseconds()
		}
		is, err := g.now.backend.BeginOperation(g.ctx, how, by)
		return fmt.Sprintf("operation %d: %s", is.ID, ofOperation(is)), err
	}
	of, how := "all", control.Operate{Names: names(d), Wait: g.wait(d)}
	if len(how.Names) == 1 {
		of, how.Names = how.Names[0], nil
	}
	if of == "all" && slices.Contains(how.Names, "all") {
		how.Names = nil
	}
	outcomes, id, err := g.now.backend.Operate(g.ctx, d.Cmd, of, how, by)
	answer = fmt.Sprintf("operation %d", id)
	for _, o := range outcomes {
		answer += "\n" + ofOutcome(o)
	}
	return answer, err
}

func ofOutcome(o control.Outcome) string {
	says := o.Service.Name + " is " + o.Service.State
	if o.Problem != nil {
		says += ", problem: " + o.Problem.Detail
	}
	if o.Left != "" {
		says += ", left: " + o.Left
	}
	if len(o.Along) > 0 {
		says += fmt.Sprintf(", along: %v", o.Along)
	}
	if o.Note != "" {
		says += ", note: " + o.Note
	}
	return says
}

func (g *golden) cancelled(d *datadriven.TestData) (answer string, err error) {
	id, err := strconv.ParseUint(d.CmdArgs[0].Key, 10, 64)
	if err != nil {
		return "", err
	}
	is, err := g.now.backend.CancelOperation(id)
	return ofOperation(is), err
}

func (g *golden) waited(d *datadriven.TestData) (answer string, err error) {
	is, err := g.now.backend.Wait(g.ctx, names(d)[0], control.WaitFor{For: argument(d, "for"), TimeoutMS: g.duration(d, argument(d, "timeout")).Milliseconds()})
	return is.Name + " is " + is.State, err
}

// reloaded reads the configuration again, which is the directive's text.
func (g *golden) reloaded(d *datadriven.TestData) (answer string, err error) {
	g.configure(d.Input)
	how := control.Reload{Operation: true}
	how.Rolling, _ = strconv.Atoi(argument(d, "rolling"))
	done, err := g.now.backend.Reload(g.ctx, how, by)
	if err != nil {
		return "", err
	}
	answer = fmt.Sprintf("operation %d", done.Operation)
	for _, c := range done.Changes {
		answer += fmt.Sprintf("\n%s %s: %s", c.Action, c.Service, c.Why)
	}
	return answer, nil
}

// status is how services are, as status --json says.
func (g *golden) status(*datadriven.TestData) (answer string, err error) {
	for _, s := range g.now.backend.Services() {
		answer += fmt.Sprintf("%s: desired %s, %s, %s (%s)", s.Name, s.Desired, s.State, s.Verdict, s.ReasonCode)
		if s.Reason != nil {
			answer += ": " + *s.Reason
		}
		answer += "\n"
	}
	return answer, nil
}

// profile is create, delete and rename.
func (g *golden) profile(d *datadriven.TestData) (answer string, err error) {
	of, name := g.now.Registry.Profiles, d.CmdArgs[0].Key
	var o control.Outcome
	switch d.Cmd {
	case "create":
		o, err = of.Create(g.ctx, control.CreateProfile{Name: name, Wait: g.wait(d), Stopped: argument(d, "state") == "stopped"}, by)
	case "rename":
		o, err = of.Rename(g.ctx, name, control.RenameProfile{To: argument(d, "to"), Wait: g.wait(d)}, by)
	case "delete":
		is, err := of.Delete(g.ctx, name, control.Deletion{}, by)
		return "in the trash as " + varying.ReplaceAllString(filepath.Base(is.Trash), "TIME"), err
	}
	if err != nil {
		return "", err
	}
	synctest.Wait()
	return ofOutcome(o), nil
}
