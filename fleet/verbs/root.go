package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/fleet/agent"
	"rlminit/fleet/store"
)

// Main runs a command line, and returns the exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return control.ExitDone
	}
	var code exitError
	if errors.As(err, &code) && code.error == nil {
		return code.code
	}
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		fmt.Fprintln(stderr, "rlminit fleet: "+line)
	}
	switch problem := (*control.Problem)(nil); {
	case errors.As(err, &code):
		return code.code
	case errors.As(err, &problem):
		return problem.ExitCode
	case errors.Is(err, context.DeadlineExceeded):
		return control.ExitTimedOut
	}
	return control.ExitFailed
}

// exitError is an error with an exit code of its own; a nil one says nothing more.
type exitError struct {
	code int
	error
}

func exit(code int, format string, args ...any) error {
	return exitError{code, fmt.Errorf(format, args...)}
}

// options are what every verb has.
type options struct {
	config string
	json   bool
}

func newRoot() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use: "fleet",

		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "rlminit fleet"},

		Short: "run each profile on one of many machines, by etcd",
		Long: `Runs each declared profile on one of many machines. An agent in each container claims
profiles in etcd, and PID 1 ends a gateway whose claim may be over. docs/fleet.md says
what is promised, and what is not.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringVar(&o.config, "config", defaultConfig(), "read the section fleet of `FILE`")
	root.PersistentFlags().BoolVar(&o.json, "json", false, "write JSON")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit(control.ExitUsage, "%v; see rlminit fleet %s --help", err, strings.TrimPrefix(cmd.CommandPath(), "rlminit fleet "))
	})
	root.AddCommand(agentVerb(o), checkVerb(o), statusVerb(o), membersVerb(o), planVerb(o), applyVerb(o), drainVerb(o), moveVerb(o), rebalanceVerb(o), whyVerb(o))
	for _, cmd := range root.Commands() {
		check := cmd.Args
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return exit(control.ExitUsage, "%v; see rlminit fleet %s --help", err, cmd.Name())
			}
			return nil
		}
	}
	return root
}

// open reads the configuration and connects to etcd.
func (o *options) open(ctx context.Context) (*store.Store, *settings, error) {
	s, err := readSettings(o.config)
	if err != nil {
		return nil, nil, exit(control.ExitUsage, "%w", err)
	}
	st, err := store.Open(ctx, s.Store)
	if err != nil {
		return nil, nil, exit(control.ExitNoAnswer, "%w", err)
	}
	return st, s, nil
}

// view reads the fleet.
func (o *options) view(ctx context.Context) (*store.Store, *agent.View, error) {
	st, _, err := o.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	v, err := read(ctx, st)
	if err != nil {
		st.Close()
		return nil, nil, exit(control.ExitNoAnswer, "%w", err)
	}
	return st, v, nil
}

func read(ctx context.Context, st *store.Store) (*agent.View, error) {
	all, _, err := st.Whole(ctx)
	if err != nil {
		return nil, err
	}
	v := agent.NewView()
	v.Take(all)
	return v, nil
}

// until follows the fleet until done says so, for at most limit. It is asked again from time
// to time too, for what only time brings.
func until(ctx context.Context, st *store.Store, limit time.Duration, done func(*agent.View) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type news struct {
		changes []agent.Change
		whole   bool
	}
	heard := make(chan news)
	go st.Watch(ctx, func(changes []agent.Change, whole bool, _ int64) {
		select {
		case heard <- news{changes, whole}:
		case <-ctx.Done():
		}
	}, func(error) {}) // it goes on by itself; what lasts for limit is said then
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for v := (*agent.View)(nil); ; {
		select {
		case <-ctx.Done():
			return exit(control.ExitTimedOut, "not done after %s; it goes on", limit)
		case n := <-heard:
			if n.whole {
				v = agent.NewView()
			}
			v.Take(n.changes)
		case <-tick.C:
		}
		if v == nil {
			continue
		}
		if ok, err := done(v); ok || err != nil {
			return err
		}
	}
}

func (o *options) write(w io.Writer, value any, table func(*tabwriter.Writer)) error {
	if o.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(value)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	table(t)
	return t.Flush()
}

// hostname is the member that is meant where none is named.
func hostname(s *settings) string {
	if s.Member != "" {
		return s.Member
	}
	name, _ := os.Hostname()
	return name
}
