package main

import (
	"testing"
	"time"

	"rlminit/control"
)

func TestWhy(t *testing.T) {
	code, reason, alice := 78, "exit 78: it will not succeed again", "alice"
	since := time.Now().Add(-90 * time.Second)
	services := []control.Service{
		{Name: "web", State: "running", Desired: "running", Verdict: "ok", ReasonCode: "running"},
		{Name: "db", State: "running", Desired: "running", Verdict: "ok", ReasonCode: "running", Flapping: true, Restarts: 9},
		{
			Name: "gateway-alice", Profile: &alice, State: "failed", Desired: "running", Verdict: "ill", ReasonCode: "failed", Reason: &reason,
			Since: &since, LastExit: &control.Exit{Code: &code, At: since}, Restarts: 3,
		},
	}
	at := localTime(since)
	answers := map[string]any{
		"GET /v1/services": services, "GET /v1/services/web": services[0],
		"GET /v1/logs/gateway-alice": text("no token\n"), "GET /v1/logs/db": text(""), "GET /v1/logs/web": text(""),
	}
	tell(t, answers, []story{
		{args: []string{"why"}, out: `alice is ill
  state      failed since ` + at + ` (1m30s)
  reason     exit 78: it will not succeed again
  restarts   3
  last exit  exit 78 at ` + at + `
  last lines
    no token
  try
    rlminit logs alice
    rlminit start alice

db is ok, and restarts again and again
  state      running
  restarts   9
  try
    rlminit logs db
    rlminit events db

3 services: 1 ill (1 failed), 2 ok
`},
		{args: []string{"why", "web"}, out: "web is ok\n  state      running\n  restarts   0\n\n"},
		{args: []string{"why", "-o", "name"}, out: "gateway-alice\ndb\n"},
		{args: []string{"why", "nobody"}, code: 4, err: "rlminit: no profile or service \"nobody\"\n"},
	})
}

// TestRemediesOfEachCode: a service that is not ok has a command that helps.
func TestRemediesOfEachCode(t *testing.T) {
	for _, code := range []string{
		"failed", "backoff_failed", "exited_failed", "unhealthy", "waiting_ill", "definition_refused", "stopped", "disabled", "at_rest",
		"scheduled", "scheduled_failed", "waiting_off", "waiting",
	} {
		if len(remedies(control.Service{Name: "web", ReasonCode: code})) == 0 {
			t.Errorf("%s has no remedy", code)
		}
	}
}
