package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/service"
)

// grace is how much longer than the server a client waits for the answer that
// says that the time is over.
const grace = 5 * time.Second

// within is ctx until the caller's time is over, and more for the answer to come: without
// a limit until it is cancelled.
func within(ctx context.Context, limit, more time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit+more)
}

// operation is what start, stop and restart have in common.
type operation struct {
	verb    string
	all     bool
	noWait  bool
	rolling int
	steady  time.Duration
	timeout time.Duration
	options control.Operate
	call    func(*control.Client, context.Context, string, control.Operate) ([]control.Outcome, error)
}

// flags adds the flags of every operation.
func (o *operation) flags(t *terminal, cmd *cobra.Command) {
	f := cmd.Flags()
	all := "every service, in the order of their dependencies"
	if o.verb == "restart" {
		all = "every service that is meant to run, in the order of their dependencies; what is stopped stays so"
	}
	f.BoolVar(&o.all, "all", false, all)
	f.StringVar(&o.options.Kind, "kind", "", "only gateways of this `KIND`")
	f.StringVar(&o.options.State, "state", "", "only those that have this `STATE` now, such as failed or unhealthy, or this verdict: ok, pending, ill, off")
	f.BoolVar(&o.noWait, "no-wait", false, "return once the intent is recorded, and print the operation's id")
	forPrograms(t, cmd, "write a JSON array of what became of each; with --no-wait and --rolling the operation, an object")
	f.Var((*seconds)(&o.timeout), "timeout", "wait no longer than `TIME`, such as 30s; the operation goes on (default: no limit)")
	rolling := map[string]string{
		"start":   "start no more than `N` at a time",
		"stop":    "stop no more than `N` at a time",
		"restart": "restart the next only while fewer than `N` of them are out of service",
	}
	f.IntVar(&o.rolling, "rolling", 0, rolling[o.verb])
	f.Lookup("rolling").NoOptDefVal = "1"
	if o.steady = 2 * time.Second; o.verb == "stop" {
		o.steady = 0
	} else {
		f.Var((*seconds)(&o.steady), "steady", "with --rolling: a service is up when it has been ready for `TIME` (default 2s)")
	}
	cmd.ValidArgsFunction = completeServices
}

// run operates on all names at once, and prints their outcomes in their order.
func (o *operation) run(cmd *cobra.Command, t *terminal, names []string) error {
	switch {
	case o.all && len(names) > 0:
		return misplaced(cmd, names[:1], misused(cmd, "--all cannot be combined with names such as %q", names[0]))
	case o.all:
		names = []string{control.All}
	case len(names) == 0 && (o.options.State != "" || o.options.Kind != ""):
		names = []string{control.All}
		o.all = true
	case len(names) == 0:
		return misused(cmd, "NAME or --all is missing")
	case cmd.Flags().Changed("rolling") && o.rolling < 1:
		return misused(cmd, "--rolling takes a number above 0")
	case cmd.Flags().Changed("steady") && o.rolling == 0:
		return misused(cmd, "--steady needs --rolling")
	}
	client := t.open()
	if !o.noWait {
		o.options.Wait = &control.Wait{TimeoutMS: milliseconds(o.timeout)}
	}
	more := grace
	if o.rolling > 0 {
		more = 0 // the time is the client's alone to keep
	}
	ctx, cancel := within(cmd.Context(), o.timeout, more)
	defer cancel()
	names = once(names)
	var wrong error
	if !o.all && slices.Contains(names, control.All) {
		if wrong = namedAll(); len(names) == 1 {
			return wrong
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == control.All })
	}
	if err := o.carryOut(ctx, t, client, names); wrong == nil || exitCodeOf(err) > exitCodeOf(wrong) {
		return misplaced(cmd, names, err)
	}
	return wrong
}

// misplaced is err, and says what may be its reason: that the number of --rolling was
// taken for a name.
func misplaced(cmd *cobra.Command, names []string, err error) error {
	if err == nil || !cmd.Flags().Changed("rolling") {
		return err
	}
	for _, name := range names {
		if name != "" && strings.Trim(name, "0123456789") == "" {
			return fmt.Errorf("%w; if it is how many at a time, write --rolling=%s", err, name)
		}
	}
	return err
}

// carryOut asks for it in the form that suits.
func (o *operation) carryOut(ctx context.Context, t *terminal, client *control.Client, names []string) error {
	if o.noWait || o.rolling > 0 {
		return o.begin(ctx, t, client, names)
	}
	of := names[0] // a single one, as it is
	if o.all || len(names) > 1 || o.options.State != "" || o.options.Kind != "" || control.IsSet(of) {
		of = control.All
	}
	if of == control.All && !o.all {
		o.options.Names = names
	}
	begun := t.now()
	outcomes, err := o.ask(ctx, t, client, of)
	if err != nil {
		return err
	}
	if t.json {
		return tellOutcomes(t, outcomes)
	}
	took := t.now().Sub(begun)
	if o.all {
		took = 0
	}
	worst := 0
	var left []control.Left
	for _, outcome := range outcomes {
		if outcome.Left != "" {
			left = append(left, control.Left{Name: shortName(outcome.Service), Why: outcome.Left})
			continue
		}
		shown := shortName(outcome.Service)
		switch {
		case of != control.All:
			shown = of
		case slices.Contains(names, outcome.Service.Name):
			shown = outcome.Service.Name
		}
		worst = max(worst, o.tell(t, shown, outcome, took))
	}
	if len(outcomes) == 0 {
		t.printf("nothing to %s\n", o.verb)
	}
	tellLeft(t, left)
	return status(worst)
}

