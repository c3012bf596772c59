package watch

import (
	"bytes"
	"context"
	"errors"
	"time"

	"rlminit/control"
)

const (
	linesFirst = 500                    // of a log that is opened
	linesBatch = 2000                   // that are handed on at once
	batchEvery = 150 * time.Millisecond // and no more often: of a log that is faster the rest waits at the supervisor
)

// LogNews are lines of a log, as they were written, without their newlines.
type LogNews struct {
	Lines [][]byte
	Err   error // it cannot be read, and is asked for again unless it is not permitted
}

// Log hands on the end of a service's log, and then what is written, until ctx is done or
// the log may not be read; then it closes the channel.
func (s *Source) Log(ctx context.Context, name string) <-chan LogNews {
	out := make(chan LogNews)
	go func() {
		defer close(out)
		r := reader{options: control.LogOptions{Lines: linesFirst, Follow: true}}
		for {
			err := r.read(ctx, s.client, name, out)
			if ctx.Err() != nil {
				return
			}
			if err != nil && !errors.Is(err, control.ErrCut) && !hand(ctx, out, LogNews{Err: err}) {
				return
			}
			if NotPermitted(err) || !sleep(ctx, pause) {
				return
			}
			r.resume()
		}
	}()
	return out
}

// reader reads a log over the replacement of the supervisor, no line of it twice.
type reader struct {
	options control.LogOptions
	last    []byte
	skips   bool // lines up to the last one come once more
}

// resume has what is read next go on behind the last line.
func (r *reader) resume() {
	if at := stamp(r.last); !at.IsZero() {
		r.options.Lines, r.options.Since, r.skips = -1, at, true
	} else if r.last != nil {
		r.options.Lines = 0 // without times what is new cannot be told from what was seen
	}
}

// read hands on lines until the stream ends. They are collected for a moment, so that a
// log that is written fast is drawn a few times a second.
func (r *reader) read(ctx context.Context, client *control.Client, name string, out chan<- LogNews) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines, over := make(chan []byte), make(chan error, 1)
	go func() {
		over <- client.Logs(ctx, name, r.options, func(line []byte) error {
			if !hand(ctx, lines, bytes.Clone(bytes.TrimRight(line, "\r\n"))) {
				return ctx.Err()
			}
			return nil
		})
	}()
	var batch [][]byte
	var flush <-chan time.Time // nil: there is nothing to hand on
	for {
		in := lines
		if len(batch) >= linesBatch {
			in = nil
		}
		select {
		case line := <-in:
			if !r.isNew(line) {
				continue
			}
			if batch = append(batch, line); len(batch) == 1 {
				flush = time.After(batchEvery)
			}
		case <-flush:
			if !hand(ctx, out, LogNews{Lines: batch}) {
				return ctx.Err()
			}
			batch, flush = nil, nil
		case err := <-over:
			if len(batch) > 0 && !hand(ctx, out, LogNews{Lines: batch}) {
				return ctx.Err()
			}
			return err
		}
	}
}

// isNew tells whether a line was not seen before.
func (r *reader) isNew(line []byte) bool {
	if r.skips {
		if bytes.Equal(line, r.last) {
			r.skips = false
			return false
		}
		if !stamp(line).After(r.options.Since) {
			return false
		}
		r.skips = false
	}
	r.last = line
	return true
}

// stamp is the time at the beginning of a line; the zero time: there is none.
func stamp(line []byte) time.Time {
	head, _, _ := bytes.Cut(line[:min(len(line), 40)], []byte{' '})
	at, err := time.Parse(time.RFC3339Nano, string(head))
	if err != nil {
		return time.Time{}
	}
	return at
}
