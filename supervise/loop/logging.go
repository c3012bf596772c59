package loop

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/internal/kernel"
	"rlminit/internal/redact"
	"rlminit/journal"
	"rlminit/logs"
	"rlminit/logs/forward"
	"rlminit/service"
	"rlminit/supervise/console"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/process"
	"rlminit/supervise/spawn"
	"rlminit/wire"
)

// serviceLog is the log of one service: a logs.Slot, but in a simulation.
type serviceLog interface {
	Stdout() int
	Stderr() int
	Mark(text string)
	MarkExit(id uint64, text string, done func(last string))
	Tail(n int, timeout time.Duration) ([]string, error)
	Stats() logs.Stats
	AwaitWritten(done func(written bool))
	Reconfigure(logs.Config) error
	Close()
	Closed() <-chan struct{} // when nothing is written any more
}

// output is what a unit writes, and has written.
type output struct {
	slot    serviceLog    // nil: it is not open
	copies  int           // who write into it besides, and have not given its pipes back: it stays open for them
	before  logs.Stats    // what was counted before it was opened last
	lines   []string      // the end of its log, of a failed service
	unsent  func() uint64 // lines that were not sent on; nil: it is sent nowhere
	parting string        // what its log says last, when its name is nobody's any more; "": nothing
}

// stats are what was written and lost since this supervisor began.
func (o *output) stats() logs.Stats {
	sum := o.before
	if o.slot != nil {
		now := o.slot.Stats()
		sum.Bytes += now.Bytes
		sum.LostBytes += now.LostBytes
		sum.LostLines += now.LostLines
	}
	return sum
}

// left is how many lines were not sent on, for all that is known; nil: they are sent nowhere.
func (o *output) left() *uint64 {
	if o.unsent == nil {
		return nil
	}
	return new(o.unsent())
}

// logging is what services write.
type logging struct {
	loop    *mailbox
	fleet   *fleet
	tier1   *spawn.Tier1
	prep    *preparer
	records *Records
	logs    *logs.Collector    // nil in a simulation
	forward *forward.Forwarder // nil in a simulation

	kept           []*unit // at rest, with an open log that has no file; some have run since
	mainOnTerminal bool    // a main command uses the container's terminal: other lines would break its screen
}

// withinLimit is how large a log may become, 0 for any size, where files may not be of any
// size: RLIMIT_FSIZE.
func withinLimit(size int64) int64 {
	is, err := kernel.Rlimit(unix.RLIMIT_FSIZE)
	if err != nil || is.Cur == unix.RLIM_INFINITY {
		return size
	}
	if most := int64(min(is.Cur, 1<<62)) * 3 / 4; size == 0 || size > most { // one line may come behind it
		return most
	}
	return size
}

// logConfig is how u's output is kept. A volume that is another container's has
// its files written by that one: two writers would tear them.
func (l *logging) logConfig(u *unit) logs.Config {
	d := u.definition
	return logs.Config{
		Dir: logs.Dir(u.name, d.Profile), File: d.Log.File && l.prep.Volume.Store() != nil,
		MaxSize: withinLimit(d.Log.MaxSize), MaxAge: d.Log.MaxAge, MaxFiles: d.Log.MaxFiles, Compress: d.Log.Compress,
		Tee:    (d.Log.Tee == service.TeeOn || d.Log.Tee == service.TeeAuto && !l.mainOnTerminal) && !onStdout(d.Log.Forward),
		Prefix: u.title(), Timestamps: d.Log.Timestamps, Redact: masks(u),
	}
}

// openLog makes sure that u has its log pipes, and that tier 1 holds them, as hold tells it.
func (l *logging) openLog(u *unit, hold func(*wire.Hold, []int)) error {
	if u.output.slot != nil {
		return nil
	}
	held := l.tier1.Held.Take(logKey(u.name))
	// Two pipes, the file, a notify socket, and what it listens on.
	if err := process.Room(6 + len(u.definition.Sockets)); err != nil && len(held) == 0 {
		return err
	}
	slot, err := l.logs.Open(u.name, l.sending(u), held)
	if err != nil {
		return fmt.Errorf("cannot open the log of %s: %w", u.name, err)
	}
	u.output.slot = slot
	hold(&wire.Hold{Key: logKey(u.name)}, slot.Held())
	return nil
}

