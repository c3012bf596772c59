package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// drainTimeout is how long requests under way may take after SIGTERM.
const drainTimeout = 3 * time.Second

// gateway is one running service. The flags are set by faults and read by the
// handlers, the watchdog and the signal loop.
type gateway struct {
	profile string
	log     *log.Logger
	started time.Time
	stop    chan os.Signal
	chats   atomic.Int64

	hung       atomic.Bool // answers nothing and pings nobody
	unhealthy  atomic.Bool // /healthz answers 503
	ignoreTerm atomic.Bool
}

// serve listens, reports READY=1 and serves until SIGTERM or SIGINT, or until
// ctx ends.
func (g *gateway) serve(ctx context.Context, host string, port int) error {
	listener, err := listen(host, port)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: g.handler(), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10, ErrorLog: g.log,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()

	g.log.Printf("gateway %s pid %d listens on %s", g.profile, os.Getpid(), listener.Addr())
	if err := notify(daemon.SdNotifyReady, "STATUS=listening on "+listener.Addr().String()); err != nil {
		return err
	}
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("cannot read the watchdog's interval: %w", err)
	}
	var ping <-chan time.Time
	if watchdog > 0 {
		// sd_watchdog_enabled(3) recommends half the interval.
		ticker := time.NewTicker(watchdog / 2)
		defer ticker.Stop()
		ping = ticker.C
	}
	for {
		select {
		case err := <-failed:
			return fmt.Errorf("cannot serve: %w", err)
		case <-ping:
			if g.hung.Load() {
				continue
			}
			if err := notify(daemon.SdNotifyWatchdog); err != nil {
				g.log.Print(err)
			}
		case s := <-g.stop:
			if g.ignoreTerm.Load() {
				g.log.Printf("%s ignored, as told", s)
				continue
			}
			g.log.Printf("%s: draining", s)
			return g.drain(server)
		case <-ctx.Done():
			return g.drain(server)
		}
	}
}

// drain reports STOPPING=1 and lets requests end.
func (g *gateway) drain(server *http.Server) error {
	if err := notify(daemon.SdNotifyStopping); err != nil {
		g.log.Print(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		g.log.Printf("requests under way were cut off after %s", drainTimeout)
		err = server.Close()
	}
	g.log.Print("stopped")
	return err
}

// listen takes the first listener of sd_listen_fds(3), or opens its own.
func listen(host string, port int) (net.Listener, error) {
	passed, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("cannot take the passed sockets: %w", err)
	}
	for _, l := range passed {
		if l != nil {
			return l, nil
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	return l, nil
}

// notify sends one message to the service manager, if there is one:
// sd_notify(3).
func notify(lines ...string) error {
	state := ""
	for _, l := range lines {
		state += l + "\n"
	}
	if _, err := daemon.SdNotify(false, state); err != nil {
		return fmt.Errorf("cannot notify the service manager: %w", err)
	}
	return nil
}
