package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// fault makes the gateway misbehave in the way that the path names. Faults
// that end the process do so after their answer has gone out.
func (g *gateway) fault(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	g.log.Printf("fault: %s %s", kind, r.URL.RawQuery)
	switch kind {
	case "crash":
		g.crash(w, r)
		return
	case "hang":
		g.hung.Store(true)
	case "unhealthy":
		g.unhealthy.Store(true)
	case "ignore-term":
		g.ignoreTerm.Store(true)
	case "leak":
		pid, err := leak()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, pid)
		return
	case "log":
		if err := g.chatter(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	default:
		http.Error(w, "no such fault; see gateway --help", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// crash ends the process by a code, a panic or a signal.
func (g *gateway) crash(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	code, err := strconv.Atoi(query.Get("code"))
	if query.Get("code") == "" {
		code, err = 1, nil
	}
	signal := query.Get("signal")
	number := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(signal), "SIG"))
	if err != nil || signal != "" && number == 0 {
		http.Error(w, "code must be a number, signal a signal's name", http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	if err := http.NewResponseController(w).Flush(); err != nil {
		g.log.Print(err)
	}
	switch {
	case query.Has("panic"):
		// In a goroutine of its own, for net/http recovers a handler's panic.
		go panic("crash, as told")
		select {}
	case signal != "":
		if err := unix.Kill(os.Getpid(), number); err != nil {
			g.log.Print(err)
		}
	default:
		os.Exit(code)
	}
}

// chatter logs ?lines=N numbered lines of ?bytes=N each, as fast as it can.
func (g *gateway) chatter(r *http.Request) error {
	query := r.URL.Query()
	lines, err := strconv.Atoi(query.Get("lines"))
	if err != nil || lines < 1 || lines > 10_000_000 {
		return fmt.Errorf("lines must be 1 to 10000000")
	}
	size := 0
	if query.Has("bytes") {
		if size, err = strconv.Atoi(query.Get("bytes")); err != nil || size < 0 || size > 1<<20 {
			return fmt.Errorf("bytes must be 0 to 1048576")
		}
	}
	for i := range lines {
		line := fmt.Sprintf("line %d of %d ", i+1, lines)
		if pad := size - len(line); pad > 0 {
			line += strings.Repeat("x", pad)
		}
		g.log.Print(line)
	}
	return nil
}
