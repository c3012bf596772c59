package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/service"
)

// parallel bounds the requests that one command has under way.
const parallel = 32

// grace is how much longer than the server a client waits for the answer that
// says that the time is over.
const grace = 5 * time.Second

// operation is what start, stop and restart have in common.
type operation struct {
	verb    string
	all     bool
	noWait  bool
	timeout time.Duration
	options control.Operate
	call    func(*control.Client) func(context.Context, string, control.Operate) ([]control.Outcome, error)
}

// flags adds the flags of every operation.
func (o *operation) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.all, "all", false, "every service, in the order of their dependencies")
	f.BoolVar(&o.noWait, "no-wait", false, "return once the intent is recorded")
	f.Var((*seconds)(&o.timeout), "timeout", "wait no longer than `TIME`, such as 30s; the operation goes on (default: no limit)")
	cmd.ValidArgsFunction = completeServices
}

// run operates on all names at once, and prints their outcomes in their order.
func (o *operation) run(cmd *cobra.Command, t *terminal, names []string) error {
	switch {
	case o.all && len(names) > 0:
		return misused(cmd, "--all leaves no place for names such as %q", names[0])
	case o.all:
		names = []string{control.All}
	case len(names) == 0:
		return misused(cmd, "NAME or --all is missing")
	}
	client, err := t.open()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if !o.noWait {
		o.options.Wait = &control.Wait{TimeoutMS: milliseconds(o.timeout)}
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout+grace)
		defer cancel()
	}
	return o.each(ctx, t, client, once(names))
}

// answer is what came of the request for one name.
type answer struct {
	outcomes []control.Outcome
	took     time.Duration
	err      error
}

func (o *operation) each(ctx context.Context, t *terminal, client *control.Client, names []string) error {
	call := o.call(client)
	answers := make([]chan answer, len(names))
	slots := make(chan struct{}, parallel)
	for i, name := range names {
		answers[i] = make(chan answer, 1)
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if name == control.All && !o.all {
				answers[i] <- answer{err: namedAll()}
				return
			}
			begun := t.now()
			outcomes, err := call(ctx, name, o.options)
			answers[i] <- answer{outcomes, t.now().Sub(begun), err}
		}()
	}
	worst := 0
	said := "" // when nobody answers, that is said once and not for each name
	for i, name := range names {
		a := <-answers[i]
		if a.err != nil {
			worst = max(worst, exitCodeOf(a.err))
			if line := a.err.Error(); line != said {
				said = line
				t.complain(line)
			}
			continue
		}
		for _, outcome := range a.outcomes {
			shown, took := name, a.took
			if name == control.All {
				shown, took = shortName(outcome.Service), 0
			}
			worst = max(worst, o.tell(t, shown, outcome, took))
		}
		if name == control.All && len(a.outcomes) == 0 {
			t.printf("nothing to %s\n", o.verb)
		}
	}
	if worst != 0 {
		return exitStatus(worst)
	}
	return nil
}

// namedAll is said of the name "all", which no service has: on the socket it
// stands for every service, and here it is too easily written for --all.
func namedAll() error {
	return control.NewProblem(control.KindNoSuchName, `no profile or service "all"; did you mean --all?`)
}

// tell prints one outcome and returns its exit code.
func (o *operation) tell(t *terminal, name string, outcome control.Outcome, took time.Duration) int {
	if outcome.Problem != nil {
		t.complain(outcome.Problem.Detail)
		return max(outcome.Problem.ExitCode, control.ExitFailed)
	}
	if o.noWait || !outcome.Changed {
		took = 0
	}
	t.printf("%s\n", outcomeLine(t, name, outcome, took))
	return 0
}

// outcomeLine says how a service is now: `alice: running (pid 42, 0.3s)`.
func outcomeLine(t *terminal, name string, outcome control.Outcome, took time.Duration, more ...string) string {
	s := outcome.Service
	var facts []string
	if s.PID != nil && *s.PID > 0 {
		facts = append(facts, "pid "+strconv.Itoa(*s.PID))
	}
	if s.State == "exited" && s.LastExit != nil {
		facts = append(facts, exitText(*s.LastExit))
	}
	facts = append(facts, more...)
	if took > 0 {
		facts = append(facts, tookText(took))
	}
	state := t.paint(stateColour(s.State), s.State)
	if !outcome.Changed {
		state = "already " + state
	}
	line := printable(name) + ": " + state
	if len(facts) > 0 {
		line += " (" + strings.Join(facts, ", ") + ")"
	}
	if s.State != "running" && s.Reason != nil && *s.Reason != "" {
		line += ": " + printable(*s.Reason)
	}
	return line
}

// shortName is the name that people use: the profile's, where there is one.
func shortName(s control.Service) string {
	if s.Profile != nil && *s.Profile != "" {
		return *s.Profile
	}
	return s.Name
}

// once leaves out what was named before, in either form: only a profile's
// service has a name with the prefix.
func once(names []string) []string {
	var kept []string
	named := map[string]bool{}
	for _, name := range names {
		short := strings.TrimPrefix(name, service.GatewayPrefix)
		if !named[short] {
			kept = append(kept, name)
		}
		named[short] = true
	}
	return kept
}

func exitText(e control.Exit) string {
	switch {
	case e.Signal != nil:
		return "killed by " + printable(*e.Signal)
	case e.Code != nil:
		return fmt.Sprintf("exit %d", *e.Code)
	}
	return "ended"
}

// tookText is how long an operation took, in the unit that suits it.
func tookText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}

// milliseconds rounds up: 0 is no limit at all.
func milliseconds(d time.Duration) int64 {
	return (d + time.Millisecond - 1).Milliseconds()
}

// seconds is a flag's value in Go's notation for durations, or a plain number
// of seconds.
type seconds time.Duration

func (s *seconds) String() string { return "" }
func (s *seconds) Type() string   { return "TIME" }

func (s *seconds) Set(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < 1e9 {
		*s = seconds(n * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("write a time such as 30s, 5m or 1h30m")
	}
	*s = seconds(d)
	return nil
}
