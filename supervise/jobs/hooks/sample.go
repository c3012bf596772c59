package hooks

import (
	"time"

	"rlminit/config"
	"rlminit/job/table"
)

// Sample is a line as a hook would be told it, of the first that it is on; service is one
// that there is.
func Sample(hook *config.Hook, service string, at time.Time) any {
	sample := sampled{Sample: true, At: at.UTC(), Type: table.TypeTransition, Service: service}
	switch first := hook.On[0]; {
	case first.Word == "":
		b := first.Threshold.Bounds()[0]
		t := table.Threshold{Hook: hook.Name, What: b.What, Percent: float64(b.Most), Limit: b.Most, State: table.Crossed, For: first.Threshold.For.String()}
		if len(hook.Services) > 0 {
			t.Service = service
		}
		return sampledThreshold{true, at.UTC(), table.TypeThreshold, t}
	case first.Word == config.OnJobFailed:
		code := 1
		return sampledJob{true, at.UTC(), table.TypeFailed, table.Ended{Job: "0", Kind: "run", Service: service, State: "failed", ExitCode: &code, Result: []byte("{}")}}
	case first.Word == "healthy" || first.Word == "unhealthy":
		sample.From, sample.To = "running", first.Word
	default:
		sample.From, sample.To = "starting", first.Word
	}
	sample.Cause = "a sample, of rlminit hooks test " + hook.Name
	return sample
}

// sampled, sampledThreshold and sampledJob are records that nobody has recorded.
type sampled struct {
	Sample  bool      `json:"sample"`
	At      time.Time `json:"at"`
	Type    string    `json:"type"`
	Service string    `json:"service"`
	From    string    `json:"from"`
	To      string    `json:"to"`
	Cause   string    `json:"cause"`
	Actor   *uint32   `json:"actor"`
	PID     *int      `json:"pid"`
}

type sampledThreshold struct {
	Sample bool      `json:"sample"`
	At     time.Time `json:"at"`
	Type   string    `json:"type"`
	table.Threshold
}

type sampledJob struct {
	Sample bool      `json:"sample"`
	At     time.Time `json:"at"`
	Type   string    `json:"type"`
	table.Ended
}

// InForce are the hooks that the configuration has.
func (h *Hooks) InForce() []config.Hook { return h.given.List() }

// SampleService is the service that a sample for a hook is about: the first that it names,
// or one that there is.
func (h *Hooks) SampleService(hook *config.Hook) string {
	if found := h.given.Services(hook.Services); len(found) > 0 {
		return found[0].Name
	}
	if len(hook.Services) > 0 {
		return hook.Services[0]
	}
	return "sample"
}
