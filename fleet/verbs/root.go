package verbs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/fleet/agent"
	"rlminit/fleet/status"
	"rlminit/fleet/store"
	"rlminit/internal/document"
)

// Main runs a command line, and returns the exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stderr)
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
		screen{stderr}.println("rlminit fleet: " + line)
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
	errors screen

	without bool      // --without-data
	is      *settings // what open has read
}

func newRoot(stderr io.Writer) *cobra.Command {
	o := &options{errors: screen{stderr}}
	root := &cobra.Command{
		Use: "fleet",

		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "rlminit fleet"},

		Short: "run each profile on one of many machines, by etcd",
		Long: `Runs each declared profile on one of many machines. An agent in each container claims
profiles in etcd, and PID 1 ends a gateway whose claim may be over. docs/fleet.md says
what is promised, and what is not.

Exit codes: 0 done; 1 failed; 2 wrong use, or a fault in a file; 4 no such name; 6 no answer
of etcd, or no quorum; 7 not in time; 8 a profile cannot be started, or nobody takes it; 9
applied; 11 not approved; 12 rolled back in part; 14 a plan has changes; 17 its state forbids
it, or somebody else has changed a declaration. After an apply with 7, 8 or 17 all is as before.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringVar(&o.config, "config", defaultConfig(), "read the section fleet of `FILE`")
	root.PersistentFlags().BoolVar(&o.json, "json", false, "write JSON")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		what, _, _ := strings.Cut(err.Error(), ": strconv.")
		return exit(control.ExitUsage, "%s; see rlminit fleet %s --help", what, strings.TrimPrefix(cmd.CommandPath(), "rlminit fleet "))
	})
	root.AddCommand(agentVerb(o), checkVerb(o), statusVerb(o), membersVerb(o), planVerb(o), applyVerb(o), drainVerb(o), moveVerb(o), rebalanceVerb(o), whyVerb(o))
	for _, cmd := range root.Commands() {
		check := cmd.Args
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return exit(control.ExitUsage, "%d arguments do not fit; write %s, or see rlminit fleet %s --help", len(args), cmd.UseLine(), cmd.Name())
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
	o.is = s
	s.Store.Ignored = func(text string) { o.errors.println("rlminit fleet: " + text) }
	st, err := store.Open(ctx, s.Store)
	if err != nil {
		return nil, nil, exit(control.ExitNoAnswer, "%w", err)
	}
	for _, at := range st.Silent() {
		o.errors.printf("rlminit fleet: etcd at %s does not answer; others do\n", at)
	}
	return st, s, nil
}

// patience is how long a verb without --timeout waits for etcd: each request has its own.
var patience = time.Minute

// asking is a verb that reads the fleet first, within its --timeout.
func (o *options) asking(within *time.Duration, run func(*cobra.Command, []string, *store.Store, *agent.View) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		for _, flag := range []string{"limit", "rolling"} {
			if n, err := cmd.Flags().GetInt(flag); err == nil && n < 1 {
				return exit(control.ExitUsage, "--%s is %d; write 1 or more", flag, n)
			}
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *within)
		defer cancel()
		st, _, err := o.open(ctx)
		if err != nil {
			return err
		}
		defer st.Close()
		all, _, err := st.Whole(ctx)
		if err != nil {
			return exit(control.ExitNoAnswer, "%w", err)
		}
		v := agent.NewView()
		v.Take(all)
		if v.Full() {
			o.errors.printf("rlminit fleet: %s; without space what runs goes on, and nothing is started elsewhere: %s\n", agent.NoRoom, agent.Remedy)
		}
		return run(cmd, args, st, v)
	}
}

// said writes a value as JSON, or a line.
func (o *options) said(cmd *cobra.Command, value any, line string) error {
	return o.write(cmd.OutOrStdout(), value, func(t *screen) { t.println(line) })
}

// until follows the fleet until pending has nothing, for at most limit: what is not done
// yet, and why. It is asked again from time to time too, for what only time brings. last is
// what is said after that of what is late.
func until(ctx context.Context, st *store.Store, limit time.Duration, last string, pending func(*agent.View) ([]string, error)) error {
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
	}, func(error) {}) // it goes on by itself
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	waits := []string{"etcd does not answer"}
	for v := (*agent.View)(nil); ; {
		select {
		case <-ctx.Done():
			return exit(control.ExitTimedOut, "not done after %s: %s%s", limit, some(waits), last)
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
		var err error
		if waits, err = pending(v); len(waits) == 0 || err != nil {
			return err
		}
	}
}

// waits says what a profile waits for.
func waits(v *agent.View, name string) string {
	s := status.Of(v, name)
	return name + ": " + cmp.Or(s.Why, "it is "+s.State)
}

// some is as much of what is to be said as fits.
func some(all []string) string { return fmt.Sprintf("%.500s", strings.Join(all, "; ")) }

// screen writes for people. What it is given may be anybody's, such as text that somebody has
// put into etcd: it commands no terminal, and stays on its line and in its column.
type screen struct{ to io.Writer }

func (l screen) printf(format string, args ...any) {
	for i, arg := range args {
		switch is := arg.(type) {
		case string:
			args[i] = document.Printable(is, unicode.ReplacementChar)
		case error:
			args[i] = document.Printable(is.Error(), unicode.ReplacementChar)
		}
	}
	fmt.Fprintf(l.to, format, args...)
}

func (l screen) println(text string) { l.printf("%s\n", text) }

// write writes a value as JSON, or a table.
func (o *options) write(w io.Writer, value any, table func(*screen)) error {
	if o.json {
		text, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", document.Harmless(text))
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	table(&screen{t})
	return t.Flush()
}
