package move

import "time"

// stopTimeout is rlminit's default for the stop of the whole container.
const stopTimeout = 9 * time.Second

// Defaults takes back what rlminit does by default and no source does: that exit code 78
// ends a service for good, that 75 starts it again whatever its policy, and that the whole
// container is stopped within 9 s. usual is how long the source lets a service stop that
// does not say so.
func (p *Plan) Defaults(usual time.Duration) {
	for _, s := range p.Services {
		exits := s.Keys.Sub("exits")
		for _, class := range []string{"fatal", "restart"} {
			if !exits.Has(class) && (class == "fatal" || !s.always()) {
				exits.Set(class, []int{})
			}
		}
	}
	p.budget(usual)
}

// always tells whether a service is started again whatever its exit code is.
func (s *Service) always() bool {
	if m, is := s.Keys.Get("restart").(*Map); is {
		return m.Get("policy") == "always"
	}
	policy, set := s.Keys.Get("restart").(string)
	return policy == "always" || !set && s.Keys.Get("type") != "oneshot"
}

// budget raises the time in which the container is stopped to that of the service that may
// take longest, and says that the engine's has to be raised too.
func (p *Plan) budget(usual time.Duration) {
	var slowest *Service
	longest := stopTimeout
	for _, s := range p.Services {
		stop, _ := s.Keys.Get("stop").(*Map)
		if stop == nil {
			continue
		}
		text, _ := stop.Get("timeout").(string)
		if d, err := time.ParseDuration(text); err == nil && d > longest && d != usual {
			longest, slowest = d, s
		}
	}
	if slowest == nil {
		return
	}
	p.Top.Set("stop_timeout", Time(longest+time.Second))
	p.Leave(slowest.At, slowest, Outside, "stop.timeout "+Time(longest), "the container as a whole would be stopped within 9 s, so stop_timeout is raised to "+Time(longest+time.Second)+
		"; give the engine longer than that: docker stop -t, docker run --stop-timeout, or stop_grace_period in Compose")
}
