package main

import (
	"container/heap"
	"context"
	"slices"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/internal/document"
)

// logLine is one line of one of several logs.
type logLine struct {
	from int // which log
	at   time.Time
	text []byte
}

// printer writes lines of one or several logs, those of several each with its
// service's name, or all as JSON.
type printer struct {
	t        *terminal
	names    []string
	sources  []logSource // of JSON
	prefixes []string    // none where there is no name in front
	json     bool
	harmless bool // a terminal shows it: what a service wrote shall not command that
}

func newPrinter(t *terminal, names []string, o logAsk) *printer {
	p := &printer{t: t, names: names, sources: o.sources, json: t.json, harmless: t.isTTY && !o.raw}
	if len(names) == 1 || o.bare || t.json {
		return p
	}
	width := 0
	for _, name := range names {
		width = max(width, len([]rune(name)))
	}
	colours := []string{"36", "35", "33", "32", "34", "96", "95", "93", "92", "94"}
	for i, name := range names {
		pad := strings.Repeat(" ", width-len([]rune(name)))
		p.prefixes = append(p.prefixes, t.paint(colours[i%len(colours)], printable(name)+pad+" |")+" ")
	}
	return p
}

func (p *printer) print(l logLine) error {
	line := l.text
	switch {
	case p.json && p.harmless:
		line = document.Harmless(jsonOf(p.sources[l.from], line))
	case p.json:
		line = jsonOf(p.sources[l.from], line)
	case p.harmless:
		line = caret(line)
	}
	if p.prefixes != nil {
		if _, err := p.t.out.Write([]byte(p.prefixes[l.from])); err != nil {
			return err
		}
	}
	_, err := p.t.out.Write(whole(line))
	return err
}

// collect reads every log at once, each into a channel of its own that is
// closed at its end. A line without a time takes that of the one before.
func collect(ctx context.Context, t *terminal, client *control.Client, names []string, o logAsk) ([]chan logLine, chan error) {
	lines := make([]chan logLine, len(names))
	failed := make(chan error, len(names))
	for i, name := range names {
		lines[i] = make(chan logLine, 16)
		go func() {
			defer close(lines[i])
			var at time.Time
			err := filteredLog(ctx, t, client, name, o, func(line []byte) error {
				if stamp := stampOf(line); !stamp.IsZero() {
					at = stamp
				}
				select {
				case lines[i] <- logLine{i, at, slices.Clone(line)}:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			failed <- err
		}()
	}
	return lines, failed
}

// mergeLogs prints the logs as one, by time.
func mergeLogs(ctx context.Context, t *terminal, client *control.Client, names []string, o logAsk) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines, failed := collect(ctx, t, client, names, o)
	var next byTime
	for i := range lines {
		if l, ok := <-lines[i]; ok {
			next = append(next, l)
		}
	}
	heap.Init(&next)
	p := newPrinter(t, names, o)
	for len(next) > 0 {
		l := next[0]
		if err := p.print(l); err != nil {
			return err
		}
		if following, ok := <-lines[l.from]; ok {
			next[0] = following
			heap.Fix(&next, 0)
		} else {
			heap.Pop(&next)
		}
	}
	return complainOfAll(t, failed, len(names))
}

// complainOfAll says what went wrong with each log that could not be read.
func complainOfAll(t *terminal, failed chan error, logs int) error {
	worst := 0
	for range logs {
		worst = max(worst, t.report(<-failed))
	}
	return status(worst)
}

// settle is how long lines of several logs that are followed are held back, so
// that what was written at the same time comes out in its order.
const settle = 100 * time.Millisecond

// followLogs prints the logs as one as they grow.
func followLogs(ctx context.Context, t *terminal, client *control.Client, names []string, o logAsk) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	logs, failed := collect(ctx, t, client, names, o)
	all := make(chan logLine, 64)
	for _, lines := range logs {
		go func() {
			for l := range lines {
				select {
				case all <- l:
				case <-ctx.Done():
				}
			}
		}()
	}
	p := newPrinter(t, names, o)
	var held []logLine
	var release <-chan time.Time
	open, worst := len(names), 0
	for open > 0 || len(held) > 0 {
		select {
		case l := <-all:
			if held = append(held, l); release == nil {
				release = time.After(settle)
			}
		case <-release:
			slices.SortStableFunc(held, func(a, b logLine) int { return a.at.Compare(b.at) })
			for _, l := range held {
				if err := p.print(l); err != nil {
					return err
				}
			}
			held, release = held[:0], nil
		case err := <-failed:
			worst = max(worst, t.report(err))
			open--
		case <-ctx.Done():
			return nil
		}
	}
	return status(worst)
}

// byTime is a heap of the next line of each log, the oldest first.
type byTime []logLine

func (b byTime) Len() int { return len(b) }
func (b byTime) Less(i, j int) bool {
	if b[i].at.Equal(b[j].at) {
		return b[i].from < b[j].from
	}
	return b[i].at.Before(b[j].at)
}
func (b byTime) Swap(i, j int) { b[i], b[j] = b[j], b[i] }
func (b *byTime) Push(x any)   { *b = append(*b, x.(logLine)) }
func (b *byTime) Pop() any {
	last := len(*b) - 1
	l := (*b)[last]
	*b = (*b)[:last]
	return l
}
