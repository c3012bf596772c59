package serve

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"rlminit/control"
	"rlminit/isolate"
	"rlminit/journal"
	"rlminit/metrics"
	"rlminit/service"
	"rlminit/supervise/api"
	"rlminit/supervise/machine"
	"rlminit/supervise/verdict"
)

// Ready tells whether the services of the names, or all, are as desired: each has the
// verdict ok, or off if it was not named. With well, it is enough that none is ill. Without
// names the box's own reasons count too: a boot that goes on, a volume that is another
// container's or cannot be read, a profile whose name a service has.
func (s *Backend) Ready(names []string, well bool) (health control.Health, err error) {
	health.Reasons = []string{}
	var named []*View
	for _, name := range names {
		u, err := s.LookUp(name)
		if err != nil {
			return health, err
		}
		named = append(named, u)
	}
	if len(names) == 0 {
		for _, why := range []string{s.without(), s.Registry.Trouble(), s.Registry.Away()} {
			if why != "" {
				health.Missing = why
				health.Reasons = append(health.Reasons, why)
			}
		}
	}
	s.loop.Read(func(now Services) {
		units := slices.Values(named)
		if len(named) == 0 {
			units = now.All()
			for u := range units {
				if u.Shadowed {
					health.Missing = strings.TrimPrefix(health.Missing+"; "+u.Fault, "; ")
					health.Reasons = append(health.Reasons, u.Fault)
				}
			}
		}
		if !now.Core().Booted() {
			health.Reasons = append(health.Reasons, "rlminit is still starting")
		}
		for u := range units {
			if why := u.missing(len(named) > 0); why != "" && (!well || u.Verdict == verdict.Ill) {
				health.Reasons = append(health.Reasons, u.Title+": "+why)
			}
		}
	})
	health.OK = len(health.Reasons) == 0
	return health, nil
}

// Lacking are the walls between services that the configuration asks for and that cannot
// be had in this place, and where logs cannot be sent on to now, each with the reason.
func (s *Backend) Lacking() (lost, unsent []string) {
	started, _ := s.Settings.Started()
	if why := s.Policy.Profiles.Why; s.Policy.Profiles.Low == 0 && started.Gateway != nil && started.Gateway.OwnUsers() {
		lost = append(lost, "user: auto is not in force, and all profiles have one user: "+why)
	}
	able, without := isolate.Capable(), map[isolate.Level]int{}
	s.loop.Read(func(now Services) {
		for u := range now.All() {
			without[u.Definition.Isolation.Level]++
		}
	})
	for _, level := range slices.Sorted(maps.Keys(without)) {
		if why := able.Lack(level); why != "" {
			lost = append(lost, fmt.Sprintf("isolation: %s is not in force in full, for %d services: %s", level, without[level], why))
		}
	}
	return lost, s.Log.Unsent()
}

// missing says why a service is not ready; "" if it is: its verdict is ok, or it is off and
// was not asked for by name.
func (u *View) missing(named bool) string {
	switch {
	case u.Verdict == verdict.OK, u.Verdict == verdict.Off && !named:
		return ""
	case u.Code == verdict.DefinitionRefused:
		return u.Fault
	}
	return u.Condition()
}

// addDescriptions adds the requests that tell what services are made of.
func (s *Backend) addDescriptions(server *api.Server) {
	server.Handle("GET /v1/services/{name}/definition", api.MaySee, api.Named("name", s.describe))
	server.Handle("GET /v1/metrics", api.MayStatus, func(*http.Request) (any, error) { return s.counts(), nil })
	server.Handle("GET /v1/dependencies", api.MaySee, func(*http.Request) (any, error) { return s.dependencies(), nil })
}

// describe is a service's definition in force, without its secrets.
func (s *Backend) describe(name string) (answer control.Definition, err error) {
	u, err := s.LookUp(name)
	if err != nil {
		return answer, err
	}
	edges := control.NoEdges()
	s.wakeAll()
	s.loop.Read(func(now Services) {
		u = now.Again(u)
		answer.Stored = s.Stored(u.Life.Node())
		for other := range now.All() {
			edges.Add(u.Name, other.Name, other.Definition.Requires, other.Definition.Wants, other.Definition.After)
		}
	})
	d := u.Definition
	answer.Fault = u.Fault
	answer.Service, answer.Profile, answer.Edges = d.Name, d.Profile, edges
	answer.Fields = service.Flatten(d.Shown(s.secretsOf(u)))
	answer.NotInForce = s.notInForce(d.Limits)
	answer.Files = []control.DefinitionFile{}
	for _, o := range s.Settings.Origins(d) {
		answer.Files = append(answer.Files, control.DefinitionFile{File: o.File, Sum: o.Sum, First: int(o.Lines.First), Last: int(o.Lines.Last)})
	}
	return answer, nil
}

