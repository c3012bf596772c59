package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/journal"
	"rlminit/service"
)

func eventsVerb(t *terminal) *cobra.Command {
	var follow bool
	var flags journalFlags
	var lines string
	cmd := &cobra.Command{
		Use:   "events [-f] [NAME…]",
		Short: "show what happened, over restarts of the container too",
		Long: `Shows what is in the journal, also of earlier starts of the container: every
transition of a service with its cause, and every command with its target and
the uid that gave it. With -f it also shows new records as they come. NAME is a
service or a profile; a name that nothing has, or had in that time, is an error.
Records are shown in words. TYPE is transition, operation, profile_created,
boot_begun and so on: --json shows the type of each record.

If no rlminit answers, root can still use this verb: it then reads the journal's
files.`,
		Example: `  rlminit events -f
  rlminit events -n 20 alice
  rlminit events alice --since 2h --type transition
  rlminit events --json --type operation | jq '{at, verb, services, actor}'
  rlminit events --json | jq 'select(.to == "failed")'`,
		ValidArgsFunction: completeServices,
		RunE: func(cmd *cobra.Command, names []string) error {
			wanted, err := flags.query(cmd, t, names)
			if err != nil {
				return err
			}
			q := control.EventQuery{Since: wanted.Since, Until: wanted.Until, Types: wanted.Types, Names: names, Follow: follow}
			n, err := newestLines(cmd, lines)
			if err != nil {
				return err
			}
			if n >= 0 {
				q.Last = &n
			}
			shown := 0
			each := func(e control.Event) error {
				if shown++; t.json {
					t.printf("%s\n", document.Harmless(e.Raw))
				} else {
					t.printf("%s\n", eventLine(t, e))
				}
				return t.out.failed
			}
			client := t.open()
			err = showEvents(cmd, client, q, each)
			if err == nil && shown == 0 && !follow {
				return unheardOf(cmd, client, names)
			}
			if exitCodeOf(err) == control.ExitNoAnswer && t.out.failed == nil && offlineEvents(cmd, q, each) == nil {
				return nil
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens, until interrupted")
	cmd.Flags().StringVarP(&lines, "lines", "n", "all", "of what happened, the last `N` records, or all (default: all)")
	forPrograms(t, cmd, "write JSON, one object a line")
	flags.add(cmd)
	return cmd
}

// unheardOf is the problem of a name that neither the journal has nor any
// service or profile has: it is not the one that was meant.
func unheardOf(cmd *cobra.Command, client *control.Client, names []string) error {
	for _, name := range names {
		if _, err := client.Service(cmd.Context(), name); exitCodeOf(err) == control.ExitNoSuchName {
			return err
		}
	}
	return nil
}

// offlineEvents reads the journal's files, where nobody answers.
func offlineEvents(cmd *cobra.Command, q control.EventQuery, each func(control.Event) error) error {
	o, err := openJournal(nil)
	if err != nil {
		return err
	}
	defer o.Close()
	ctx, cancel := untilInterrupted(cmd.Context())
	defer cancel()
	names := slices.Clone(q.Names)
	for _, name := range q.Names {
		names = append(names, service.GatewayPrefix+name)
	}
	wanted := journal.Query{Since: q.Since, Until: q.Until, Types: q.Types, Names: names, Last: q.Last, Follow: q.Follow}
	return o.Read(ctx, wanted, func(r journal.Record) error {
		var e control.Event
		if err := r.Decode(&e); err != nil {
			return err
		}
		e.Raw = r.Line
		return each(e)
	})
}

// showEvents prints the events. A reader that follows them is cut off when the
// supervisor is replaced, or when too slow, and goes on where that was: an
// event that was seen is known by its number and time.
func showEvents(cmd *cobra.Command, client *control.Client, q control.EventQuery, each func(control.Event) error) error {
	ctx, cancel := untilInterrupted(cmd.Context())
	defer cancel()
	seen := map[uint64]time.Time{}
	first := time.Now() // from when on nothing is to be missed
	fresh := func(e control.Event) error {
		if at, ok := seen[e.Seq]; ok && at.Equal(e.At) {
			return nil
		}
		if len(seen) > rememberedEvents {
			clear(seen)
		}
		seen[e.Seq] = e.At
		if q.Last != nil && e.At.Before(first) {
			first = e.At
		}
		return each(e)
	}
	for {
		err := client.Events(ctx, q, fresh)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, control.ErrCut):
			return err
		case err != nil && !q.Follow:
			return control.NoAnswer("cannot read the events to their end: the supervisor was replaced; ask again")
		case !q.Follow:
			return nil
		}
		if q.Last != nil {
			q.Last, q.Since = nil, first
		}
		if !pauseBefore(ctx) {
			return nil
		}
	}
}

// rememberedEvents are those that are known when they come again.
const rememberedEvents = 100_000

// eventTime is when it was, as people are shown it.
func eventTime(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// eventLine is one transition: `2026-05-24T18:05:33.123Z alice: starting →
// running: ready (pid 42)`.
func eventLine(t *terminal, e control.Event) string {
	var b strings.Builder
	at := t.paint(faint, eventTime(e.At))
	if e.Type != "" && e.Type != journal.TypeTransition {
		return at + " " + recordLine(e)
	}
	fmt.Fprintf(&b, "%s %s: ", at, printable(shortService(e.Service)))
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
