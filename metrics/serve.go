package metrics

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Bounds of what scrapers may take.
const (
	scrapers   = 32 // connections
	scrapeTime = 10 * time.Second
)

// Serve answers GET /metrics on a listener with what snapshot returns, until the
// listener fails. It wakes for nothing but a scrape, and calls snapshot for one at a
// time: however many ask, they take no more than a processor.
func Serve(listener net.Listener, snapshot func() (Snapshot, error)) error {
	mux := http.NewServeMux()
	var turn sync.Mutex
	take := func(ctx context.Context) (Snapshot, error) {
		turn.Lock()
		defer turn.Unlock()
		if ctx.Err() != nil { // its connection was closed meanwhile
			return Snapshot{}, ctx.Err()
		}
		return snapshot()
	}
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		s, err := take(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		format := Accepted(r.Header.Get("Accept"))
		w.Header().Set("Content-Type", format)
		Write(w, format, s) // a scraper that goes away has nobody to be told
	})
	return Answer(listener, mux)
}

// Answer has a handler answer scrapes and their like, within the bounds.
func Answer(listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadTimeout: scrapeTime, WriteTimeout: scrapeTime, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	return server.Serve(&limited{Listener: listener})
}

// limited closes the oldest connection when there is one above the bound: who scrapes
// is done at once, and who holds connections open keeps nobody out.
type limited struct {
	net.Listener
	mu   sync.Mutex
	open []*counted // the oldest first
}

func (l *limited) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &counted{Conn: conn, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open = append(l.open, c); len(l.open) > scrapers {
		l.open[0].Conn.Close()
		l.open = slices.Delete(l.open, 0, 1)
	}
	return c, nil
}

// counted is a connection that is no longer counted when it is closed.
type counted struct {
	net.Conn
	of *limited
}

func (c *counted) Close() error {
	c.of.mu.Lock()
	c.of.open = slices.DeleteFunc(c.of.open, func(other *counted) bool { return other == c })
	c.of.mu.Unlock()
	return c.Conn.Close()
}
