package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/config"
	"rlminit/control"
	"rlminit/plan"
)

func applyVerb(t *terminal) *cobra.Command {
	var g gating
	ask := control.ApplyRequest{}
	cmd := &cobra.Command{
		Use:   "apply [PLAN]",
		Short: "carry out an approved plan",
		Long: `Carries out exactly what rlminit plan --out wrote, if --approve is its hash;
without PLAN, the plan of that hash that waits for approval (plan --propose).
Changes without a restart come first, then restarts, one after the other, then
stops, and deletions last, when all else is healthy. Each service must be ready,
and stay so for --steady. If one dies, restarts or becomes unhealthy before
that, or if an action fails, everything is rolled back: definitions,
environment, secrets, desired states and processes. An action that fails because
the volume is full or faulty is tried again after 5, 15 and 45 s within
--timeout; what could not be rolled back then is rolled back once the volume
works again. An apply goes on if this command is interrupted, or if it has ended
with 12 because of the volume; rlminit revisions shows how it ended.`,
		Example: `  rlminit apply plan.json --approve sha256:4f0c… --by "alice, in review 512"
  rlminit apply plan.json --approve "$HASH" --allow-delete --steady 5s --exit-zero`,
		Args: between(0, 1, "PLAN"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) == 0 && ask.Approve == "" {
				return misused(cmd, "PLAN is missing")
			}
			var text []byte
			if len(args) > 0 {
				if text, err = readInput(t, args[0], plan.MaxSize); err != nil {
					return err
				}
			}
			ask.Plan, ask.Request, ask.Gating = string(text), rand.Text(), g.gating()
			var unread error
			if p, err := plan.Read(text); err == nil { // else rlminit says why not, and records it
				if ask.Secrets, unread = secretsOf(p); unread == nil {
					unread = approveConfiguration(p, ask.Secrets)
				}
				if unread != nil {
					ask.Unread = unread.Error() // and this
				}
			}
			client := t.open()
			r, err := client.Apply(cmd.Context(), ask)
			if err = cmp.Or(unread, err); err != nil {
				return err
			}
			return g.follow(cmd.Context(), t, client, r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&ask.Approve, "approve", "", "the plan's hash, `HASH`, by a person that has read it")
	f.BoolVar(&ask.AllowDelete, "allow-delete", false, "the plan may delete profiles")
	g.flags(t, cmd, &ask.By)
	return cmd
}

// gating are the flags of what carries a plan out.
type gating struct {
	steady, timeout, deadline time.Duration
	rolling                   int
	exitZero                  bool
}

func (g *gating) flags(t *terminal, cmd *cobra.Command, by *string) {
	g.steady, g.timeout = 30*time.Second, 120*time.Second
	f := cmd.Flags()
	f.Var((*seconds)(&g.steady), "steady", "how long each service must have been ready, `TIME` (default: 30s)")
	f.Var((*seconds)(&g.timeout), "timeout", "how long each change may take until then, `TIME` (default: 120s)")
	f.Var((*seconds)(&g.deadline), "deadline", "how long all of them may take, `TIME` (default: no limit of its own)")
	f.IntVar(&g.rolling, "rolling", 1, "restart `N` services at a time")
	f.StringVar(by, "by", "", "the approver, a `NAME`; recorded beside the uid of the caller")
	f.BoolVar(&g.exitZero, "exit-zero", false, "exit with 0, not 9, when something was changed")
	forPrograms(t, cmd, "write the revision when it is over, a JSON object")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
}

func (g *gating) gating() control.Gating {
	return control.Gating{
		SteadyMS: milliseconds(g.steady), TimeoutMS: milliseconds(g.timeout), DeadlineMS: milliseconds(g.deadline), Rolling: g.rolling,
	}
}

// secretsOf reads the values of a plan's secrets again from where they were
// declared.
func secretsOf(p *plan.Plan) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	var declared *plan.Declared
	for _, c := range p.Changes {
		if c.After == nil {
			continue
		}
		for _, s := range c.After.Sealed {
			var value string
			var err error
			switch {
			case c.Kind == plan.KindConfiguration:
				value, err = readConfiguration(s.File)
			case s.File != "":
				value, err = readSecret(s.Place, s.File)
			default:
				if declared == nil {
					if declared, err = declaredAgain(p.Source.File); err != nil {
						break
					}
				}
				source, ok := declared.Source(c.Name, s.Place)
				if value = source.Text; !ok {
					err = fmt.Errorf("%s does not declare it any more", p.Source.File)
				}
			}
			if err != nil {
				return nil, control.NewProblem(control.KindNotApproved, fmt.Sprintf(
					"cannot read %s of %s again from where it was declared: %v", s.Place, c.Name, err))
			}
			if all[c.Name] == nil {
				all[c.Name] = map[string]string{}
			}
			all[c.Name][s.Place] = value
		}
	}
	return all, nil
}

// approveConfiguration keeps the configuration that a plan was approved with where
// PID 1 takes it from: only root can.
func approveConfiguration(p *plan.Plan, values map[string]map[string]string) error {
	for _, c := range p.Changes {
		if c.Kind != plan.KindConfiguration || os.Geteuid() != 0 {
			continue // which is refused, and recorded
		}
		text := values[c.Name][plan.ConfigurationText]
		if plan.Digest(p.Salt, plan.ConfigurationText, text) != c.After.Sealed[0].Digest {
			continue // so is this
		}
		if err := config.Approve(c.Name, []byte(text)); err != nil {
			return control.NewProblem(control.KindNotApproved, err.Error())
		}
	}
	return nil
}

