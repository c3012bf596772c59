package supervise

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"rlminit/logs"
	"rlminit/service"
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
	Reconfigure(logs.Config) error
	Close()
	Closed() <-chan struct{} // when nothing is written any more
}

// collectorKey names what the log collector needs of its predecessor.
const collectorKey = "log"

// logging is what services write. Its collector is nil until it is opened.
type logging struct {
	loop    *mailbox
	tier1   *tier1
	prep    *preparer
	records *records
	logs    *logs.Collector

	mainOnTerminal bool // a main command uses the container's terminal: other lines would break its screen
}

// openLogs starts the collector, on the volume where there is one, and else in
// the directory fallback.
func (l *logging) openLogs(fallback string) error {
	l.mainOnTerminal = l.tier1.terminal || l.prep.policy.Main != nil && isTerminal(1)
	out := ownOutput(1)
	options := logs.Options{
		Home: l.prep.config().Home, Held: l.tier1.held.Take(collectorKey), Tee: out,
		Colour: out >= 0 && isTerminal(out) && os.Getenv("NO_COLOR") == "", Report: l.logTrouble,
	}
	if info, err := os.Stat(options.Home); err != nil || !info.IsDir() {
		// Without a volume there is nothing to write to; the slots' newest lines
		// are still kept, and the tee goes on.
		options.Home = fallback
	}
	var err error
	if l.logs, err = logs.New(options); err != nil {
		return fmt.Errorf("cannot log: %w", err)
	}
	l.tier1.link.Send(&wire.Hold{Key: collectorKey}, l.logs.Held(), nil)
	return nil
}

// logTrouble says when a service's log cannot be written, and when it can again.
func (l *logging) logTrouble(name string, err error) {
	if err != nil {
		slog.Warn("cannot write a log; the newest lines are kept in memory", "service", name, "err", err)
	} else {
		slog.Info("a log is written again", "service", name)
	}
}

// logConfig is how u's output is kept. A volume that is another container's has
// its files written by that one: two writers would tear them.
func (l *logging) logConfig(u *unit) logs.Config {
	d := u.definition
	return logs.Config{
		Dir: logDir(u.name, d.Profile), File: d.Log.File && l.prep.volume.Store() != nil,
		MaxSize: d.Log.MaxSize, MaxAge: d.Log.MaxAge, MaxFiles: d.Log.MaxFiles, Compress: d.Log.Compress,
		Tee:    d.Log.Tee == service.TeeOn || d.Log.Tee == service.TeeAuto && !l.mainOnTerminal,
		Prefix: u.title(), Timestamps: d.Log.Timestamps,
	}
}

// logDir is where a log lies on the volume.
func logDir(name, profile string) string {
	if profile != "" {
		return "logs/gateways/" + profile
	}
	return "logs/services/" + name
}

// openLog makes sure that u has its log pipes, and that tier 1 holds them.
func (l *logging) openLog(u *unit) error {
	if u.log != nil {
		return nil
	}
	slot, err := l.logs.Open(u.name, l.logConfig(u), l.tier1.held.Take(logKey(u.name)))
	if err != nil {
		return fmt.Errorf("cannot open the log of %s: %w", u.name, err)
	}
	u.log = slot
	l.tier1.link.Send(&wire.Hold{Key: logKey(u.name)}, slot.Held(), nil)
	return nil
}

// reconfigureLog brings what the definition says of the log into force.
func (l *logging) reconfigureLog(u *unit) {
	if err := u.log.Reconfigure(l.logConfig(u)); err != nil {
		slog.Warn("cannot change how a log is kept", "service", u.name, "err", err)
	}
}

func logKey(name string) string { return "log/" + name }

// stdio is what a process of u gets as descriptors 0 to 2.
func (l *logging) stdio(u *unit) (fds []int, targets []int32) {
	return []int{l.prep.null, u.log.Stdout(), u.log.Stderr()}, []int32{0, 1, 2}
}
