package control

import (
	"testing"
	"time"
)

// The numbers are part of the contract with scripts.
func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		problem    *Problem
		kind       string
		status, ex int
	}{
		{Failed("x"), "failed", 500, 1},
		{BadRequest("x"), "usage", 400, 2},
		{TooLarge(1), "too-large", 413, 2},
		{NotRunning("x"), "not-running", 409, 3},
		{NoSuchName("x", nil), "no-such-name", 404, 4},
		{NoSuchProfile("x", nil), "no-such-name", 404, 4},
		{NotPermitted("x"), "not-permitted", 403, 5},
		{WrongUser(1, 2), "not-permitted", 403, 5},
		{TaggedCaller("x", ""), "not-permitted", 403, 5},
		{TaggedCaller("x", "read"), "not-permitted", 403, 5},
		{NoAnswer("x"), "no-answer", 503, 6},
		{TimedOut("x", "starting", time.Second, "status x"), "timed-out", 504, 7},
		{NewProblem(KindUnhealthy, "x"), "unhealthy", 503, 8},
		{NewProblem(KindExists, "x"), "exists", 409, 17},
		{Conflict("x"), "conflict", 409, 17},
	} {
		p := test.problem
		if p.Type != "urn:rlminit:"+test.kind || p.Status != test.status || p.ExitCode != test.ex || p.Title == "" || p.Detail == "" {
			t.Errorf("%+v, want %s, %d, exit %d", *p, test.kind, test.status, test.ex)
		}
	}
	if got, want := WrongUser(10000, 1000).Detail,
		"permission denied: you are uid 10000, services run as 1000; use docker exec without -u, or with -u 1000"; got != want {
		t.Errorf("WrongUser = %q\nwant %q", got, want)
	}
}