// declaredAgain is the declared set that a plan was made of, read again for its secrets.
func declaredAgain(file string) (*plan.Declared, error) {
	if file == "-" {
		return nil, fmt.Errorf("it came from standard input; write the set to a file, and plan that")
	}
	data, _, dir, err := readDeclared(nil, file)
	if err != nil {
		return nil, err
	}
	declared, reading := plan.Parse(file, dir, data)
	if faults := reading.Faults(); len(faults) > 0 {
		return nil, faults.Err()
	}
	return declared, nil
}

// follow tells how a revision goes, until its end, and returns the exit code.
func (g *gating) follow(ctx context.Context, t *terminal, client *control.Client, r control.Revision) error {
	if r.State == control.RevisionUnchanged {
		return g.end(t, r, 0)
	}
	g.say(t, "revision %d: %s\n", r.Revision, counted(len(r.Steps), "change", "changes"))
	for _, line := range r.Left {
		g.say(t, "%s\n", printable(line))
	}
	begun := t.now()
	waits := patience{limit: g.timeout, since: begun}
	told := make([]string, len(r.Steps))
	for {
		for i, s := range r.Steps {
			if i < len(told) && told[i] != s.State && s.State != "waiting" {
				g.say(t, "%s: %s\n", printable(s.Name), t.paint(stepColour(s.State), stepText(s)))
				told[i], waits.since = s.State, t.now()
			}
		}
		if r.Over() {
			break
		}
		if r.Held != waits.held && r.Held != "" {
			t.complain(fmt.Sprintf("revision %d waits: %s", r.Revision, printable(firstLine(r.Held))))
		}
		waits.held = r.Held
		next, err := waits.next(ctx, t, client, r)
		if errors.Is(err, errOutOfPatience) {
			return g.leave(t, r)
		}
		if err != nil {
			return err
		}
		if next.State == control.RevisionRollingBack && r.State == control.RevisionRunning {
			t.complain(fmt.Sprintf("revision %d is rolled back: %s", r.Revision, firstLine(next.Reason)))
		}
		r = next
	}
	return g.end(t, r, t.now().Sub(begun))
}

// patience is how long a caller waits for a revision that is held up: each change has a
// time, after which there is an answer, whatever the volume does.
type patience struct {
	limit time.Duration
	since time.Time // of the last change that went on
	held  string    // why it waits, as it was told; "": it does not
}

var errOutOfPatience = errors.New("the revision is held up")

// next is the revision once it has changed.
func (p *patience) next(ctx context.Context, t *terminal, client *control.Client, r control.Revision) (control.Revision, error) {
	if r.Held == "" {
		return client.Revision(ctx, r.Revision, r.Version)
	}
	waiting, cancel := context.WithTimeout(ctx, p.since.Add(p.limit).Sub(t.now()))
	defer cancel()
	next, err := client.Revision(waiting, r.Revision, r.Version)
	if waiting.Err() != nil && ctx.Err() == nil {
		return next, errOutOfPatience
	}
	return next, err
}

// leave says that a revision is not over, and why nobody waits for it any longer.
func (g *gating) leave(t *terminal, r control.Revision) error {
	if t.json {
		if err := t.printJSON(r); err != nil {
			return err
		}
	}
	t.complain(fmt.Sprintf("REVISION %d IS NOT OVER: it is held up, and goes on by itself once the cause is gone: %s; see rlminit revisions", r.Revision, firstLine(r.Held)))
	return exitStatus(control.ExitPartly)
}

// say prints for people.
func (g *gating) say(t *terminal, format string, args ...any) {
	if !t.json {
		t.printf(format, args...)
	}
}

// end says how a revision ended.
func (g *gating) end(t *terminal, r control.Revision, took time.Duration) error {
	if t.json {
		if err := t.printJSON(r); err != nil {
			return err
		}
	}
	switch r.State {
	case control.RevisionUnchanged:
		g.say(t, "nothing to change\n")
		return nil
	case control.RevisionApplied:
		g.say(t, "revision %d: %s (%s)\n", r.Revision, t.paint(green, "applied"), tookText(took))
		if g.exitZero {
			return nil
		}
	case control.RevisionRolledBack:
		t.complain(fmt.Sprintf("revision %d was rolled back, and all is as it was before: %s", r.Revision, r.Reason))
	default:
		t.complain(fmt.Sprintf("REVISION %d WAS ROLLED BACK ONLY IN PART: A PERSON IS NEEDED", r.Revision))
		for _, s := range r.Steps {
			if s.State == "stuck" {
				t.complain(fmt.Sprintf("not put back: %s", s.Reason))
			}
		}
		t.complain(fmt.Sprintf("it was rolled back because of %s", r.Reason))
	}
	return exitStatus(r.ExitCode)
}

func stepText(s control.RevisionStep) string {
	switch s.State {
	case "begun":
		return map[string]string{
			plan.Create: "is created", plan.Update: "is changed", plan.Start: "is started", plan.Stop: "is stopped", plan.Delete: "is deleted",
		}[s.Action]
	case "passed":
		done := map[string]string{
			plan.Create: "created", plan.Update: "changed", plan.Start: "started", plan.Stop: "stopped", plan.Delete: "deleted",
		}[s.Action]
		if s.Note != "" {
			done += ", " + printable(s.Note)
		}
		if len(s.Secrets) > 0 {
			done += "; secrets brought back: " + strings.Join(s.Secrets, ", ")
		}
		return done
	case "undone":
		return "put back"
	}
	return s.State
}

func stepColour(state string) string {
	switch state {
	case "passed":
		return green
	case "stuck":
		return red
	case "undone":
		return yellow
	}
	return ""
}
