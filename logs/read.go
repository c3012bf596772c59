package logs

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// Source is a log to be read: of an open slot, or of a service that has none
// any more.
type Source struct {
	Name string // as in Open
	Dir  string // as in Config; empty: none, or that of the open slot of this name
}

// Dir is where the log of a service lies on the volume, or of a profile's.
func Dir(service, profile string) string {
	if profile != "" {
		return "logs/gateways/" + profile
	}
	return "logs/services/" + service
}

// Query says what is to be read.
type Query struct {
	Sources []Source
	All     bool      // every open slot as well, and in following those opened later
	N       int       // the newest lines of each at most; negative: all
	Since   time.Time // lines not older than this; zero: any. Needs timestamps
	Follow  bool      // go on with what is written from here on, until the context ends
	Prefix  bool      // NAME | before each line
}

// Read writes the lines that a query asks for to w, those of several sources
// merged by their times. It waits for disk and w, not so the collector. Where
// w has a method Flush, it is called whenever there is nothing more to write
// for now. A context that ends is no error.
func (c *Collector) Read(ctx context.Context, w io.Writer, q Query) error {
	if err := c.read(ctx, w, q); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func (c *Collector) read(ctx context.Context, w io.Writer, q Query) error {
	home, err := c.roll.dupHome(&c.home)
	if err != nil {
		return err
	}
	defer unix.Close(home)
	r := &reader{c: c, home: home, w: w, q: q, bell: newBell(), byName: map[string]*cursor{}}
	if q.Follow {
		stop, err := c.watch(r.bell)
		if err != nil {
			return err
		}
		defer stop()
	}
	defer r.close()
	for _, source := range q.Sources {
		if err := r.add(ctx, source, q.N); err != nil {
			return err
		}
	}
	if q.All {
		for _, source := range c.roll.sources() {
			if err := r.add(ctx, source, q.N); err != nil {
				return err
			}
		}
	}
	if err := r.merge(ctx, r.cursors); err != nil || !q.Follow {
		return err
	}
	return r.follow(ctx)
}

// dupHome returns the volume's root for a reader, who may outlast the collector.
func (r *roll) dupHome(home *int) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if *home < 0 {
		return -1, errors.New("cannot read the log: the collector has ended")
	}
	fd, err := unix.FcntlInt(uintptr(*home), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1, fmt.Errorf("cannot read the log: %w", err)
	}
	return fd, nil
}

// reader is a Read under way.
type reader struct {
	c       *Collector
	home    int
	w       io.Writer
	q       Query
	bell    *bell
	cursors []*cursor
	byName  map[string]*cursor
	line    []byte
}

func (r *reader) close() {
	for _, k := range r.cursors {
		k.close()
	}
}

// add opens a source, n lines before its end.
func (r *reader) add(ctx context.Context, source Source, n int) error {
	if r.byName[source.Name] != nil {
		return nil
	}
	s := r.c.roll.slot(source.Name)
	if s != nil {
		s.awaitMarks(ctx)
		source.Dir = cmp.Or(source.Dir, s.where())
	}
	k := &cursor{ctx: ctx, home: r.home, source: source, order: len(r.cursors), fd: -1, slot: s, follow: r.q.Follow}
	if err := k.seek(n, r.q.Since); err != nil {
		return fmt.Errorf("cannot read the log of %s: %w", source.Name, err)
	}
	r.byName[source.Name] = k
	r.cursors = append(r.cursors, k)
	return nil
}

// merge writes what the cursors have, oldest line first.
func (r *reader) merge(ctx context.Context, cursors []*cursor) error {
	var ready byTime
	for _, k := range cursors {
		if err := r.advance(k, &ready); err != nil {
			return err
		}
	}
	for n := 0; len(ready) > 0; n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return nil
		}
		k := heap.Pop(&ready).(*cursor)
		if err := r.write(k); err != nil {
			return err
		}
		if err := r.advance(k, &ready); err != nil {
			return err
		}
	}
	return r.flush()
}

// advance takes a cursor's next line, if it has one, into those to be written.
func (r *reader) advance(k *cursor, ready *byTime) error {
	more, err := k.next()
	if err != nil {
		return fmt.Errorf("cannot read the log of %s: %w", k.source.Name, err)
	}
	if more {
		heap.Push(ready, k)
	}
	return nil
}

func (r *reader) write(k *cursor) error {
	r.line = r.line[:0]
	if r.q.Prefix {
		r.line = append(append(r.line, k.source.Name...), " | "...)
	}
	r.line = append(r.line, k.line...)
	if (r.q.Prefix || len(r.cursors) > 1) && !bytes.HasSuffix(r.line, []byte{'\n'}) {
		r.line = append(r.line, '\n')
	}
	_, err := r.w.Write(r.line)
	return err
}

func (r *reader) flush() error {
	switch w := r.w.(type) {
	case interface{ FlushError() error }:
		return w.FlushError()
	case interface{ Flush() error }:
		return w.Flush()
	case interface{ Flush() }:
		w.Flush()
	}
	return nil
}

// follow writes what comes, until the context ends or the collector does.
func (r *reader) follow(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.c.inbox.done:
			return r.merge(ctx, r.cursors)
		case <-r.bell.rung:
		}
		var these []*cursor
		for _, name := range r.bell.names() {
			k := r.byName[name]
			if k == nil && r.q.All {
				if err := r.add(ctx, Source{Name: name}, -1); err != nil {
					return err
				}
				k = r.byName[name]
			}
			if k != nil {
				these = append(these, k)
			}
		}
		if err := r.merge(ctx, these); err != nil {
			return err
		}
	}
}

// byTime is a heap of cursors, the one with the oldest line first.
type byTime []*cursor

func (h byTime) Len() int { return len(h) }
func (h byTime) Less(i, j int) bool {
	if n := bytes.Compare(h[i].when, h[j].when); n != 0 {
		return n < 0
	}
	return h[i].order < h[j].order
}
func (h byTime) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *byTime) Push(k any)   { *h = append(*h, k.(*cursor)) }
func (h *byTime) Pop() any {
	old := *h
	k := old[len(old)-1]
	*h = old[:len(old)-1]
	return k
}

// Tail returns the last n lines of the slot's log, as they stand there. It
// waits for the disk, but for no longer than timeout.
func (s *Slot) Tail(n int, timeout time.Duration) ([]string, error) {
	type outcome struct {
		text []byte
		err  error
	}
	done := make(chan outcome, 1)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	go func() {
		defer cancel()
		var b bytes.Buffer
		err := s.c.Read(ctx, &b, Query{Sources: []Source{{Name: s.name}}, N: n})
		done <- outcome{b.Bytes(), err}
	}()
	select {
	case o := <-done:
		var lines []string
		for line := range bytes.Lines(o.text) {
			lines = append(lines, string(bytes.TrimSuffix(line, []byte{'\n'})))
		}
		return lines, o.err
	case <-time.After(timeout):
		return nil, errors.New("cannot read the log: the disk does not answer")
	}
}

// absent says that an error means that there is no such file or directory, or
// something in its place that is none: a link, a socket.
func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) ||
		errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO)
}
