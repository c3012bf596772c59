package main

import (
	"testing"
	"time"

	"rlminit/control"
)

// Of one with a schedule status says when that runs it, whatever it did itself; and
// where it is not run, why.
func TestRemarkOfAScheduledOne(t *testing.T) {
	next := time.Date(2026, 5, 24, 3, 0, 0, 0, time.Local)
	zone, _ := next.Zone()
	job, state := "7", "succeeded"
	for _, c := range []struct {
		service control.Service
		want    string
	}{
		{control.Service{State: "stopped", Schedule: &control.Schedule{Next: &next}}, "next at 2026-05-24 03:00:00 " + zone},
		{control.Service{State: "exited", Reason: new("exit 0"), Schedule: &control.Schedule{Next: &next}}, "exit 0; next at 2026-05-24 03:00:00 " + zone},
		{control.Service{State: "running", Schedule: &control.Schedule{Next: &next}}, "next at 2026-05-24 03:00:00 " + zone},
		{
			control.Service{State: "stopped", Schedule: &control.Schedule{NotRun: "profiles are off", Last: &next, LastJob: &job, LastState: &state}},
			"its schedule is not run: profiles are off; that of 2026-05-24 03:00:00 " + zone + " (job 7) succeeded",
		},
	} {
		if got := remark(c.service); got != c.want {
			t.Errorf("%q, not %q", got, c.want)
		}
	}
}
