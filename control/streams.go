package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

// ErrCut ends a stream whose other end went away in the midst of it, as when
// the supervisor is replaced. A stream that the server ended itself ends
// without an error.
var ErrCut = errors.New("the supervisor was replaced")

// lineLimit bounds one event on the stream, and logLineLimit what is held in
// memory of one line of a log: a service can make one that has no end.
const (
	lineLimit    = 9 << 20
	logLineLimit = 16 << 20
)

// Events hands each recorded event that q wants to each, oldest first; with
// Follow also those to come, until the context is done.
func (c *Client) Events(ctx context.Context, q EventQuery, each func(Event) error) error {
	query := url.Values{}
	if q.Follow {
		query.Set("follow", "true")
	}
	for key, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			query.Set(key, at.UTC().Format(time.RFC3339Nano))
		}
	}
	for key, all := range map[string][]string{"type": q.Types, "name": q.Names} {
		if len(all) > 0 {
			query[key] = all
		}
	}
	if q.After > 0 {
		query.Set("after", strconv.FormatUint(q.After, 10))
	}
	if q.Last != nil {
		query.Set("n", strconv.Itoa(*q.Last))
	}
	r := get("/v1/events", "the events")
	r.query = query
	return c.stream(ctx, r, func(body io.Reader) error {
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, lineLimit)
		lines.Split(wholeLines)
		for lines.Scan() {
			line := bytes.TrimSpace(lines.Bytes())
			if len(line) == 0 {
				continue
			}
			var e Event
			if err := json.Unmarshal(line, &e); err != nil {
				return Failed("cannot understand an event: %v", err)
			}
			e.Raw = line
			if err := each(e); err != nil {
				return err
			}
		}
		return c.ended(ctx, r, lines.Err())
	})
}

// wholeLines is bufio.ScanLines without the rest of a line that was cut.
func wholeLines(data []byte, _ bool) (advance int, line []byte, err error) {
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return end + 1, data[:end], nil
	}
	return 0, nil, nil
}

// LogOptions say how much of a log to read.
type LogOptions struct {
	Lines  int // the last so many; negative: all
	Since  time.Time
	Follow bool
	// Redacted has *** in the place of what services were given as secrets.
	Redacted bool
}

// Logs hands the log of a service to each, line by line and each with its
// newline if it has one; with Follow also what is written later, until the
// context is done. One of more than 16 MB comes in parts. The slice is valid
// until the next line.
func (c *Client) Logs(ctx context.Context, name string, o LogOptions, each func(line []byte) error) error {
	query := url.Values{}
	if o.Lines >= 0 {
		query.Set("n", strconv.Itoa(o.Lines))
	}
	if !o.Since.IsZero() {
		query.Set("since", o.Since.UTC().Format(time.RFC3339Nano))
	}
	if o.Follow {
		query.Set("follow", "true")
	}
	if o.Redacted {
		query.Set("redacted", "true")
	}
	r := get("/v1/logs/"+segment(name), "the log of "+name)
	r.query = query
	return c.stream(ctx, r, func(body io.Reader) error {
		in := bufio.NewReaderSize(body, 64<<10)
		var line []byte // of a line longer than the buffer, what came so far
		for {
			part, err := in.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) {
				if line = append(line, part...); len(line) < logLineLimit {
					continue
				}
				part, err = nil, nil
			}
			if len(line) > 0 {
				line = append(line, part...)
				part = line
				line = line[:0]
			}
			// A line without its newline is whole only where the log ends: a
			// cut may have come in its midst.
			if len(part) > 0 && (err == nil || err == io.EOF) {
				if err := each(part); err != nil {
					return err
				}
			}
			if err != nil {
				return c.ended(ctx, r, err)
			}
		}
	})
}

// ended says how a stream came to its end.
func (l *line) ended(ctx context.Context, r request, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil || err == io.EOF:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return ErrCut
	}
	return Failed("cannot read %s: %v", r.what, err)
}
