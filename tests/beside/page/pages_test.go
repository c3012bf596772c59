package page

import (
	"testing"
)

// house is a box with a bit of everything.
func house(t *testing.T, allow string) *site {
	t.Helper()
	s := start(t, allow, `services:
  web: {command: [nasty, sleep]}
  broken: {command: [bash, -c, "echo cannot open /etc/agent.yaml: no such file >&2; exit 3"], restart: {policy: on-failure, delay: 10ms, limit: 2, window: 60s}}
  nightly: {command: [echo, done], type: oneshot, schedule: {cron: "0 3 * * *"}}
`)
	for _, name := range []string{"alice", "bob", "carol"} {
		s.Must("profile", "create", name)
	}
	s.Await("broken", "failed")
	return s
}

func TestEveryPage(t *testing.T) {
	s := house(t, "approve")
	b := s.enter(t)
	for _, path := range []string{"/", "/service/gateway-alice", "/operations", "/plans", "/jobs", "/events", "/logs?q=open", "/boot"} {
		b.to(path)
		b.as(1280, 900, "light")
		t.Log(path, b.see())
		b.picture("x" + string(path[1:min(len(path), 4)]) + ".png")
		b.quiet()
	}
}
