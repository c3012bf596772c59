package control

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"rlminit/internal/natural"
)

// All is the name that stands for every service in Start, Stop and Restart.
const All = "all"

// IsSet tells whether a name means a set, as a pattern of path.Match does, and not one
// service or profile.
func IsSet(name string) bool { return strings.ContainsAny(name, "*?[") }

// Services returns every service, in the natural order of their names: chat-2 before chat-10.
func (c *Client) Services(ctx context.Context) ([]Service, error) {
	all, err := list[Service](ctx, c, "/v1/services", "the status")
	inOrder(all, func(s Service) string { return s.Name })
	return all, err
}

// inOrder sorts a list by names, chat-2 before chat-10.
func inOrder[T any](all []T, name func(T) string) {
	slices.SortStableFunc(all, func(a, b T) int { return natural.Compare(name(a), name(b)) })
}

// Service returns one service by its name, or by its profile's.
func (c *Client) Service(ctx context.Context, name string) (Service, error) {
	return ask[Service](ctx, c, get("/v1/services/"+segment(name), "the status of "+name))
}

// Definition returns the definition of a service, without its secrets.
func (c *Client) Definition(ctx context.Context, name string) (Definition, error) {
	return ask[Definition](ctx, c, get("/v1/services/"+segment(name)+"/definition", "the definition of "+name))
}

// Counts returns the counters beside the status.
func (c *Client) Counts(ctx context.Context) (Counts, error) {
	return ask[Counts](ctx, c, get("/v1/metrics", "the metrics"))
}

// Dependencies returns what each service comes after, in the order of names.
func (c *Client) Dependencies(ctx context.Context) ([]Dependencies, error) {
	all, err := ask[[]Dependencies](ctx, c, get("/v1/dependencies", "the dependencies"))
	inOrder(all, func(d Dependencies) string { return d.Service })
	return all, err
}

// Start starts a service, or All.
func (c *Client) Start(ctx context.Context, name string, o Operate) ([]Outcome, error) {
	return c.operate(ctx, "start", name, o, true)
}

// Stop stops a service, or All.
func (c *Client) Stop(ctx context.Context, name string, o Operate) ([]Outcome, error) {
	return c.operate(ctx, "stop", name, o, true)
}

// Restart stops a service, or All, and starts it again.
func (c *Client) Restart(ctx context.Context, name string, o Operate) ([]Outcome, error) {
	return c.operate(ctx, "restart", name, o, false)
}

func (c *Client) operate(ctx context.Context, verb, name string, o Operate, repeat bool) ([]Outcome, error) {
	all, err := ask[[]Outcome](ctx, c, request{
		method: http.MethodPost, path: "/v1/services/" + segment(name) + "/" + verb,
		body: o, repeat: repeat, what: "the " + verb + " of " + name,
	})
	inOrder(all, func(o Outcome) string { return o.Service.Name })
	return all, err
}

// Prolong moves the deadlines of services on, and returns those that it does not: whose
// fence is another's, whose deadline has passed or is later already.
func Prolong(ctx context.Context, c *Client, d []Deadline) (Prolonged, error) {
	return ask[Prolonged](ctx, c, same("/v1/deadlines", Deadlines{d}, "the deadlines"))
}

// Signal sends a signal, named as kill(1) takes it, to a service, and returns how that
// was then.
func (c *Client) Signal(ctx context.Context, name, signal string) (Service, error) {
	r := post("/v1/services/"+segment(name)+"/signal", Signal{Signal: signal}, "the signal to "+name)
	r.query = url.Values{"show": {"true"}}
	return ask[Service](ctx, c, r)
}

// Wait returns when a service is as w wants it.
func (c *Client) Wait(ctx context.Context, name string, w WaitFor) (Service, error) {
	return ask[Service](ctx, c, same("/v1/services/"+segment(name)+"/wait", w, "the wait for "+name))
}

// Health asks how rlminit (level alive) or what it supervises (ready) is.
// Without names, ready speaks of all that is wanted.
func (c *Client) Health(ctx context.Context, level string, names []string) (Health, error) {
	return ask[Health](ctx, c, request{
		method: http.MethodGet, path: "/v1/health",
		query:  url.Values{"level": {level}, "name": names},
		repeat: true, what: "the health",
	})
}

// Reload reads the definitions again.
func (c *Client) Reload(ctx context.Context, r Reload) (Reloaded, error) {
	done, err := ask[Reloaded](ctx, c, request{
		method: http.MethodPost, path: "/v1/reload", body: r, repeat: r.DryRun, what: "the reload",
	})
	inOrder(done.Changes, func(c Change) string { return c.Service })
	return done, err
}

// Shutdown stops the container and leaves every intent as it is.
func (c *Client) Shutdown(ctx context.Context) error {
	return c.call(ctx, post("/v1/shutdown", nil, "the shutdown"), nil)
}
