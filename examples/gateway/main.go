// Command gateway is the service that rlminit's demo and tests supervise: a
// small HTTP chat service, one for each profile, which reports readiness and
// life by sd_notify(3), can take its listener by socket activation, and can be
// told to misbehave.
//
// It knows nothing of rlminit: a systemd unit could run it unchanged.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = `gateway: an example service for rlminit

    gateway [--profile NAME] [--host ADDR] [--port N]   serve HTTP until SIGTERM
    gateway call [--timeout D] [-d BODY] URL            one request: GET, or POST with -d
    gateway detach -- CMD [ARG…]                        run CMD double-forked in its own session, print its pid
    gateway sleep [DURATION]                            do nothing, for ever or that long

Paths: GET /healthz /self, POST /chat, POST /fault/crash?code=N|panic=1|signal=NAME,
/fault/hang, /fault/unhealthy, /fault/leak, /fault/ignore-term, /fault/log?lines=N&bytes=N, /notify
`

func main() {
	err := run(os.Args[1:], os.Stdout)
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
	default:
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// run dispatches on the first argument.
func run(args []string, out io.Writer) error {
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	switch verb {
	case "call":
		return call(args[1:], out)
	case "detach":
		return detach(args[1:])
	case "sleep":
		return sleep(args[1:])
	}
	fl := flag.NewFlagSet("gateway", flag.ContinueOnError)
	fl.SetOutput(io.Discard)
	profile := fl.String("profile", os.Getenv("PROFILE"), "whose gateway this is")
	host := fl.String("host", "127.0.0.1", "address to listen on")
	port := fl.Int("port", 0, "port to listen on; 0: a free one")
	if err := fl.Parse(args); err != nil {
		return err
	}
	if fl.NArg() > 0 {
		return fmt.Errorf("unknown command %q; see gateway --help", fl.Arg(0))
	}
	// Buffered, so that a signal at the very start is not lost.
	stop := make(chan os.Signal, 4)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	g := &gateway{profile: *profile, log: log.New(out, "", 0), started: time.Now(), stop: stop}
	return g.serve(context.Background(), *host, *port)
}

// sleep waits for a duration, or for ever where none is given.
func sleep(args []string) error {
	duration := time.Duration(math.MaxInt64)
	if len(args) > 0 {
		var err error
		if duration, err = time.ParseDuration(args[0]); err != nil {
			return fmt.Errorf("cannot sleep: %w", err)
		}
	}
	time.Sleep(duration)
	return nil
}
