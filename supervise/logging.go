package supervise

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"rlminit/control"
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

// openLogs starts the collector, on the volume where there is one.
func (s *Supervisor) openLogs() error {
	s.mainOnTerminal = s.terminal || s.policy.Main != nil && isTerminal(1)
	out := ownOutput(1)
	options := logs.Options{
		Home: s.config().Home, Held: s.held.Take(collectorKey), Tee: out,
		Colour: out >= 0 && isTerminal(out) && os.Getenv("NO_COLOR") == "", Report: s.logTrouble,
	}
	if info, err := os.Stat(options.Home); err != nil || !info.IsDir() {
		// Without a volume there is nothing to write to; the slots' newest lines
		// are still kept, and the tee goes on.
		options.Home = s.slots.Path
	}
	var err error
	if s.logs, err = logs.New(options); err != nil {
		return fmt.Errorf("cannot log: %w", err)
	}
	s.link.Send(&wire.Hold{Key: collectorKey}, s.logs.Held(), nil)
	return nil
}

// logTrouble says when a service's log cannot be written, and when it can again.
func (s *Supervisor) logTrouble(name string, err error) {
	if err != nil {
		slog.Warn("cannot write a log; the newest lines are kept in memory", "service", name, "err", err)
	} else {
		slog.Info("a log is written again", "service", name)
	}
}

// logConfig is how u's output is kept. A volume that is another container's has
// its files written by that one: two writers would tear them.
func (s *Supervisor) logConfig(u *unit) logs.Config {
	d := u.definition
	return logs.Config{
		Dir: logDir(u.name, d.Profile), File: d.Log.File && s.volume.Store() != nil,
		MaxSize: d.Log.MaxSize, MaxAge: d.Log.MaxAge, MaxFiles: d.Log.MaxFiles, Compress: d.Log.Compress,
		Tee:    d.Log.Tee == service.TeeOn || d.Log.Tee == service.TeeAuto && !s.mainOnTerminal,
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

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// ownOutput opens descriptor fd anew, non-blocking: O_NONBLOCK on the one that
// we inherited would be everybody's. -1: it cannot be opened anew.
func ownOutput(fd int) int {
	own, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_APPEND|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return -1
	}
	return own
}

// ReadLog writes the log of a service, or of all merged.
func (s *Supervisor) ReadLog(ctx context.Context, w io.Writer, name string, query logs.Query) error {
	if name == "all" {
		query.Prefix, query.All = true, true
		s.ask(func() {
			for _, u := range s.all() {
				if u.log != nil {
					continue // All has it
				}
				query.Sources = append(query.Sources, source(u))
			}
		})
	} else {
		u, err := s.lookUp(name)
		if err != nil {
			return err
		}
		s.ask(func() { query.Sources = []logs.Source{source(u)} })
	}
	if err := s.logs.Read(ctx, w, query); err != nil {
		return control.Failed("cannot read the log: %v", err)
	}
	return nil
}

func source(u *unit) logs.Source {
	return logs.Source{Name: u.name, Dir: logDir(u.name, u.definition.Profile)}
}

// rawOutput writes to a descriptor that does not block, and rather loses a line
// than waits: nobody may stop the loop by not reading our messages.
type rawOutput int

func (fd rawOutput) Write(p []byte) (int, error) { return unix.Write(int(fd), p) }

// patientStderr is stderr, opened anew so that it does not block, where that can
// be done.
func patientStderr() io.Writer {
	if fd := ownOutput(2); fd >= 0 {
		return rawOutput(fd)
	}
	return os.Stderr
}

// newLogHandler writes our own messages, one line each, and rather drops one
// than waits for a reader that does not read.
func newLogHandler(w io.Writer) slog.Handler {
	return &logHandler{mu: new(sync.Mutex), out: w}
}

// logHandler formats as `rlminit: message key=value …`: the time is the
// container engine's to add.
type logHandler struct {
	mu    *sync.Mutex
	out   io.Writer
	attrs []slog.Attr
}

func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var line bytes.Buffer
	line.WriteString("rlminit: ")
	line.WriteString(oneLine(r.Message))
	add := func(a slog.Attr) bool {
		value := a.Value.Resolve().String()
		if value == "" || strings.ContainsFunc(value, needsQuotes) {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&line, " %s=%s", a.Key, value)
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	line.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.out.Write(line.Bytes())
	return err
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{mu: h.mu, out: h.out, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

func (h *logHandler) WithGroup(string) slog.Handler { return h }

// oneLine keeps a message from taking more than its line, and from saying
// anything to a terminal: the name of a file that a service made may be in it.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ReplaceAll(text, "\n", "; "))
}

// needsQuotes tells whether a character of a value may be taken for the end of
// it, or be obeyed by a terminal.
func needsQuotes(r rune) bool {
	return strings.ContainsRune(" \"=", r) || !strconv.IsPrint(r) || r == utf8.RuneError
}
