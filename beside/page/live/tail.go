package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"rlminit/control"
)

const (
	// tailsMost is how many logs are followed at once: each is a stream of its own.
	tailsMost = 12
	// tailLines is how many lines of a log a tab is sent at first, and at most at once.
	tailLines = 200
	// tailGather is for how long lines are gathered before they are sent.
	tailGather = 50 * time.Millisecond
	// floodLines is how many lines may come within floodTime. Of a service that writes more,
	// the end of the log is read again every so often: nobody reads the rest on a screen, and
	// the supervisor need not send it.
	floodLines = 4000
	floodTime  = time.Second
	// lineMost bounds what is kept of one line, in bytes.
	lineMost = 4 << 10
)

// Tails follow the logs that tabs show, each once, without its service's secrets. Their
// lock is held for a moment only, and never while something is waited for.
type Tails struct {
	ask   *Supervisor
	write func(lines [][]byte, left int) []byte // makes HTML of lines, of which some were left out before

	mu  sync.Mutex
	all map[string]*tail
}

// tail is one log, as its last lines.
type tail struct {
	name  string
	stop  context.CancelFunc
	tabs  map[*LogTab]bool
	lines [][]byte // the last ones, up to twice as many as are shown
	fresh int      // how many of these are not sent yet
	anew  bool     // they take the place of what was sent before
	timer bool     // they are sent soon
}

// LogTab is one tab that shows a log.
type LogTab struct {
	tails *Tails
	tail  *tail

	messages chan Message
	gone     chan struct{}
}

// The events that a tab with a log is sent, both HTML.
const (
	Lines    = "lines"    // more lines
	AllLines = "alllines" // in the place of those that it shows
)

// NewTails makes them. write makes HTML of lines, each without its newline and of a
// bounded length; left is how many were left out before them.
func NewTails(ask *Supervisor, write func(lines [][]byte, left int) []byte) *Tails {
	return &Tails{ask: ask, write: write, all: map[string]*tail{}}
}

// Open has a tab sent the end of a log, and what comes. ErrFull: too many are followed.
func (s *Tails) Open(ctx context.Context, name string) (*LogTab, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.all[name]
	if t == nil {
		if len(s.all) >= tailsMost {
			return nil, ErrFull
		}
		t = &tail{name: name, tabs: map[*LogTab]bool{}}
		ctx, t.stop = context.WithCancel(context.WithoutCancel(ctx)) // the first tab may go before the others
		s.all[name] = t
		go s.follow(ctx, t)
	}
	tab := &LogTab{tails: s, tail: t, messages: make(chan Message, waitingMost), gone: make(chan struct{})}
	t.tabs[tab] = true
	if n := len(t.lines); n > 0 {
		tab.messages <- Message{Event: AllLines, Data: s.write(t.lines[max(0, n-tailLines):], 0)}
	}
	return tab, nil
}

// Messages are what is to be sent to the browser.
func (t *LogTab) Messages() <-chan Message {
	if t == nil {
		return nil
	}
	return t.messages
}

// Gone is closed when the tab is let go, for it was too slow.
func (t *LogTab) Gone() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.gone
}

// Close ends it. It may be called once.
func (t *LogTab) Close() {
	t.tails.mu.Lock()
	defer t.tails.mu.Unlock()
	t.tails.leave(t)
}

// leave takes a tab out. The caller holds the lock.
func (s *Tails) leave(tab *LogTab) {
	t := tab.tail
	if !t.tabs[tab] {
		return
	}
	delete(t.tabs, tab)
	close(tab.gone)
	if len(t.tabs) == 0 {
		t.stop()
		delete(s.all, t.name)
	}
}

// errFlood ends the reading of a log in which there is too much.
var errFlood = errors.New("more is written than anybody reads")

// follow reads a log until nobody shows it any more. When the supervisor was replaced, or
// too much was written, the end of the log is read again.
func (s *Tails) follow(ctx context.Context, t *tail) {
	for ctx.Err() == nil {
		s.reset(t)
		lines, began := 0, time.Now()
		_ = s.ask.client.Logs(ctx, t.name, control.LogOptions{Lines: tailLines, Follow: true, Redacted: true}, func(line []byte) error {
			if lines++; lines > floodLines {
				if time.Since(began) < floodTime {
					return errFlood
				}
				lines, began = 0, time.Now()
			}
			s.line(t, line)
			return nil
		}) // whether the supervisor answers, the hub says
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (s *Tails) reset(t *tail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.lines, t.fresh, t.anew = nil, 0, true
}

// line takes one in.
func (s *Tails) line(t *tail, line []byte) {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	line = append([]byte(nil), line[:min(len(line), lineMost+1)]...)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.lines = append(t.lines, line)
	t.fresh++
	if len(t.lines) >= 2*tailLines {
		t.lines = append([][]byte(nil), t.lines[len(t.lines)-tailLines:]...)
	}
	if !t.timer {
		t.timer = true
		time.AfterFunc(tailGather, func() { s.send(t) })
	}
}

// send sends what is fresh: after a reset everything, in the place of what was before.
func (s *Tails) send(t *tail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := t.lines[max(0, len(t.lines)-tailLines):]
	fresh := min(t.fresh, len(last))
	m := Message{Event: Lines, Data: s.write(last[len(last)-fresh:], t.fresh-fresh)}
	if t.anew {
		m = Message{Event: AllLines, Data: s.write(last, 0)}
	}
	t.timer, t.fresh, t.anew = false, 0, false
	for tab := range t.tabs {
		select {
		case tab.messages <- m:
		default:
			s.leave(tab)
		}
	}
}
