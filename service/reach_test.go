package service

import (
	"testing"
	"time"
)

func TestUnreachable(t *testing.T) {
	base := Default("web").Restart
	base.Policy = RestartAlways
	for name, c := range map[string]struct {
		change func(*Restart)
		is     bool
	}{
		"the defaults":                    {func(*Restart) {}, false},
		"delays longer than the window":   {func(r *Restart) { r.Delay, r.MaxDelay = 20*time.Second, 20*time.Second }, true},
		"just within it, with luck":       {func(r *Restart) { r.Delay, r.MaxDelay, r.Factor = 8*time.Second, 8*time.Second, 1 }, false},
		"just not, with all the luck":     {func(r *Restart) { r.Delay, r.MaxDelay, r.Factor = 8400*time.Millisecond, 9*time.Second, 1 }, true},
		"growing delays":                  {func(r *Restart) { r.Delay, r.Limit, r.ResetAfter = time.Second, 10, time.Minute }, true},
		"healthy for a moment in between": {func(r *Restart) { r.Delay, r.Limit, r.ResetAfter = time.Second, 10, time.Second }, false},
		"no limit":                        {func(r *Restart) { r.Delay, r.MaxDelay, r.Limit = time.Hour, time.Hour, 0 }, false},
		"no restarts":                     {func(r *Restart) { r.Delay, r.MaxDelay, r.Policy = time.Hour, time.Hour, RestartNo }, false},
		"no delay":                        {func(r *Restart) { r.Delay, r.Limit = 0, 1000 }, false},
	} {
		r := base
		c.change(&r)
		if takes, is := r.Unreachable(); is != c.is {
			t.Errorf("%s: %v, %d restarts take %s at the least, in a window of %s", name, is, r.Limit, takes, r.Window)
		}
	}
}
