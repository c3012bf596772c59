package main

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/analyze"
	"rlminit/control"
	"rlminit/doctor"
)

// doctorTime is how long the supervisor may take to answer before the place is
// examined without it.
const doctorTime = 5 * time.Second

func doctorVerb(t *terminal) *cobra.Command {
	return formatted(t, forPrograms(t, &cobra.Command{
		Use:   "doctor",
		Short: "examine this container and suggest remedies",
		Long: `Examines the kernel, PID 1 and its privileges, cgroup and limits, the runtime
directory, the volume, the clock, the last boot, ports, and the services. It
changes nothing, and says for each problem what to do. It also works if no
supervisor answers. The exit code is 1 if a check fails, and 0 if there are only
warnings.

With --json each finding is an object with check (what was examined), state (ok,
warn, fail or unknown), what (the finding, and what it means) and remedy (what
to do; empty if there is nothing to do).`,
		Example: `  rlminit doctor
  rlminit doctor --json | jq '.[] | select(.state != "ok")'`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings := examine(cmd.Context())
			if err := answer(t, findings, func() { showFindings(t, findings) }); err != nil {
				return err
			}
			if doctor.Worst(findings) == doctor.Fail {
				return exitStatus(control.ExitFailed)
			}
			return nil
		},
	}, "write a JSON array"))
}

// examine asks the supervisor what there is, and looks at the place.
func examine(ctx context.Context) []doctor.Finding {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	client := control.Open()
	place := doctor.Place{Home: cmp.Or(os.Getenv("RLMINIT_HOME"), "/data"), Runtime: client.RuntimeDir()}
	var silent *doctor.Finding
	services, err := client.Services(ctx)
	if err == nil {
		place.Services = examined(services)
		askMore(ctx, client, &place)
	}
	if err != nil {
		silent = &doctor.Finding{Check: "supervisor", State: doctor.Fail, What: err.Error(), Remedy: asOther(err)}
	}
	findings := doctor.Examine(place)
	if silent != nil {
		return append([]doctor.Finding{*silent}, findings...)
	}
	return append([]doctor.Finding{{Check: "supervisor", State: doctor.OK, What: "the supervisor answers"}}, findings...)
}

// askMore asks a supervisor that answers for what else it knows of the place.
func askMore(ctx context.Context, client *control.Client, place *doctor.Place) {
	if health, err := client.Health(ctx, "ready", nil); err == nil {
		place.Missing, place.Walls, place.Unsent = health.Missing, health.Walls, health.Unsent
	}
	place.Jobs = latestJobs(ctx, client)
	if c, err := checkConfig(configPath()); err == nil { // a faulty one is said by reload
		place.Cautions = c.Cautions()
	}
	if _, steps, err := lastBoot(ctx, client); err == nil {
		for _, s := range analyze.Steps(steps) {
			place.Steps = append(place.Steps, doctor.Step{Name: s.Step, Took: time.Duration(s.TookS * float64(time.Second))})
		}
	}
	if e, err := client.Environment(ctx, ""); err == nil {
		for _, entry := range e.Environment {
			if home, is := strings.CutPrefix(entry, "RLMINIT_HOME="); is {
				place.Home = home
			}
		}
	}
}

// latestJobs are the latest job of each hook and each schedule that is over.
func latestJobs(ctx context.Context, client *control.Client) (latest []doctor.Job) {
	all, err := client.Jobs(ctx)
	if err != nil {
		return nil // one that does not answer, which is said
	}
	newest := map[string]control.Job{}
	for _, j := range all {
		if j.Ended == nil || j.Kind != "hook" && j.Kind != "schedule" {
			continue
		}
		of := j.Kind + " " + strings.Join(j.Command, " ")
		if j.Kind == "schedule" {
			of = j.Kind + " " + cmp.Or(deref(j.Profile), deref(j.Service))
		}
		if was, seen := newest[of]; !seen || was.Submitted.Before(j.Submitted) {
			newest[of] = j
		}
	}
	for _, of := range slices.Sorted(maps.Keys(newest)) {
		j := doctor.Job{ID: newest[of].Job, Of: of}
		switch newest[of].State {
		case "failed", "timed_out", "refused":
			j.Failed = strings.ReplaceAll(newest[of].State, "_", " ")
			if whole, err := client.Job(ctx, j.ID); err == nil && whole.Result != nil {
				j.Failed = whole.Result.Why()
			}
		}
		latest = append(latest, j)
	}
	return latest
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// asOther is what to do where the supervisor cannot be asked: of one that is there,
// and does not answer this user, its log has nothing.
func asOther(err error) string {
	if exitCodeOf(err) == control.ExitNotPermitted {
		return "run it by docker exec without -u, or as the user that services run as"
	}
	return "docker logs CONTAINER has what rlminit says of itself"
}

func examined(services []control.Service) []doctor.Service {
	var all []doctor.Service
	for _, s := range services {
		d := doctor.Service{
			Name: shortName(s), State: s.State, Verdict: s.Verdict, Code: s.ReasonCode, Flapping: s.Flapping,
			Refused: s.Refused, Restarts: s.Restarts, Reason: remark(s),
		}
		if s.Port != nil {
			d.Port = *s.Port
		}
		all = append(all, d)
	}
	return all
}

// showFindings prints them as lines, the remedy below the fault.
func showFindings(t *terminal, findings []doctor.Finding) {
	colours := map[string]string{doctor.OK: green, doctor.Warn: yellow, doctor.Fail: red, doctor.Unknown: faint}
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Check))
	}
	for _, f := range findings {
		t.printf("%s%*s%-*s  %s\n", t.paint(colours[f.State], f.State), 9-len(f.State), "", width, f.Check, printable(f.What))
		if f.Remedy != "" {
			t.printf("%*s%s\n", 9+width+2, "", t.paint(bold, "→ "+f.Remedy))
		}
	}
}
