// Command rlminit-page serves a web page of the rlminit of this container: its services,
// operations, plans, jobs, events and logs. It is run as `rlminit page`, and as the service
// `page` that the configuration makes of its section page.
//
// It links what PID 1 and the supervisor need not, and asks the supervisor over the control
// socket like any other client. This package reads the settings and listens; who may come
// in is beside/page/gate, what is shown beside/page/view.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"rlminit/control"
)

// memoryLimit is what the garbage collector keeps below, in bytes: the service has a limit
// of 128 MB.
const memoryLimit = 96 << 20

func main() {
	debug.SetMemoryLimit(memoryLimit)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	cmd := newCommand()
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "rlminit-page: "+err.Error())
		code := control.ExitFailed
		if misuse := (*usageError)(nil); errors.As(err, &misuse) {
			code = control.ExitUsage
		}
		stop()
		os.Exit(code)
	}
}

// usageError is one of whoever calls it.
type usageError struct{ error }

func misused(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func newCommand() *cobra.Command {
	set := fromEnvironment(os.Getenv)
	cmd := &cobra.Command{
		Use:   "rlminit-page",
		Short: "serve a web page of services, operations and plans",
		Long: `Serves a web page of the rlminit of this container: services, those that are ill
first, with logs, memory and CPU; operations, plans, jobs, events and the boot. It
changes by itself while it is open.

As a rule the supervisor runs it, as the configuration's section page says; see
docs/page.md. By hand, it asks the supervisor with the rights of whoever calls it.
The variables that are named with the flags are what the supervisor sets.

The file of tokens has one on each line: TOKEN, or NAME TOKEN, or NAME TOKEN
EXPIRES, a time as 2026-12-31T00:00:00Z. NAME is recorded with what its owner
approves. A token has 20 characters or more: openssl rand -hex 16 makes one.`,
		Example: `  rlminit page --listen 127.0.0.1:9118 --tokens /etc/rlminit/page.token
  rlminit page --listen unix:/run/page.sock --allow operate`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), set) },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misused("%v; see rlminit page --help", err) })
	f := cmd.Flags()
	f.StringVar(&set.Listen, "listen", set.Listen, "where: `ADDRESS`:PORT, or unix:PATH (RLMINIT_PAGE_LISTEN)")
	f.StringVar(&set.Tokens, "tokens", set.Tokens, "the `FILE` of tokens; needed but for unix:PATH (RLMINIT_PAGE_TOKENS)")
	f.StringVar(&set.Cert, "cert", set.Cert, "`FILE` of the certificate, and of those that lead to its root, as PEM (RLMINIT_PAGE_CERT)")
	f.StringVar(&set.Key, "key", set.Key, "`FILE` of its key, as PEM (RLMINIT_PAGE_KEY)")
	f.StringVar(&set.Allow, "allow", set.Allow, "what may be done: read, operate or approve, as `LEVEL` (RLMINIT_PAGE_ALLOW)")
	f.StringVar(&set.Behind, "behind", set.Behind, "`proxy`: one speaks TLS with browsers in its place (RLMINIT_PAGE_BEHIND)")
	f.StringSliceVar(&set.Hosts, "hosts", set.Hosts, "more `NAMES` that browsers call it by, separated by commas (RLMINIT_PAGE_HOSTS)")
	f.StringVar(&set.Fleet, "fleet", set.Fleet, "where the agent of the fleet answers: `ADDRESS`:PORT, or unix:PATH (RLMINIT_PAGE_FLEET)")
	return cmd
}