// begin begins one operation on all of the names. A rolling one is followed to its
// end.
func (o *operation) begin(ctx context.Context, t *terminal, client *control.Client, names []string) error {
	how := control.BeginOperation{
		Verb: o.verb, Names: names, State: o.options.State, Kind: o.options.Kind, Runtime: o.options.Runtime,
		Rolling: o.rolling,
	}
	if o.rolling > 0 {
		how.SteadyMS = milliseconds(o.steady)
	}
	if o.all {
		how.Names = nil
	}
	if o.options.Failed {
		how.State = "ill"
	}
	begun, err := client.Operate(ctx, how)
	if err != nil {
		return err
	}
	if o.noWait {
		return answer(t, begun, func() { t.printf("%d\n", begun.ID) })
	}
	left := begun.Left
	err = followOperation(ctx, t, client, begun)
	if !t.json {
		tellLeft(t, left)
	}
	return err
}

// ask asks for it and waits for its outcomes.
func (o *operation) ask(ctx context.Context, t *terminal, client *control.Client, name string) (outcomes []control.Outcome, err error) {
	err = showing(ctx, t, func(ctx context.Context, p *progress) (err error) {
		if p != nil {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go p.search(ctx, o.verb)
		}
		outcomes, err = o.call(client, ctx, name, o.options)
		return err
	})
	return outcomes, err
}

// namedAll is said of the name "all", which no service has: on the socket it
// stands for every service, and here it is too easily written for --all.
func namedAll() error {
	return control.NewProblem(control.KindNoSuchName, `no profile or service "all"; did you mean --all?`)
}

// tellOutcomes prints outcomes for programs.
func tellOutcomes(t *terminal, outcomes []control.Outcome) error {
	if outcomes == nil {
		outcomes = []control.Outcome{}
	}
	worst := 0
	for _, outcome := range outcomes {
		if outcome.Problem != nil {
			worst = max(worst, outcome.Problem.ExitCode, control.ExitFailed)
		}
	}
	return cmp.Or(t.printJSON(outcomes), status(worst))
}

// tellLeft says which services of a set the verb left as they are, on one line:
// `2 are stopped and stay so: a, b`.
func tellLeft(t *terminal, left []control.Left) {
	var parts []string
	for _, why := range []string{control.LeftStopped, control.LeftDisabled, control.LeftScheduled} {
		var names []string
		for _, l := range left {
			if l.Why == why {
				names = append(names, printable(l.Name))
			}
		}
		switch slices.Sort(names); len(names) {
		case 0:
		case 1:
			parts = append(parts, "1 is "+why+" and stays so: "+names[0])
		default:
			parts = append(parts, fmt.Sprintf("%d are %s and stay so: %s", len(names), why, strings.Join(names, ", ")))
		}
	}
	if len(parts) > 0 {
		t.printf("%s\n", strings.Join(parts, "; "))
	}
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
	line := outcomeLine(t, name, outcome, took)
	if len(outcome.Along) > 0 {
		done := map[string]string{"start": "started", "stop": "stopped", "restart": "restarted"}[o.verb]
		line += "; " + done + " along with it: " + printable(strings.Join(outcome.Along, ", "))
	}
	t.printf("%s%s\n", line, noteOf(outcome))
	tellOutdated(t, shortName(outcome.Service), outcome.Service.Outdated)
	return 0
}

// outcomeLine says how a service is now: `alice: running (pid 42, 0.3s)`.
func outcomeLine(t *terminal, name string, outcome control.Outcome, took time.Duration, more ...string) string {
	s := outcome.Service
	var facts []string
	if s.PID != nil && *s.PID > 0 {
		facts = append(facts, "pid "+strconv.Itoa(*s.PID))
	}
	why := ""
	if s.State != "running" && s.Reason != nil {
		why = *s.Reason
	}
	if s.State == "exited" && s.LastExit != nil {
		switch end := exitText(*s.LastExit); {
		case why == end: // once is enough
			why = ""
			fallthrough
		case !strings.HasPrefix(why, end):
			facts = append(facts, end)
		}
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
	if why != "" {
		line += ": " + printable(why)
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

// shortService is shortName of a service's name alone: only those of profiles
// begin with the prefix.
func shortService(name string) string { return strings.TrimPrefix(name, service.GatewayPrefix) }

// once leaves out names that came before, in either form: only a profile's
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

// seconds is a flag's value: a duration as the configuration has it, or a number of days
// such as 2d.
type seconds time.Duration

func (s *seconds) String() string { return "" }
func (s *seconds) Type() string   { return "TIME" }

func (s *seconds) Set(text string) error {
	if days, whole := strings.CutSuffix(text, "d"); whole {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n < 1e4 {
			*s = seconds(n * float64(24*time.Hour))
			return nil
		}
	}
	d, err := document.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("it %w", err)
	}
	*s = seconds(d)
	return nil
}
