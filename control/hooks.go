package control

import (
	"context"
	"net/url"
)

// Hook is one element of `hooks --json`.
type Hook struct {
	Name       string          `json:"name"`
	On         []string        `json:"on"` // words and thresholds, as the configuration writes them
	Services   []string        `json:"services"`
	Command    []string        `json:"command"`
	TimeoutMS  int64           `json:"timeout_ms"`
	Thresholds []HookThreshold `json:"thresholds"`
}

// HookThreshold is the latest value of a hook's threshold: of a service, or of the container.
type HookThreshold struct {
	Service string   `json:"service,omitempty"` // "": the container
	What    string   `json:"what"`              // memory, cpu, disk
	Limit   int      `json:"limit"`             // per cent
	For     string   `json:"for"`
	Percent *float64 `json:"percent"` // as measured last; null: it was not
	Crossed bool     `json:"crossed"` // that was told, and not yet that it is back
	Lacks   string   `json:"lacks,omitempty"`
}

// TestHook is the body of POST /v1/hooks/{name}/test.
type TestHook struct {
	Key string `json:"key,omitempty"` // makes a request that is sent twice one job
}

// Hooks are a client's requests about hooks.
type Hooks struct{ *Client }

// List returns those in force.
func (h Hooks) List(ctx context.Context) ([]Hook, error) {
	return ask[[]Hook](ctx, h.Client, get("/v1/hooks", "the hooks"))
}

// Test runs a hook's command once with a sample of its event, as a job, and hands its
// output to each.
func (h Hooks) Test(ctx context.Context, name string, each func(*JobOutput) error) (*JobResult, error) {
	r := same("/v1/hooks/"+segment(name)+"/test", TestHook{Key: newKey()}, "the test of hook "+name)
	r.query = url.Values{"follow": {"true"}}
	return h.follow(ctx, r, each)
}
