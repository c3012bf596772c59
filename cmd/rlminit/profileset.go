package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/config"
	"rlminit/control"
	"rlminit/plan"
)

// setting is what rlminit profile set was asked for.
type setting struct {
	env, unset, secret, files []string

	kind            string
	restart, dryRun bool
	rolling         int
	noWait          bool
	steady, timeout time.Duration

	onlyPresent bool
}

func profileSetVerb(t *terminal) *cobra.Command {
	s := &setting{steady: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "set NAME|PATTERN… [KEY=VALUE…]",
		Short: "change variables and secrets of profiles",
		Long: `Sets and removes variables in the environment of one profile or of many, and
gives them secrets. A running gateway goes on with its old values: status shows
it as outdated, and the last line names it with the command that restarts it.
With --restart it is restarted, and the command waits until it runs again.

Of several names, a PATTERN such as 'web-*', or --kind: all of them have the new
values or, if one of them cannot, none. They are a revision, which rlminit
rollback takes back; one of a single NAME only rollback REVISION does. With
--restart all that run with older values are restarted at once; with --rolling
the next only while fewer than N of them are out of service. That stops with 8
at the first that does not get ready, and names the values of each. Repeated,
the command goes on with those that are still outdated; without KEY=VALUE it
only does that. --dry-run shows what would change.

To change what else a profile has of its own, use rlminit profile edit.`,
		Example: `  rlminit profile set alice TOKEN=abc LANG=C.UTF-8
  rlminit profile set alice --unset TOKEN
  rlminit profile set 'web-*' MODEL=large --dry-run
  rlminit profile set --kind web --secret TOKEN=/run/secrets/token --rolling=4`,
		ValidArgsFunction: completeProfiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return s.run(cmd, t, args) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&s.env, "env", nil, "set a variable, `KEY=VALUE`, as an argument does")
	f.StringArrayVar(&s.files, "env-file", nil, "set the variables in `FILE`, lines NAME=value; may be repeated")
	f.StringArrayVar(&s.unset, "unset", nil, "remove the variable `KEY`")
	f.StringArrayVar(&s.secret, "secret", nil, "a secret, `NAME=FILE`, or NAME=- from stdin; may be repeated")
	f.BoolVar(&s.onlyPresent, "only-present", false, "with --secret: only for profiles that have that secret already")
	f.StringVar(&s.kind, "kind", "", "only gateways of this `KIND`")
	f.BoolVar(&s.dryRun, "dry-run", false, "only show what would change")
	f.BoolVar(&s.restart, "restart", false, "restart what runs with older values, all at once")
	f.IntVar(&s.rolling, "rolling", 0, "restart it, the next only while fewer than `N` of them are out of service")
	f.Lookup("rolling").NoOptDefVal = "1"
	f.Var((*seconds)(&s.steady), "steady", "with --rolling: a service is up when it has been ready for `TIME` (default 2s)")
	f.BoolVar(&s.noWait, "no-wait", false, "return once the change is recorded, and the restart has begun")
	forPrograms(t, cmd, "write the profile, a JSON object; of several what rlminit help json says")
	f.Var((*seconds)(&s.timeout), "timeout", "wait no longer than `TIME`, such as 30s, for the gateways (default: no limit)")
	return cmd
}

// run sets the values of the command line.
func (s *setting) run(cmd *cobra.Command, t *terminal, args []string) error {
	names := args
	if i := slices.IndexFunc(args, func(arg string) bool { return strings.Contains(arg, "=") }); i >= 0 {
		names = args[:i]
	}
	given := args[len(names):]
	if len(names) == 0 && s.kind == "" {
		return misused(cmd, "NAME, PATTERN or --kind is missing")
	}
	change, err := s.changes(cmd, given)
	if err != nil {
		return err
	}
	secrets, err := secrets(t, cmd, s.secret)
	if err != nil {
		return err
	}
	one := s.kind == "" && len(names) == 1 && !control.IsSet(names[0])
	empty := len(change)+len(secrets) == 0
	switch asked := s.restart || cmd.Flags().Changed("rolling"); {
	case cmd.Flags().Changed("rolling") && s.rolling < 1:
		return misused(cmd, "--rolling takes a number above 0")
	case empty && !asked:
		return misused(cmd, "KEY=VALUE or --unset KEY is missing")
	case one && s.rolling == 0 && !s.dryRun && (!empty || t.json):
		return s.one(cmd.Context(), t, names[0], change, secrets)
	}
	return s.many(cmd.Context(), t, control.SetProfiles{
		Names: once(names), Kind: s.kind, Environment: change, Secrets: secrets, DryRun: s.dryRun, OnlyPresent: s.onlyPresent,
		Restart: s.restart || s.rolling > 0, Rolling: s.rolling, SteadyMS: milliseconds(s.steady),
	})
}

// changes are the variables that are set and removed.
func (s *setting) changes(cmd *cobra.Command, given []string) (map[string]*string, error) {
	change := map[string]*string{}
	for _, file := range s.files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, control.Failed("cannot read the variables: %v", err)
		}
		vars, err := config.ParseEnvFile(file, text)
		if err != nil {
			return nil, control.Failed("%v", err)
		}
		for key, value := range vars {
			change[key] = &value
		}
	}
	vars, err := assignments(cmd, append(slices.Clone(given), s.env...))
	if err != nil {
		return nil, err
	}
	for key, value := range vars {
		change[key] = &value
	}
	for _, key := range s.unset {
		if _, both := vars[key]; both {
			return nil, misused(cmd, "%s is both set and unset", key)
		}
		change[key] = nil
	}
	return change, nil
}

