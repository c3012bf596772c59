package view

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"rlminit/beside/page/live"
	"rlminit/control"
)

// jobsShown is how many jobs are shown, the latest first.
const jobsShown = 300

// jobBody is a job as it is shown, without what it has written: that may hold secrets.
type jobBody struct {
	control.Job
	Of      string // whose it is
	Service string // its service's page
	Words   string // its command
	Why     string
	Took    time.Duration
	Cancel  bool // it can be cancelled here
}

func jobOf(j control.Job) jobBody {
	b := jobBody{Job: j, Words: clean(strings.Join(j.Command, " "))}
	switch {
	case j.Profile != nil:
		b.Of, b.Service = *j.Profile, "gateway-"+*j.Profile
	case j.Service != nil:
		b.Of, b.Service = *j.Service, *j.Service
	}
	if j.Started != nil && j.Ended != nil {
		b.Took = j.Ended.Sub(*j.Started)
	}
	if r := j.Result; r != nil && j.State != "succeeded" {
		b.Why = clean(r.Why())
	}
	return b
}

// scheduled is one schedule.
type scheduled struct {
	Service string
	Label   string
	Name    string // of a command beside the service; "": the service itself
	control.Schedule
}

func schedulesOf(services []control.Service) (all []scheduled) {
	for _, s := range services {
		if s.Schedule != nil {
			all = append(all, scheduled{s.Name, label(s), "", *s.Schedule})
		}
		for _, name := range slices.Sorted(maps.Keys(s.Schedules)) {
			all = append(all, scheduled{s.Name, label(s), name, s.Schedules[name]})
		}
	}
	return all
}

type jobsBody struct {
	Schedules []scheduled
	Jobs      []jobBody
	More      int
}

// askJobs asks for jobs, and for services too if it is not known how they are.
func (p *Pages) askJobs(ctx context.Context, now *live.State) (b jobsBody, err error) {
	if now == nil {
		now = &live.State{}
		if now.Services, err = p.ask.Services(ctx); err != nil {
			return b, err
		}
	}
	all, err := live.Ask(ctx, p.ask, func(ctx context.Context, c *control.Client) ([]control.Job, error) { return c.Jobs(ctx) })
	if err != nil {
		return b, err
	}
	slices.SortStableFunc(all, func(a, c control.Job) int { return c.Submitted.Compare(a.Submitted) })
	b.More = max(0, len(all)-jobsShown)
	for _, j := range all[:min(len(all), jobsShown)] {
		one := jobOf(j)
		one.Cancel = p.allow >= Operate && j.Ended == nil && !strings.ContainsAny(j.Job, "/.")
		b.Jobs = append(b.Jobs, one)
	}
	b.Schedules = schedulesOf(now.Services)
	return b, nil
}
