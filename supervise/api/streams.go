package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"rlminit/control"
	"rlminit/logs"
)

// Events are what happened, as the journal has it.
type Events interface {
	// ReadEvents hands those that q wants to each as JSON, until ctx ends where they
	// are followed. It calls caughtUp whenever all that there is was handed over.
	ReadEvents(ctx context.Context, q control.EventQuery, each func(line []byte) error, caughtUp func()) error
}

// Logs are the logs of services.
type Logs interface {
	// ReadLog writes the log of a service, or those of "all" merged, as query says.
	ReadLog(ctx context.Context, w io.Writer, name string, query logs.Query) error
	// Redacted returns a writer to w that takes the secrets of a service, or of "all", out
	// of whole lines; strict: and whatever looks like one.
	Redacted(w io.Writer, name string, strict bool) (io.Writer, error)
}

// sendEvents sends the events that are asked for.
func sendEvents(w http.ResponseWriter, r *http.Request, events Events) error {
	q, err := eventQuery(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w)
	begun, cut := false, false
	err = events.ReadEvents(r.Context(), q, func(line []byte) error {
		begun = true
		flush.SetWriteDeadline(time.Now().Add(bodyTime))
		_, err := w.Write(append(line[:len(line):len(line)], '\n'))
		cut = err != nil
		return err
	}, func() {
		begun = true
		flush.SetWriteDeadline(time.Now().Add(bodyTime))
		_ = flush.Flush() // a reader that is gone ends the context
	})
	switch {
	case err == nil || cut:
		return nil
	case !begun:
		return control.Failed("cannot read the events: %v", err)
	}
	slog.Warn("cannot go on sending events", "err", err)
	return nil
}

func eventQuery(r *http.Request) (q control.EventQuery, err error) {
	values := r.URL.Query()
	for key, at := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if text := values.Get(key); text != "" {
			if *at, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return q, control.BadRequest("cannot read the events %s %q; write a time such as 2026-05-24T18:05:33Z", key, text)
			}
		}
	}
	if n := values.Get("n"); n != "" {
		last, err := number(n, "events")
		if err != nil {
			return q, err
		}
		q.Last = &last
	}
	if after := values.Get("after"); after != "" {
		if q.After, err = strconv.ParseUint(after, 10, 64); err != nil {
			return q, control.BadRequest("cannot read the events after %q; write the seq of one", after)
		}
	}
	q.Types, q.Names = values["type"], values["name"]
	if err := control.CheckTypes(q.Types); err != nil {
		return q, err
	}
	q.Follow, err = askedFor(r, "follow")
	return q, err
}

// number is how many of something are asked for.
func number(text, of string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, control.BadRequest("cannot read %q %s; write a number", text, of)
	}
	return n, nil
}

// sendLogs sends the log of a service, or of all merged.
func sendLogs(w http.ResponseWriter, r *http.Request, from Logs) error {
	query, err := logQuery(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out := &flushing{w: w, control: http.NewResponseController(w)}
	to := io.Writer(out)
	redacted, err := askedFor(r, "redacted")
	if err == nil && (redacted || Limited(r)) {
		to, err = from.Redacted(out, r.PathValue("name"), Limited(r))
	}
	if err != nil {
		return err
	}
	if err := from.ReadLog(r.Context(), to, r.PathValue("name"), query); err != nil {
		if !out.begun {
			return err
		}
		slog.Warn("cannot go on sending a log", "err", err)
	}
	return nil
}

func logQuery(r *http.Request) (logs.Query, error) {
	query := logs.Query{N: -1}
	values := r.URL.Query()
	if n := values.Get("n"); n != "" {
		lines, err := number(n, "lines")
		if err != nil {
			return query, err
		}
		query.N = lines
	}
	if since := values.Get("since"); since != "" {
		at, err := time.Parse(time.RFC3339Nano, since)
		if err != nil {
			return query, control.BadRequest("cannot read the log since %q; write a time such as 2026-05-24T18:05:33Z", since)
		}
		query.Since = at
	}
	var err error
	query.Follow, err = askedFor(r, "follow")
	return query, err
}

// flushing sends what is written at once, and gives up on a reader that does
// not take it.
type flushing struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (f *flushing) Write(p []byte) (int, error) {
	f.begun = true
	f.control.SetWriteDeadline(time.Now().Add(bodyTime))
	n, err := f.w.Write(p)
	if err == nil {
		err = f.control.Flush()
	}
	return n, err
}