// one changes one profile.
func (s *setting) one(ctx context.Context, t *terminal, name string, change map[string]*string, secrets map[string]string) error {
	client := t.open()
	ask := control.SetProfile{Environment: change, Secrets: secrets, OnlyPresent: s.onlyPresent, Restart: s.restart}
	if s.restart && !s.noWait {
		ask.Wait = &control.Wait{TimeoutMS: milliseconds(s.timeout)}
	}
	ctx, cancel := within(ctx, s.timeout, grace)
	defer cancel()
	profile, err := client.SetProfile(ctx, name, ask)
	if err != nil {
		return err
	}
	return answer(t, profile, func() {
		t.printf("%s: %s\n", printable(profile.Name), printable(profile.State))
		if profile.Revision != 0 {
			t.printf("changed by revision %d\n", profile.Revision)
		}
		tellOutdated(t, profile.Name, profile.Outdated)
	})
}

// tellOutdated says that a gateway runs with the values before, and which command changes
// that.
func tellOutdated(t *terminal, name string, outdated bool) {
	if outdated {
		t.printf("still with the old values, until restarted: %s; rlminit restart %[1]s\n", printable(name))
	}
}

// many changes several, and follows the restart that was asked for.
func (s *setting) many(ctx context.Context, t *terminal, ask control.SetProfiles) error {
	client := t.open()
	done, err := control.SetProfilesOf(ctx, client, ask)
	if err != nil {
		return err
	}
	if t.json {
		if err := t.printJSON(done); err != nil || done.Operation == 0 || s.noWait {
			return err
		}
		return followReload(ctx, t, client, done.Operation)
	}
	if ask.DryRun {
		return tellSetPlan(t, done)
	}
	if len(done.Changed) > 0 {
		t.printf("%s: changed by revision %d\n", strings.Join(named(done.Changed), " "), done.Revision)
	} else if len(ask.Environment)+len(ask.Secrets) > 0 {
		t.printf("nothing to change: %s so already\n", map[bool]string{true: "it is", false: "all are"}[len(done.Profiles) == 1])
	}
	if done.Operation == 0 {
		if ask.Restart && len(done.Changed) == 0 {
			t.printf("nothing to restart: all run with the values that they have\n")
		}
		if len(done.Outdated) > 0 {
			names := strings.Join(outdatedNames(done.Outdated), " ")
			command := "rlminit restart " + names
			if len(done.Outdated) > 5 {
				command = "rlminit restart --state outdated"
			}
			t.printf("still with the old values, until restarted: %s; %s\n", names, command)
		}
		return nil
	}
	if s.noWait {
		t.printf("%d\n", done.Operation)
		return nil
	}
	ctx, cancel := within(ctx, s.timeout, 0)
	defer cancel()
	o, err := client.Operation(ctx, done.Operation, false)
	if err == nil {
		err = followOperation(ctx, t, client, o)
	}
	if err != nil {
		s.tellWhoHasWhich(t, client, done)
	}
	return err
}

// tellSetPlan shows the changes of a set.
func tellSetPlan(t *terminal, done control.SetAnswer) error {
	p, err := plan.Read([]byte(done.Plan))
	if err != nil {
		return control.Failed("cannot read the plan: %v", err)
	}
	if p.Empty() {
		t.printf("nothing to change\n")
	}
	tellChanges(t, p)
	return nil
}

// tellWhoHasWhich says, of a restart that did not come to its end, which run with the new
// values and which with the old ones.
func (s *setting) tellWhoHasWhich(t *terminal, client *control.Client, done control.SetAnswer) {
	services, err := client.Services(context.Background())
	if err != nil {
		return // the caller is told of the restart
	}
	var fresh, older, down []string
	for _, is := range services {
		if is.Profile == nil || is.Desired != "running" || is.Schedule != nil || !slices.Contains(done.Profiles, *is.Profile) {
			continue
		}
		switch {
		case is.Outdated:
			older = append(older, *is.Profile)
		case is.State == "running" && (is.Healthy == nil || *is.Healthy):
			fresh = append(fresh, *is.Profile)
		default:
			down = append(down, *is.Profile)
		}
	}
	for _, group := range []struct {
		what  string
		names []string
	}{{"with the new values", fresh}, {"with the new values, and not up", down}, {"still with the old values", older}} {
		if len(group.names) > 0 {
			t.complain(group.what + ": " + strings.Join(named(group.names), " "))
		}
	}
	if done.Revision != 0 {
		t.complain("rlminit rollback gives all of them the old values again; the same command goes on")
	}
}

func outdatedNames(list []control.OutdatedProfile) []string {
	names := make([]string, len(list))
	for i, o := range list {
		names[i] = o.Name
	}
	return named(names)
}

// mostNamed is how many names a line has.
const mostNamed = 20

// named are names for a line: the first of them, and how many more there are.
func named(names []string) []string {
	list := []string{}
	for _, name := range names[:min(len(names), mostNamed)] {
		list = append(list, printable(name))
	}
	if more := len(names) - len(list); more > 0 {
		list = append(list, "and "+counted(more, "more", "more"))
	}
	return list
}