// notInForce are the limits of a service that nothing holds it to here, by field, and why.
func (s *Backend) notInForce(l service.Limits) map[string]string {
	none := map[string]string{}
	for limit, set := range map[string]bool{"memory": l.Memory > 0, "pids": l.Pids > 0, "cpu": l.CPU > 0} {
		if why := s.Leaves.Why(limit); set && why != "" {
			none["limits."+limit] = why
		}
	}
	return none
}

// wakeAll wakes every profile at rest: what refers to what, only a compiled definition tells.
func (s *Backend) wakeAll() {
	s.Registry.AtRest.Wake(func(string, string) bool { return true })
}

// dependencies is what each service comes after, by name.
func (s *Backend) dependencies() []control.Dependencies {
	list := []control.Dependencies{}
	s.wakeAll()
	s.loop.Read(func(now Services) {
		for u := range now.All() {
			d := u.Definition
			list = append(list, control.Dependencies{
				Service: u.Name, Profile: d.Profile, State: u.Status().State,
				Requires: append([]string{}, d.Requires...), Wants: append([]string{}, d.Wants...), After: append([]string{}, d.After...),
			})
		}
	})
	return list
}

// counts is what was counted of the journal and of those services that have
// written or were asked. It costs nothing before it is asked for, and then no
// file and no system call.
func (s *Backend) counts() control.Counts {
	answer := control.Counts{Services: []control.ServiceCounts{}}
	if j := s.Journal(); j != nil {
		n := j.Stats()
		answer.Journal = &control.JournalCounts{
			Records: n.Records, Bytes: n.Bytes, Syncs: n.Syncs, SyncS: n.SyncTime.Seconds(),
			Refused: n.Refused, Dropped: n.Dropped, Segments: n.Segments, SegmentBytes: n.Segment,
		}
	}
	if s.Jobs.runner != nil {
		answer.Jobs = s.Jobs.runner.Tally.Counts()
	}
	s.loop.Read(func(now Services) {
		for u := range now.All() {
			of := control.ServiceCounts{Service: u.Name, Ready: s.Counts(u.Life.Node(), machine.ProbeReady), Health: s.Counts(u.Life.Node(), machine.ProbeHealth)}
			of.LogBytes = u.Written.Bytes
			if of != (control.ServiceCounts{Service: u.Name}) {
				answer.Services = append(answer.Services, of)
			}
		}
	})
	return answer
}

// ServeMetrics answers scrapes where the configuration says so. A listener that
// cannot be had is said, and nothing waits for it.
func (s *Backend) ServeMetrics() {
	started, _ := s.Settings.Started()
	at := started.Metrics
	if at.Network == "" {
		return
	}
	listener, err := net.Listen(at.Network, at.Address)
	if err != nil {
		slog.Error("cannot listen for scrapes of the metrics; choose another address for metrics.listen", "err", err)
		return
	}
	go func() {
		err := metrics.Serve(listener, func() (metrics.Snapshot, error) {
			services, err := metrics.Measure("/proc", s.Services(), true)
			return metrics.Snapshot{Version: s.Version, Services: services, Counts: s.counts()}, err
		})
		slog.Error("the metrics are not served any more", "err", err)
	}()
}

// ReadEvents hands what happened to each: all that the journal has, of earlier
// boots too, or where there is none the transitions that we remember.
func (s *Backend) ReadEvents(ctx context.Context, q control.EventQuery, each func(line []byte) error, caughtUp func()) error {
	q.Names = slices.Clone(q.Names)
	for _, name := range q.Names { // records may spell a gateway by its profile or by its service
		q.Names = append(q.Names, service.GatewayPrefix+name)
	}
	j := s.Journal()
	if j == nil {
		return s.Events(ctx, q, each, caughtUp)
	}
	j.Flush(ctx)
	wanted := journal.Query{Since: q.Since, Until: q.Until, Types: q.Types, Names: q.Names, Last: q.Last, After: q.After, Follow: q.Follow, CaughtUp: caughtUp}
	return j.Read(ctx, wanted, func(r journal.Record) error { return each(r.Line) })
}
