package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func eventsVerb(t *terminal) *cobra.Command {
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "events [-f]",
		Short: "show the transitions of services",
		Long: `Shows every transition of a service that is still remembered, with its cause
and, where somebody asked for it, their uid; with -f also those to come.`,
		Example: `  rlminit events -f
  rlminit events --json | jq 'select(.to == "failed")'`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := t.open()
			if err != nil {
				return err
			}
			each := func(e control.Event) error {
				t.printf("%s\n", eventLine(t, e))
				return t.out.failed
			}
			if asJSON {
				each = func(e control.Event) error {
					b, err := json.Marshal(e)
					t.printf("%s\n", harmless(b))
					return cmp.Or(err, t.out.failed)
				}
			}
			return showEvents(cmd, t, client, follow, each)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens, until interrupted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON, one object a line")
	return cmd
}

// showEvents prints the events. One who follows them is cut off when the
// supervisor is replaced, or when too slow, and goes on where that was: an
// event that was seen is known by its number and time.
func showEvents(cmd *cobra.Command, t *terminal, client *control.Client, follow bool, each func(control.Event) error) error {
	ctx, cancel := untilInterrupted(cmd.Context())
	defer cancel()
	seen := map[uint64]time.Time{}
	fresh := func(e control.Event) error {
		if at, ok := seen[e.Seq]; ok && at.Equal(e.At) {
			return nil
		}
		if len(seen) > rememberedEvents {
			clear(seen)
		}
		seen[e.Seq] = e.At
		return each(e)
	}
	for {
		err := client.Events(ctx, follow, fresh)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, control.ErrCut):
			return err
		case err != nil && !follow:
			return control.NoAnswer("cannot read the events to their end: the supervisor was replaced; ask again")
		case !follow:
			return nil
		}
		if !pauseBefore(ctx) {
			return nil
		}
	}
}

// rememberedEvents is more than a supervisor keeps.
const rememberedEvents = 10000

// eventLine is one transition: `2026-05-24T18:05:33.123Z alice: starting →
// running: ready (pid 42)`.
func eventLine(t *terminal, e control.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: ", t.paint(faint, e.At.UTC().Format("2006-01-02T15:04:05.000Z")), printable(e.Service))
	switch {
	case e.From == e.To || e.From == "":
		b.WriteString(t.paint(stateColour(e.To), e.To))
	default:
		fmt.Fprintf(&b, "%s → %s", printable(e.From), t.paint(stateColour(e.To), e.To))
	}
	if e.Cause != "" {
		fmt.Fprintf(&b, ": %s", printable(e.Cause))
	}
	var facts []string
	if e.PID != nil && *e.PID > 0 {
		facts = append(facts, "pid "+strconv.Itoa(*e.PID))
	}
	if e.Actor != nil {
		facts = append(facts, fmt.Sprintf("by uid %d", *e.Actor))
	}
	if len(facts) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(facts, ", "))
	}
	return b.String()
}