// closeLog closes u's log, here and in tier 1. The channel is closed when nothing of it is
// written any more; nil: it was not open.
func (l *logging) closeLog(u *unit) (closed <-chan struct{}) {
	slot := u.output.slot
	if slot == nil {
		return nil
	}
	u.output.before, u.output.slot = u.output.stats(), nil
	slot.Close()
	l.tier1.Send(&wire.Release{Key: logKey(u.name)}, nil, nil)
	return slot.Closed()
}

// rest closes the log of a service that is at rest, once all of it is in its file. One
// that cannot be written keeps its newest lines in its pipes' slot, and so does one that
// has no file, as long as few others do.
func (l *logging) rest(u *unit) {
	slot := u.output.slot
	if slot == nil || u.output.copies > 0 { // the last of these asks again
		return
	}
	slot.AwaitWritten(func(written bool) {
		l.loop.do(func() {
			switch {
			case u.output.slot != slot || u.output.copies > 0 || !u.rests():
			case written:
				l.closeLog(u)
			case !l.logConfig(u).File:
				l.keep(u)
			}
		})
	})
}

// keep leaves the log of u, which rests, open, and closes the one that has been kept for
// longest where these take too many descriptors.
func (l *logging) keep(u *unit) {
	l.kept = append(slices.DeleteFunc(l.kept, func(k *unit) bool { return k == u || k.output.slot == nil || k.output.copies > 0 || !k.rests() }), u)
	if len(l.kept) > process.MostAtRest() {
		l.closeLog(l.kept[0])
		l.kept = l.kept[1:]
	}
}

// onStdout tells whether lines are sent to the container's stdout, in place of the tee.
func onStdout(f *service.Forward) bool { return f != nil && f.To == service.ForwardStdout }

// forwarding is what sends logs on; nil: nothing does.
func forwarding(d *Drivers) *forward.Forwarder {
	if d.Logs == nil {
		return nil
	}
	f, err := forward.New(forward.Options{Logs: d.Logs, Stdout: console.Open(1), Dir: func() string {
		if d.Volume.Writable() == nil {
			return ""
		}
		return filepath.Join(d.Preparer.Config().Home, journal.Home, "forward")
	}})
	if err != nil {
		slog.Error("logs are not sent on", "err", err)
	}
	return f
}

// Logged is the logs, as others read and see them.
type Logged struct {
	*logs.Collector
	*Loop
}

// Pipes are those of a service's log, stdout's and stderr's, which is opened where it is not;
// done gives them back.
func (l *Loop) Pipes(service string) (pipes [2]int, done func(), err error) {
	pipes = [2]int{-1, -1}
	var u *unit
	l.ask(func() {
		if u = l.fleet.units[service]; u == nil {
			err = control.NewProblem(control.KindNoSuchName, "there is no service "+service+" any more")
			return
		}
		u.output.copies++
		if err = l.logging.openLog(u, l.tier1.Hold); err != nil {
			return
		}
		for i, fd := range []int{u.output.slot.Stdout(), u.output.slot.Stderr()} {
			if pipes[i], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
				return
			}
		}
	})
	done = func() {
		wire.CloseAll(slices.DeleteFunc(pipes[:], func(fd int) bool { return fd < 0 }))
		l.do(func() {
			if u == nil {
				return
			}
			if u.output.copies--; u.rests() {
				l.logging.rest(u)
			}
		})
	}
	if err != nil {
		done()
		return pipes, nil, err
	}
	return pipes, done, nil
}

// Unsent is where logs cannot be sent on to now, a sentence each.
func (l *Loop) Unsent() (all []string) {
	if l.logging.forward == nil {
		return nil
	}
	for _, s := range l.logging.forward.States() {
		if s.Down != "" {
			all = append(all, fmt.Sprintf("logs cannot be sent on to %s since %s: %s", s.To, s.Since.UTC().Format(time.RFC3339), s.Down))
		}
	}
	return all
}

// sending is logConfig, once it is in force where u's lines are sent.
func (l *logging) sending(u *unit) logs.Config {
	cfg := l.logConfig(u)
	if l.forward == nil {
		return cfg
	}
	var to forward.Target
	if f := u.definition.Log.Forward; f != nil {
		to = forward.Target{To: f.To, Format: f.Format, Profile: u.definition.Profile}
		if cfg.File {
			to.Dir = cfg.Dir
		}
	}
	cfg.Grew, u.output.unsent = l.forward.Set(u.name, to)
	return cfg
}

