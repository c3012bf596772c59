package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"rlminit/control"
)

// tryGatewayVerb is the gateway of `try`, which needs no other binary.
func tryGatewayVerb() *cobra.Command {
	return &cobra.Command{
		Use:    "try-gateway",
		Short:  "the gateway of rlminit try",
		Hidden: true,
		Args:   exactly(),
		RunE:   func(*cobra.Command, []string) error { return tryGateway(os.Getenv("PROFILE"), os.Getenv("PORT")) },
	}
}

// tryGateway greets each caller on its port until it is told to stop, and logs
// on stdout.
func tryGateway(profile, port string) error {
	if profile == "" || port == "" {
		return control.BadRequest("cannot start try-gateway: PROFILE or PORT is not set; it is a part of rlminit try")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return control.Failed("%s: cannot listen: %v", profile, err)
	}
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Printf("%s %s\n", r.Method, r.URL.Path)
			fmt.Fprintf(w, "%s here, pid %d\n", profile, os.Getpid())
		}),
	}
	over := make(chan error, 1)
	go func() { over <- server.Serve(listener) }()
	fmt.Printf("%s listens on http://127.0.0.1:%s\n", profile, port)
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		fmt.Printf("cannot say that it is ready: %v\n", err)
	}
	select {
	case err := <-over:
		return control.Failed("%s: cannot serve: %v", profile, err)
	case <-ctx.Done():
	}
	daemon.SdNotify(false, daemon.SdNotifyStopping)
	fmt.Printf("%s stops\n", profile)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return control.Failed("%s: cannot stop serving: %v", profile, err)
	}
	return nil
}
