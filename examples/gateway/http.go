package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"rlminit/examples/gateway/process"
)

// maxBody bounds a request's body, in bytes.
const maxBody = 1 << 20

// reply is the answer to a chat.
type reply struct {
	Profile string  `json:"profile"`
	PID     int     `json:"pid"`
	Text    string  `json:"text"`
	Chats   int64   `json:"chats"` // since the process started
	UptimeS float64 `json:"uptime_s"`
}

func (g *gateway) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", g.health)
	mux.HandleFunc("GET /self", g.self)
	mux.HandleFunc("POST /chat", g.chat)
	mux.HandleFunc("POST /notify", g.passOn)
	mux.HandleFunc("POST /fault/{kind}", g.fault)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.hung.Load() {
			<-r.Context().Done() // until the client gives up
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		mux.ServeHTTP(w, r)
	})
}

func (g *gateway) health(w http.ResponseWriter, _ *http.Request) {
	if g.unhealthy.Load() {
		http.Error(w, "unhealthy, as told", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// chat echoes what it was told.
func (g *gateway) chat(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text := strings.TrimSpace(string(body))
	g.log.Printf("chat: %q", text)
	writeJSON(w, reply{g.profile, os.Getpid(), text, g.chats.Add(1), time.Since(g.started).Seconds()})
}

func (g *gateway) self(w http.ResponseWriter, _ *http.Request) {
	report, err := process.Self()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, report)
}

// passOn sends the body to the service manager as it is: sd_notify(3).
func (g *gateway) passOn(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = notify(strings.TrimSpace(string(body)))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	// The status has gone out: an error here is the client's hanging up.
	_ = json.NewEncoder(w).Encode(value)
}
