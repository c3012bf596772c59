package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func helpVerb(t *terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB]",
		Short: "explain a verb",
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.Root()
			for _, name := range args {
				next := childNamed(at, name)
				if next == nil {
					return unknownVerb(at, name)
				}
				if at = next; at.Annotations[besideAt] != "" {
					return at.RunE(at, []string{"--help"})
				}
			}
			t.printf("%s", helpText(at))
			return nil
		},
	}
}

// childNamed returns a command's own verb of that name, or nil.
func childNamed(cmd *cobra.Command, name string) *cobra.Command {
	for _, verb := range cmd.Commands() {
		if verb.Name() == name {
			return verb
		}
	}
	return nil
}

// helpText is what `help VERB` and `VERB --help` print.
func helpText(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n", cmd.CommandPath(), cmd.Short)
	fmt.Fprintf(&b, "Usage: %s\n", usageLine(cmd))
	if cmd.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", cmd.Long)
	}
	verbLines(&b, cmd)
	if flags := flagLines(cmd); flags != "" {
		fmt.Fprintf(&b, "\nFlags:\n%s", flags)
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if !cmd.HasParent() {
		fmt.Fprintf(&b, "\nExit codes:\n%s", exitCodes)
	}
	return b.String()
}

// verbLines are the verbs of a command, by group where it has groups.
func verbLines(b *strings.Builder, cmd *cobra.Command) {
	verbs, width, heading := visible(cmd), 0, "Verbs"
	for _, verb := range verbs {
		width = max(width, len(verb.Name()))
	}
	for i, verb := range verbs {
		if verb.GroupID != "" {
			heading = verb.GroupID
		} else if len(cmd.Groups()) > 0 {
			heading = "Help"
		}
		if i == 0 || verb.GroupID != verbs[i-1].GroupID {
			fmt.Fprintf(b, "\n%s:\n", heading)
		}
		fmt.Fprintf(b, "  %-*s  %s\n", width, verb.Name(), verb.Short)
	}
}

const exitCodes = `  0  done, or so already        5  not permitted
  1  failed                     6  no rlminit answers
  2  usage                      7  timed out; apply: rolled back
  3  not running (status -q)    8  unhealthy; apply: rolled back
  4  no such name              17  exists already, or its state forbids it

Exit codes of plans:
  9  applied                   13  deletion is not allowed
 10  out of scope, or refused  14  changes are pending (plan, drift)
 11  not approved, or altered  15  the source is not clean
 12  rolled back in part       16  the plan is too old
                               17  its starting point has changed
`

// usageLine is a command's usage with the path in front.
func usageLine(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return "rlminit VERB …"
	}
	if cmd.HasSubCommands() && !strings.Contains(cmd.Use, " ") { // else it is of use by itself
		return cmd.CommandPath() + " VERB …"
	}
	return cmd.UseLine()
}

// visible returns the verbs that help speaks of, in the order that they
// were added.
func visible(cmd *cobra.Command) []*cobra.Command {
	var verbs []*cobra.Command
	for _, verb := range cmd.Commands() {
		if !verb.Hidden {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

// flagLines lists the flags of a command, but for --help, which all have.
func flagLines(cmd *cobra.Command) string {
	type line struct{ flag, usage string }
	var lines []line
	width := 0
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		flag := "    --" + f.Name
		if f.Shorthand != "" {
			flag = "-" + f.Shorthand + ", --" + f.Name
		}
		switch {
		case name == "", f.Value.Type() == "count":
		case f.NoOptDefVal == "":
			flag += " " + name
		default:
			flag += "[=" + name + "]"
		}
		width = max(width, len([]rune(flag)))
		lines = append(lines, line{flag, usage})
	})
	var b strings.Builder
	for _, l := range lines {
		pad := strings.Repeat(" ", width-len([]rune(l.flag)))
		fmt.Fprintf(&b, "  %s%s  %s\n", l.flag, pad, l.usage)
	}
	return b.String()
}
