package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/internal/nearest"
)

// runVerb runs a verb of the command line and returns the exit code.
func runVerb(args []string, t *terminal) int {
	root := newRoot(t)
	if len(args) > 1 && strings.HasPrefix(args[1], cobra.ShellCompRequestCmd) {
		offerWords(root)
	}
	root.SetArgs(args[1:])
	if err := noSuchVerb(root, args[1:]); err != nil {
		return t.finish(err)
	}
	return t.finish(root.ExecuteContext(context.Background()))
}

// noSuchVerb finds a word that stands where a verb belongs and is none. It is looked for before
// the flags are: those of a verb that is not there, as of a program that does not lie beside this
// one, would be judged by another verb, and --help explain that one.
func noSuchVerb(root *cobra.Command, args []string) error {
	root.InitDefaultHelpCmd()
	at, rest, err := root.Find(args)
	if err != nil || !at.HasSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") || strings.HasPrefix(rest[0], cobra.ShellCompRequestCmd) {
		return nil
	}
	return unknownVerb(at, rest[0])
}

// finish reports how a verb ended, and what it printed that nobody can read.
func (t *terminal) finish(err error) int {
	code := t.report(err)
	if failed := t.out.failed; failed != nil && !errors.Is(err, failed) {
		code = max(code, t.report(failed))
	}
	return code
}

// report prints an error's line and returns its exit code.
func (t *terminal) report(err error) int {
	if err == nil {
		return control.ExitDone
	}
	var silent exitStatus
	if errors.As(err, &silent) {
		return int(silent)
	}
	t.complain(err.Error())
	return exitCodeOf(err)
}

// exitStatus is an error that has been told already: only its code is left.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// usageError is a command line that makes no sense.
type usageError struct {
	verb string // "start", "profile create"; "": none was named
	what string
}

func (e *usageError) Error() string {
	if e.verb == "" {
		return e.what + "; see rlminit help"
	}
	return e.what + "; see rlminit help " + e.verb
}

// misused makes a usageError for the verb of a command.
func misused(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{verb: verbOf(cmd), what: fmt.Sprintf(format, args...)}
}

// verbOf returns a command's name without the program's.
func verbOf(cmd *cobra.Command) string {
	_, verb, _ := strings.Cut(cmd.CommandPath(), " ")
	return verb
}

func exitCodeOf(err error) int {
	var silent exitStatus
	var problem *control.Problem
	var usage *usageError
	switch {
	case err == nil:
		return control.ExitDone
	case errors.As(err, &silent):
		return int(silent)
	case errors.As(err, &problem):
		return problem.ExitCode
	case errors.As(err, &usage):
		return control.ExitUsage
	}
	return control.ExitFailed
}

// newRoot makes the tree of verbs.
func newRoot(t *terminal) *cobra.Command {
	cobra.EnableCommandSorting = false // help shows verbs in the order below
	root := &cobra.Command{
		Use:   "rlminit",
		Short: "init and supervisor for containers of many gateways",
		Long: `rlminit runs as a container's PID 1 and supervises one gateway for each profile.
These verbs command it over its control socket, so they work in docker exec, as
root or as the user that the services run as.

NAME is the name of a profile or a service. No verb takes the word all for every
service: start, stop, restart and logs have --all, and status and reload mean
every service if no NAME is given.`,
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version, _ := cmd.Flags().GetBool("version"); version {
				t.printf("%s\n", initVersionLine())
				return nil
			}
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownVerb(cmd, args[0])
		},
	}
	root.Flags().Bool("version", false, "print the version, also for dockerd --init-path")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return misused(cmd, "%s", flagFault(err))
	})
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { t.printf("%s", helpText(cmd)) })
	root.SetOut(t.out)
	root.SetErr(t.err)
	root.SetIn(t.in)

	inGroups(root, []verbGroup{
		{"Look", []*cobra.Command{
			statusVerb(t), whyVerb(t), logsVerb(t), showVerb(t), eventsVerb(t), listDependenciesVerb(t), analyzeVerb(t), metricsVerb(t), healthVerb(t), waitVerb(t),
		}},
		{"Command services", []*cobra.Command{startVerb(t), stopVerb(t), restartVerb(t), signalVerb(t), operationsVerb(t), cancelVerb(t)}},
		{"Profiles and jobs", []*cobra.Command{profileVerb(t), runCommandVerb(t), jobVerb(t), sessionVerb(t), fileVerb(t), hooksVerb(t), execVerb(t)}},
		{"Changes", []*cobra.Command{reloadVerb(t), checkVerb(t), planVerb(t), applyVerb(t), revisionsVerb(t), rollbackVerb(t), driftVerb(t), schemaVerb(t)}},
		{"The container", []*cobra.Command{
			initVerb(), tryVerb(t), shutdownVerb(t), doctorVerb(t), capabilitiesVerb(t), journalVerb(t), installCompatVerb(t), versionVerb(t), completionVerb(t),
		}},
	})
	root.AddCommand(tryGatewayVerb())
	inGroups(root, []verbGroup{{"Programs beside", besideVerbs(root)}})
	root.SetHelpCommand(helpVerb(t))
	for _, verb := range root.Commands() {
		tidy(verb)
	}
	return root
}

// verbGroup is a heading of the help, with its verbs.
type verbGroup struct {
	title string
	verbs []*cobra.Command
}

