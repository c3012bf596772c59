package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
)

// whyLines is the number of lines of a log that why shows.
const whyLines = 5

// reasoned is a service's verdict with its grounds, as why prints it.
type reasoned struct {
	Name       string        `json:"name"`
	Profile    *string       `json:"profile"`
	Verdict    string        `json:"verdict"`
	ReasonCode string        `json:"reason_code"`
	Reason     *string       `json:"reason"`
	Refused    string        `json:"refused,omitempty"`
	Flapping   bool          `json:"flapping"`
	State      string        `json:"state"`
	Desired    string        `json:"desired"`
	Since      *time.Time    `json:"since"`
	Restarts   int           `json:"restarts"`
	LastExit   *control.Exit `json:"last_exit"`
	LastLines  []string      `json:"last_lines"`
	Remedies   []string      `json:"remedies"`

	service control.Service
}

func whyVerb(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why [NAME…]",
		Short: "show why a service is not well, and what can be done",
		Long: `Shows a service's verdict with its grounds: the reason, since when it is so, its
restarts, how it ended last, the last lines of its log, and the commands that
help. Without a name it shows each service that is ill, or restarts again and
again, and how many are well. Secrets in the lines are shown as ***.`,
		Example: `  rlminit why
  rlminit why alice
  rlminit why --json`,
		ValidArgsFunction: completeServices,
		RunE: t.asking(func(cmd *cobra.Command, names []string, client *control.Client) error {
			names = once(names)
			services, err := fetch(cmd.Context(), t, client, names)
			if services == nil && err != nil {
				return err
			}
			counts := countedServices(services)
			if len(names) == 0 {
				services = slices.DeleteFunc(services, func(s control.Service) bool { return s.Verdict != "ill" && !s.Flapping })
				slices.SortStableFunc(services, func(a, b control.Service) int { return a.Attention() - b.Attention() })
			}
			all := []reasoned{}
			for _, s := range services {
				all = append(all, reasons(cmd.Context(), client, s))
			}
			shown := answer(t, all, func() {
				for _, r := range all {
					r.show(t)
				}
				if len(names) == 0 {
					t.printf("%s\n", counts)
				}
			})
			if shown != nil {
				return shown
			}
			return err
		}),
	}
	return formatted(t, forPrograms(t, cmd, "write a JSON array"))
}

// reasons are the grounds of a service's verdict. A log that cannot be read has no lines.
func reasons(ctx context.Context, client *control.Client, s control.Service) reasoned {
	r := reasoned{
		Name: s.Name, Profile: s.Profile, Verdict: s.Verdict, ReasonCode: s.ReasonCode, Reason: s.Reason, Refused: s.Refused,
		Flapping: s.Flapping, State: s.State, Desired: s.Desired, Since: s.Since, Restarts: s.Restarts, LastExit: s.LastExit,
		LastLines: []string{}, Remedies: remedies(s), service: s,
	}
	_ = client.Logs(ctx, s.Name, control.LogOptions{Lines: whyLines, Redacted: true}, func(line []byte) error {
		r.LastLines = append(r.LastLines, printable(string(line)))
		return nil
	})
	return r
}

// remedies are the commands that help a service with that verdict, in their order.
func remedies(s control.Service) []string {
	name := shortName(s)
	again := "rlminit restart " + name
	if s.State == "failed" || s.State == "exited" || s.State == "stopped" || s.State == "backoff" {
		again = "rlminit start " + name
	}
	logs := "rlminit logs " + name
	switch s.ReasonCode {
	case "definition_refused":
		return []string{mend(s), "rlminit reload " + name, "rlminit start " + name}
	case "failed", "backoff_failed", "exited_failed", "scheduled_failed":
		return []string{logs, again}
	case "unhealthy":
		return []string{logs, "rlminit show " + name, again}
	case "waiting", "waiting_ill", "waiting_off":
		return []string{"rlminit list-dependencies " + name, "rlminit why"}
	case "stopped", "at_rest", "scheduled":
		return []string{"rlminit start " + name}
	case "disabled":
		return []string{"rlminit show " + name}
	}
	switch {
	case s.Refused != "":
		return []string{mend(s), "rlminit reload " + name}
	case s.Flapping:
		return []string{logs, "rlminit events " + name}
	case s.Outdated:
		return []string{again}
	}
	return []string{}
}

// mend is the command that corrects a refused definition.
func mend(s control.Service) string {
	if s.Profile != nil {
		return "rlminit profile edit " + *s.Profile
	}
	return "rlminit check"
}

var verdictColours = map[string]string{"ill": red, "pending": yellow, "ok": green, "off": faint}

// show prints one for people.
func (r reasoned) show(t *terminal) {
	s := r.service
	verdict := r.Verdict
	if r.Flapping {
		verdict += ", and restarts again and again"
	}
	state := s.Seen()
	if r.Since != nil {
		state = fmt.Sprintf("%s since %s (%s)", state, localTime(*r.Since), uptime(sinceS(t, *r.Since)))
	}
	ended := ""
	if r.LastExit != nil {
		ended = exitText(*r.LastExit) + " at " + localTime(r.LastExit.At)
	}
	t.printf("%s is %s\n", t.paint(bold, shortName(s)), t.paint(verdictColours[r.Verdict], verdict))
	facts(t, 12, "  state", state, "  reason", r.Reason, "  refused", r.Refused, "  restarts", r.Restarts, "  last exit", ended)
	if len(r.LastLines) > 0 {
		t.printf("  last lines\n")
		for _, line := range r.LastLines {
			t.printf("    %s\n", line)
		}
	}
	if len(r.Remedies) > 0 {
		t.printf("  try\n    %s\n", strings.Join(r.Remedies, "\n    "))
	}
	t.printf("\n")
}

func sinceS(t *terminal, at time.Time) *float64 {
	s := t.now().Sub(at).Seconds()
	return &s
}
