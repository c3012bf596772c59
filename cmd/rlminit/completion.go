package main

import (
	"context"
	_ "embed"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rlminit/control"
)

// bashCompletion is our own: cobra's needs the functions of bash-completion, and
// few images have that.
//
//go:embed completion.bash
var bashCompletion string

// completionTime bounds what a shell waits for names.
const completionTime = time.Second

func completionVerb(t *terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "write a completion script for a shell",
		Long: `Writes a script that makes a shell complete verbs, flags, and the names of
services that exist at that moment. It needs nothing but the shell.`,
		Example: `  source <(rlminit completion bash)
  rlminit completion fish >~/.config/fish/completions/rlminit.fish`,
		Args:      exactly("SHELL"),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				t.printf("%s", bashCompletion)
				return nil
			case "zsh":
				return cmd.Root().GenZshCompletion(t.out)
			case "fish":
				return cmd.Root().GenFishCompletion(t.out, true)
			}
			return misused(cmd, "no script for %q; there are bash, zsh and fish", args[0])
		},
	}
}

// flagWords are the words that a flag takes, where they are few; those of one verb
// alone have its name in front.
var flagWords = map[string][]string{
	"level":        levelNames,
	"health level": {"alive", "well", "ready"},
	"type":         control.RecordTypes,
	"state":        control.States,
	"for":          {"running", "stopped"},
	"isolation":    {"strict", "profile", "none"},
}

// offerWords has the shell offer the words of a verb and its flags, and files only where
// they take some, since the shell offers files by default. It is for the shell's
// question alone, for it takes longer than many a verb.
func offerWords(verb *cobra.Command) {
	if verb.ValidArgsFunction == nil && verb.ValidArgs == nil && !takesFiles(verb.Use) {
		verb.ValidArgsFunction = cobra.NoFileCompletions
	}
	verb.LocalFlags().VisitAll(func(f *pflag.Flag) {
		value, _ := pflag.UnquoteUsage(f)
		offered := cobra.NoFileCompletions
		if words := flagWords[verb.Name()+" "+f.Name]; words != nil {
			offered = cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
		} else if f.Value.Type() == (format{}).Type() {
			offered = cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)
		} else if words := flagWords[f.Name]; words != nil {
			offered = cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
		} else if f.Name == "profile" {
			offered = completeProfiles
		}
		if !takesFiles(value) {
			verb.RegisterFlagCompletionFunc(f.Name, offered) // fails where the verb itself has done so
		}
	})
	for _, sub := range verb.Commands() {
		offerWords(sub)
	}
}

// takesFiles tells whether a usage names a file, or a command with files.
func takesFiles(usage string) bool {
	return slices.ContainsFunc([]string{"FILE", "DIR", "PLAN", "PATH", "CMD"}, func(name string) bool { return strings.Contains(usage, name) })
}

// offer has the shell offer those names of a set that are not named yet, or none behind
// the first where a verb takes but one. Without an answer in time none is offered.
func offer(one bool, names func(context.Context, *control.Client) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if one && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		unnamed := slices.DeleteFunc(names(ctx, control.Open()), func(name string) bool { return slices.Contains(args, name) })
		return unnamed, cobra.ShellCompDirectiveNoFileComp
	}
}

// The names that are offered: of profiles, services, hooks, and entries of the trash.
var (
	completeProfiles     = offer(true, profileNames)
	completeMoreProfiles = offer(false, profileNames)
	completeServices     = offer(false, serviceNames)
	completeTrash        = offer(true, trashNames)
	completeMoreTrash    = offer(false, trashNames)
	completeHooks        = offer(true, hookNames)
)

func profileNames(ctx context.Context, client *control.Client) (names []string) {
	profiles, _ := client.Profiles(ctx)
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return names
}

func serviceNames(ctx context.Context, client *control.Client) (names []string) {
	services, _ := client.Services(ctx)
	for _, s := range services {
		names = append(names, shortName(s))
	}
	return names
}

func hookNames(ctx context.Context, client *control.Client) (names []string) {
	list, _ := control.Hooks{Client: client}.List(ctx)
	for _, h := range list {
		names = append(names, h.Name)
	}
	return names
}

func trashNames(ctx context.Context, client *control.Client) (names []string) {
	list, _ := client.Trash().List(ctx)
	for _, e := range list {
		names = append(names, e.Entry)
	}
	return names
}