// inGroups gives a command its verbs, which help shows by group.
func inGroups(cmd *cobra.Command, groups []verbGroup) {
	for _, g := range groups {
		cmd.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, verb := range g.verbs {
			verb.GroupID = g.title
		}
		cmd.AddCommand(g.verbs...)
	}
}

// tidy sets on a verb and its own verbs what cobra wants on each.
func tidy(verb *cobra.Command) {
	verb.DisableFlagsInUseLine = true
	verb.Flags().SortFlags = false
	for _, sub := range verb.Commands() {
		tidy(sub)
	}
}

// elsewhere are verbs that other programs have, and what to do here instead.
var elsewhere = map[string]string{
	"install":   "rlminit is a part of the image; copy the binary into it, or install its .deb or .apk there, and make rlminit init -- the ENTRYPOINT (rlminit install-compat makes links for other names)",
	"uninstall": "rlminit is a part of the image; build one without it and with another ENTRYPOINT. The volume keeps what was recorded in .rlminit",
	"ps":        "rlminit status lists services, and rlminit profile list profiles", "ls": "rlminit status lists services, and rlminit profile list profiles",
	"list": "rlminit status lists services, and rlminit profile list profiles", "get": "rlminit status lists services, and rlminit show NAME shows one",
	"rm": "rlminit profile delete NAME deletes a profile", "remove": "rlminit profile delete NAME deletes a profile", "delete": "rlminit profile delete NAME deletes a profile",
	"add": "rlminit profile create NAME makes a profile", "create": "rlminit profile create NAME makes a profile",
	"edit": "rlminit profile edit NAME edits a profile", "set": "rlminit profile set NAME KEY=VALUE sets variables of a profile",
	"describe": "rlminit show NAME shows everything about a service", "inspect": "rlminit show NAME shows everything about a service", "info": "rlminit show NAME shows everything about a service",
	"tail": "rlminit logs -f NAME follows a log", "log": "rlminit logs NAME shows a log", "attach": "rlminit logs -f NAME follows a log",
	"kill": "rlminit signal KILL NAME sends a signal, and rlminit stop NAME stops a service for good",
	"up":   "rlminit start --all starts all services", "down": "rlminit stop --all stops all services",
	"enable": "write enabled: true in the configuration, and rlminit reload", "disable": "write enabled: false in the configuration, and rlminit reload; rlminit stop NAME stops a service until somebody starts it",
	"secret": "rlminit profile secret list NAME lists secrets, and rlminit profile set NAME --secret KEY=FILE sets one",
	"diff":   "rlminit plan -f FILE shows what a declared set would change, and rlminit drift what was changed by hand",
	"halt":   "rlminit shutdown stops the container", "poweroff": "rlminit shutdown stops the container", "reboot": "rlminit shutdown stops the container; the engine starts it again",
	"session snapshot": "a session has no snapshots; rlminit file read copies a file of it, and rlminit profile export all of a profile",
}

// unknownVerb says that there is no such verb, and which was likely meant.
func unknownVerb(cmd *cobra.Command, written string) error {
	var known []string
	for _, verb := range cmd.Commands() {
		if !verb.Hidden {
			known = append(known, verb.Name())
		}
	}
	if shorts[written] != "" && !cmd.HasParent() {
		return notBeside(written)
	}
	if instead := elsewhere[strings.TrimPrefix(verbOf(cmd)+" "+written, " ")]; instead != "" {
		return &control.Problem{Detail: fmt.Sprintf("no verb %q: %s", written, instead), ExitCode: control.ExitUsage}
	}
	what := fmt.Sprintf("no verb %q", written)
	if cmd.HasParent() {
		what = fmt.Sprintf("no verb %q of %s", written, cmd.Name())
	}
	if near := nearest.Name(written, known); near != "" {
		what += fmt.Sprintf("; did you mean %q?", near)
		return &control.Problem{Detail: what, ExitCode: control.ExitUsage}
	}
	return misused(cmd, "%s", what)
}

// flagFault words what pflag complains of.
func flagFault(err error) string {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		dashes := "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		return "no flag " + dashes + unknown.GetSpecifiedName()
	}
	var lacking *pflag.ValueRequiredError
	if errors.As(err, &lacking) {
		return "--" + lacking.GetFlag().Name + " needs a value"
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return fmt.Sprintf("--%s: %q: %s", invalid.GetFlag().Name, invalid.GetValue(), remedy(invalid))
	}
	return err.Error()
}

// remedy names a flag's values.
func remedy(invalid *pflag.InvalidValueError) string {
	switch invalid.GetFlag().Value.Type() {
	case "int":
		return "write a whole number"
	case "bool":
		return "write true or false"
	}
	return fmt.Sprint(errors.Unwrap(invalid))
}

// exactly wants one argument for each name, in the order of their places.
func exactly(names ...string) cobra.PositionalArgs { return between(len(names), len(names), names...) }

// atLeast wants one argument for each name, and allows more.
func atLeast(names ...string) cobra.PositionalArgs { return between(len(names), math.MaxInt, names...) }

// between wants so many arguments; the first have names.
func between(least, most int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return misused(cmd, "%s is missing", names[len(args)])
		case len(args) > most:
			return misused(cmd, "unexpected argument %q", args[most])
		}
		return nil
	}
}

// printJSON writes a value for programs.
func (t *terminal) printJSON(v any) error {
	if t.format == formatYAML || t.format == formatName {
		return t.printAs(v)
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot write the answer as JSON: %w", err)
	}
	t.printf("%s\n", document.Harmless(b))
	return nil
}