// sendOn has what is in u's log sent on, though it may never run again: a predecessor may
// have left lines.
func (l *logging) sendOn(u *unit) {
	if u.output.slot == nil && (u.definition.Log.Forward != nil || u.output.unsent != nil) {
		l.sending(u)
	}
}

// sendWithin is how long a stop may take for lines that were not sent yet: what is left is
// sent after the next start.
const sendWithin = 500 * time.Millisecond

// sendRest sends what there is to those who take it.
func (l *logging) sendRest() {
	if l.forward != nil {
		l.forward.Close(sendWithin)
	}
}

// masks are what is masked in u's output.
func masks(u *unit) *redact.Lines {
	lines, err := redact.NewLines(u.definition.Log.Redact)
	if err != nil { // though its definition was checked
		slog.Error("all of a log is masked", "service", u.name, "err", err)
		lines, _ = redact.NewLines([]string{".+"})
	}
	return lines
}

// reconfigureLog brings what the definition says of the log into force.
func (l *logging) reconfigureLog(u *unit) {
	if err := u.output.slot.Reconfigure(l.sending(u)); err != nil {
		slog.Warn("cannot change how a log is kept", "service", u.name, "err", err)
	}
}

// part has u's log say why nothing more of it comes under its name, whether it has run
// or not: who follows the log may see that of another profile next.
func (l *logging) part(u *unit) {
	if u.output.parting != "" && l.openLog(u, l.tier1.Hold) == nil {
		u.output.slot.Mark(u.output.parting)
	}
}

func logKey(name string) string { return "log/" + name }

// mark writes into the service's own log what happened to it, after all that
// its process wrote before.
func (l *logging) mark(u *unit, before, state *machine.State) {
	failed := state.Phase != before.Phase && (state.Phase == machine.Failed || state.Phase == machine.Backoff)
	if u.output.slot == nil && failed { // before its first run: a secret that is missing, a directory
		_ = l.openLog(u, l.tier1.Hold)
	}
	if u.output.slot == nil {
		if endedBy(before, state) {
			l.tell(core.Marked, u, before.ID, "")
			l.tell(core.Heard, u, before.ID, "")
		}
		return
	}
	if state.Phase == machine.Stopping && before.Phase != machine.Stopping && state.StopBy != machine.StopCommand {
		u.output.slot.Mark(state.StopReason)
	}
	if endedBy(before, state) {
		u.output.slot.MarkExit(before.ID, state.LastExit.String(), l.marked(u, before.ID))
	}
	if failed {
		u.output.slot.Mark(state.Public() + ": " + state.Reason)
	}
}

// endedBy tells whether a run ended by a transition.
func endedBy(before, state *machine.State) bool {
	e := state.LastExit
	return e != nil && (before.LastExit == nil || *before.LastExit != *e)
}

// marked has the core know that the log says how a run ended, and what that said last,
// which may still be in its pipe, or until that takes too long.
func (l *logging) marked(u *unit, run uint64) func(last string) {
	late := time.AfterFunc(flushPatience, func() {
		l.loop.do(func() { l.tell(core.Heard, u, run, "") })
	})
	return func(last string) {
		late.Stop()
		l.loop.do(func() {
			l.tell(core.Marked, u, run, "")
			l.tell(core.Heard, u, run, u.process.secrets.Line(last))
		})
	}
}

// tell has the core know what the log has of a run.
func (l *logging) tell(kind core.Kind, u *unit, run uint64, text string) {
	l.fleet.apply(core.Input{Kind: kind, Life: u.life, Spawn: run, Text: text})
}

// quote has the end of a failed service's log shown in its status.
func (l *logging) quote(u *unit) {
	slot := u.output.slot
	if slot == nil {
		return
	}
	go func() {
		lines, _ := slot.Tail(5, time.Second) // without them it is shown without
		l.loop.do(func() {
			u.output.lines = lines
			for i, line := range lines {
				lines[i] = u.process.secrets.Line(line)
			}
			l.records.publishStatus(u)
			if u.rests() {
				l.rest(u)
			}
		})
	}()
}
