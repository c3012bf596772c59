package metrics

import (
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Bounds of what scrapers may take.
const (
	scrapers   = 32 // connections
	scrapeTime = 10 * time.Second
)

// Serve answers GET /metrics on a listener with what snapshot returns, until the
// listener fails. It wakes for nothing but a scrape.
func Serve(listener net.Listener, snapshot func() (Snapshot, error)) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		s, err := snapshot()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		format := Accepted(r.Header.Get("Accept"))
		w.Header().Set("Content-Type", format)
		Write(w, format, s) // a scraper that goes away has nobody to be told
	})
	server := &http.Server{
		Handler: mux, ReadTimeout: scrapeTime, WriteTimeout: scrapeTime, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	return server.Serve(&limited{Listener: listener})
}

// limited closes at once what is above the bound.
type limited struct {
	net.Listener
	open atomic.Int32
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= scrapers {
			return &counted{Conn: conn, open: &l.open}, nil
		}
		l.open.Add(-1)
		conn.Close()
	}
}

// counted is a connection that says once when it is closed.
type counted struct {
	net.Conn
	open   *atomic.Int32
	closed atomic.Bool
}

func (c *counted) Close() error {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}
