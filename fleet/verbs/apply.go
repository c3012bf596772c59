package verbs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/fleet/agent"
	"rlminit/fleet/store"
)

// apply is one `fleet apply`.
type apply struct {
	store    *store.Store
	out      screen
	approve  string
	rolling  int
	timeout  time.Duration
	steady   time.Duration
	done     []change
	revision map[string]int64 // of the declarations that it has written; 0: deleted
}

// applied is `fleet apply --json`.
type applied struct {
	Result  string   `json:"result"` // applied, unchanged, refused, rolled_back, partly
	Changed []string `json:"changed"`
	Why     string   `json:"why,omitempty"`
}

// lines are the last one that people see, of what no error says.
var lines = map[string]string{"applied": "applied: %d changed", "unchanged": "nothing is to change: %d changed"}

func applyVerb(o *options) *cobra.Command {
	a := &apply{revision: map[string]int64{}}
	cmd := &cobra.Command{
		Use:   "apply FILE --approve HASH",
		Short: "declare the profiles of a set, and wait until they run",
		Long: `Declares the profiles of a set, --rolling at a time, and waits until they run. If one
cannot be started, or does not run within --timeout, the declarations of before are put
back: exit code 8, or 7 if it was late, and 12 if somebody else has changed one of them.`,
		Args: cobra.ExactArgs(1),
		RunE: o.asking(&a.timeout, func(cmd *cobra.Command, args []string, st *store.Store, v *agent.View) error {
			p, err := o.planned(args[0], st, v)
			if err != nil {
				return err
			}
			a.store, a.out = st, screen{cmd.OutOrStdout()}
			if o.json {
				a.out = screen{cmd.ErrOrStderr()}
			}
			result, err := a.run(cmd.Context(), p)
			if line := lines[result.Result]; line != "" || o.json {
				return errors.Join(err, o.said(cmd, result, fmt.Sprintf(line, len(result.Changed))))
			}
			return err
		}),
	}
	f := cmd.Flags()
	f.StringVar(&a.approve, "approve", "", "the `HASH` of the plan")
	f.IntVar(&a.rolling, "rolling", 10, "change at most `N` at a time")
	f.DurationVar(&a.timeout, "timeout", 2*time.Minute, "how long those may take")
	f.DurationVar(&a.steady, "steady", 5*time.Second, "how long the last of them must run")
	return cmd
}

func (a *apply) run(ctx context.Context, p fleetPlan) (applied, error) {
	result := applied{Result: "refused", Changed: []string{}}
	switch {
	case len(p.Changes) == 0:
		result.Result = "unchanged"
		return result, nil
	case a.approve == "":
		return result, exit(control.ExitNotApproved, "the plan is not approved; look at it with rlminit fleet plan, and give --approve %s", p.Hash)
	case a.approve != p.Hash:
		return result, exit(control.ExitNotApproved, "the plan is another one now, %s; look at it again with rlminit fleet plan", p.Hash)
	case len(p.untaken) > 0:
		return result, exit(control.ExitUnhealthy, "nothing is changed, for it could not run: %s", some(p.untaken))
	}
	for _, w := range p.Warnings {
		a.out.println("warning: " + w)
	}
	for wave := range slices.Chunk(p.Changes, a.rolling) {
		if err := a.wave(ctx, wave); err != nil {
			return a.back(context.WithoutCancel(ctx), err)
		}
	}
	if err := a.hold(ctx); err != nil {
		return a.back(context.WithoutCancel(ctx), err)
	}
	result.Result = "applied"
	for _, c := range a.done {
		result.Changed = append(result.Changed, c.Name)
	}
	return result, exitError{code: control.ExitApplied}
}

// wave changes some declarations, and waits until that has come true.
func (a *apply) wave(ctx context.Context, changes []change) error {
	for _, c := range changes {
		if err := a.change(ctx, c.Name, c.Action == "delete", string(c.New), c.Revision); err != nil {
			return err
		}
		a.done = append(a.done, c)
		a.out.printf("%s: %sd\n", c.Name, c.Action)
	}
	return until(ctx, a.store, a.timeout, "", func(v *agent.View) ([]string, error) { return a.wrong(v, changes) })
}

// change writes one declaration, and finds its revision.
func (a *apply) change(ctx context.Context, name string, gone bool, text string, base int64) (err error) {
	ok, revision := false, int64(0)
	if gone {
		ok, err = a.store.Undeclare(ctx, name, base)
	} else {
		ok, revision, err = a.store.Declare(ctx, name, text, base)
	}
	switch {
	case err != nil:
		return err
	case !ok:
		return exit(control.ExitExists, "somebody else has changed %s meanwhile", name)
	}
	a.revision[name] = revision
	return nil
}

// wrong is which profiles are not as this apply has declared them, and why. It is an error
// if one cannot be started, or is declared in another way now.
func (a *apply) wrong(v *agent.View, changes []change) (pending []string, _ error) {
	for _, c := range changes {
		p, declared := v.Profiles[c.Name]
		_, owned := v.Owners[c.Name]
		revision := a.revision[c.Name]
		switch b, failed := v.Backoffs[c.Name]; {
		case p.Revision != revision:
			return nil, exit(control.ExitExists, "somebody else has changed %s meanwhile", c.Name)
		case failed && b.Revision > revision && revision != 0:
			return nil, exit(control.ExitUnhealthy, "%s cannot be started at %s: %s", c.Name, b.Member, b.Text)
		case (!declared || p.Stopped) && owned, declared && !p.Stopped && !v.Runs(c.Name):
			pending = append(pending, waits(v, c.Name))
		}
	}
	return pending, nil
}

// hold waits whether all stay as they are.
func (a *apply) hold(ctx context.Context) error {
	from := time.Now()
	return until(ctx, a.store, a.timeout+a.steady, "", func(v *agent.View) ([]string, error) {
		pending, err := a.wrong(v, a.done)
		switch {
		case len(pending) > 0:
			from = time.Now()
		case time.Since(from) < a.steady:
			pending = []string{"all run, and not for " + a.steady.String() + " yet"}
		}
		return pending, err
	})
}

// back puts the declarations of before back.
func (a *apply) back(ctx context.Context, why error) (applied, error) {
	result := applied{Result: "rolled_back", Changed: []string{}, Why: why.Error()}
	code := control.ExitUnhealthy
	if known, is := errors.AsType[exitError](why); is {
		code = known.code
	}
	for _, c := range slices.Backward(a.done) {
		if err := a.change(ctx, c.Name, c.Action == "create", string(c.Old), a.revision[c.Name]); err != nil {
			a.out.printf("%s: cannot be put back: %v\n", c.Name, err)
			result.Result, code = "partly", control.ExitPartly
			continue
		}
		a.out.printf("%s: put back\n", c.Name)
	}
	return result, exit(code, "rolled back: %w", why)
}
