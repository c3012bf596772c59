package control

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEvents(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("follow") != "true" {
			t.Errorf("query = %q", r.URL.RawQuery)
		}
		io.WriteString(w, `{"seq":1,"service":"web","to":"starting"}`+"\n\n"+`{"seq":2,"service":"web","to":"running"}`+"\n")
	})
	var states []string
	err := c.Events(t.Context(), EventQuery{Follow: true}, func(e Event) error {
		states = append(states, e.To)
		return nil
	})
	if err != nil || !slices.Equal(states, []string{"starting", "running"}) {
		t.Errorf("states = %q, err = %v", states, err)
	}
}

// A stream that is cut says so, and what came of its last line is not taken
// for a line.
func TestCutStream(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "one\ntw")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	var got strings.Builder
	err := c.Logs(t.Context(), "web", LogOptions{Lines: -1, Follow: true}, func(line []byte) error {
		got.Write(line)
		return nil
	})
	if !errors.Is(err, ErrCut) || got.String() != "one\n" {
		t.Errorf("read %q, err = %v; want the whole line, and ErrCut", got.String(), err)
	}
}

func TestLogsExact(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	want := []string{"short\n", "\n", long + "\n", "a\x00\xff\n", "no newline"}
	query := ""
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		io.WriteString(w, strings.Join(want, ""))
	})
	var got []string
	since := time.Date(2026, 5, 24, 18, 5, 33, 123456000, time.UTC)
	err := c.Logs(t.Context(), "web", LogOptions{Lines: 7, Since: since}, func(line []byte) error {
		got = append(got, string(line))
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("err = %v, %d lines: %.60q", err, len(got), got)
	}
	if query != "n=7&since=2026-05-24T18%3A05%3A33.123456Z" {
		t.Errorf("query = %q", query)
	}
}

// A line without end, which a service can make, takes no memory without end.
func TestEndlessLogLine(t *testing.T) {
	block := strings.Repeat("x", 1<<20)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for range 40 {
			io.WriteString(w, block)
		}
	})
	most, sum := 0, 0
	err := c.Logs(t.Context(), "web", LogOptions{Lines: -1}, func(line []byte) error {
		most, sum = max(most, len(line)), sum+len(line)
		return nil
	})
	if err != nil || most > 17<<20 || sum != 40<<20 {
		t.Errorf("err = %v, %d bytes, %d of them at once", err, sum, most)
	}
}

func TestStreamEndsWithItsContext(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "one\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Logs(ctx, "web", LogOptions{Follow: true}, func([]byte) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}
