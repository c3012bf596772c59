package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func operationsVerb(t *terminal) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "operations [ID]",
		Short: "show operations on services, and their outcomes",
		Long: `Shows the operations that are under way and the latest that are over, also those
of earlier starts of the container: id, verb, state and requester. With ID it
shows each member of the operation, and what a waiting member waits for. With -f
it waits until the operation is over, and shows progress on a terminal; ^C ends
only the watching. An operation that was under way when the container ended or
the supervisor was replaced is interrupted.`,
		Example: `  rlminit operations
  rlminit operations 12 -f`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return misused(cmd, "more than one ID")
			}
			client := t.open()
			if len(args) == 0 {
				if follow {
					return misused(cmd, "-f goes with an ID")
				}
				return listOperations(cmd.Context(), t, client)
			}
			id, err := operationID(cmd, args[0])
			if err != nil {
				return err
			}
			o, err := client.Operation(cmd.Context(), id, false)
			if err != nil {
				return err
			}
			if follow {
				if o, err = untilOver(cmd.Context(), t, client, o, nil); err != nil {
					return err
				}
			}
			return answer(t, o, func() {
				t.printf("%s\n", operationLine(o))
				for _, m := range o.Members {
					t.printf("  %s\n", memberLine(t, m))
				}
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait until it is over")
	return formatted(t, forPrograms(t, cmd, "write JSON"))
}

func listOperations(ctx context.Context, t *terminal, client *control.Client) error {
	list, err := client.Operations(ctx)
	if err != nil {
		return err
	}
	return answer(t, list, func() {
		for _, o := range list {
			t.printf("%s\n", operationLine(o))
		}
	})
}

func cancelVerb(t *terminal) *cobra.Command {
	return forPrograms(t, &cobra.Command{
		Use:   "cancel ID",
		Short: "end an operation before it is done",
		Long: `Ends an operation. What has begun goes on to its end; a restart that still waits
for its turn is dropped, and a rolling operation takes no further member. For
members that it has begun the recorded intent stays; of members that a rolling
operation has not come to nothing is recorded, and the answer has them as
cancelled. Exit code 17 if the operation is over, 4 if there is none with that id.`,
		Example: `  rlminit cancel 12`,
		Args:    exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := operationID(cmd, args[0])
			if err != nil {
				return err
			}
			client := t.open()
			o, err := client.Cancel(cmd.Context(), id)
			if err != nil {
				return err
			}
			return answer(t, o, func() { t.printf("%s\n", operationLine(o)) })
		},
	}, "write the operation, a JSON object")
}

func operationID(cmd *cobra.Command, text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, misused(cmd, "%q is no id of an operation; write its number", text)
	}
	return id, nil
}

// followOperation waits until an operation is over, and prints a line for each member
// that is; as JSON the operation, in the end.
func followOperation(ctx context.Context, t *terminal, client *control.Client, o control.Operation) error {
	told := map[string]bool{}
	each := func(o control.Operation) {
		for _, m := range o.Members {
			over := m.State != "pending" && m.State != "running"
			if over && !told[m.Name] {
				told[m.Name] = true
				t.printf("%s\n", memberLine(t, m))
			}
		}
	}
	if t.json {
		each = nil
	}
	o, err := untilOver(ctx, t, client, o, each)
	if err != nil {
		return err
	}
	problem := o.Problem()
	switch {
	case t.json:
		err = t.printJSON(o)
	case len(o.Members) == 0 && problem == nil:
		t.printf("nothing to %s\n", o.Verb)
	}
	if problem != nil {
		return problem
	}
	return err
}

// namedMembers is how many members of an operation its line names.
const namedMembers = 3

// membersNamed is `: alice, bob, carol and 37 more`.
func membersNamed(o control.Operation) string {
	var names []string
	for _, m := range o.Members[:min(namedMembers, len(o.Members))] {
		names = append(names, printable(shortService(m.Name)))
	}
	text := strings.Join(names, ", ")
	if more := len(o.Members) + o.Omitted - len(names); more > 0 && text != "" {
		text += fmt.Sprintf(" and %d more", more)
	}
	if text != "" {
		text = ": " + text
	}
	return text
}

// operationLine is `12 restart: running, 3 of 40 done: alice, bob, carol and 37 more (uid 0)`.
func operationLine(o control.Operation) string {
	done := 0
	for _, m := range o.Members {
		if m.State == "done" {
			done++
		}
	}
	of := fmt.Sprintf("%d of %d done", done, len(o.Members))
	if o.Omitted > 0 {
		of = fmt.Sprintf("%d members", len(o.Members)+o.Omitted)
	}
	line := fmt.Sprintf("%d %s: %s, %s%s (%s, %s)", o.ID, printable(o.Verb), o.State, of, membersNamed(o), actorText(o.Actor), o.At.UTC().Format("2006-01-02T15:04:05Z"))
	if o.Reason != "" {
		line += ": " + printable(o.Reason)
	}
	return line
}

// actorText is `uid 0, pid 77`.
func actorText(by control.Actor) string {
	text := fmt.Sprintf("uid %d", by.UID)
	if by.PID > 0 {
		text += fmt.Sprintf(", pid %d", by.PID)
	}
	return text
}

// memberLine is `alice: done (pid 42, was 17)`.
func memberLine(_ *terminal, m control.OperationMember) string {
	var pids []string
	if m.PID > 0 {
		pids = append(pids, "pid "+strconv.Itoa(m.PID))
	}
	if m.OldPID > 0 && m.OldPID != m.PID {
		pids = append(pids, "was "+strconv.Itoa(m.OldPID))
	}
	line := printable(m.Name) + ": " + m.State
	if len(pids) > 0 {
		line += " (" + strings.Join(pids, ", ") + ")"
	}
	if m.Reason != "" {
		line += ": " + printable(m.Reason)
	}
	return line
}
