package service

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"rlminit/internal/schedule"
)

// A schedule is read, written and read again as it was; it is never started at
// boot, and one that makes no sense is one clear line.
func TestSchedule(t *testing.T) {
	source := `command: [backup]
type: oneshot
schedule: {cron: "30 2 * * *", timezone: Europe/Berlin, catch_up: one, overlap: kill, jitter: 30s, timeout: 1h}
`
	d, faults := Decode("f", "backup", []byte(source), nil)
	want := Schedule{"30 2 * * *", "Europe/Berlin", schedule.CatchUpOne, OverlapKill, 30 * time.Second, time.Hour}
	if len(faults) > 0 || d.Schedule == nil || *d.Schedule != want || d.StartsAtBoot() {
		t.Fatalf("%+v, %v", d.Schedule, faults)
	}
	again, faults := Decode("f", "backup", Encode(d), nil)
	if len(faults) > 0 || !reflect.DeepEqual(d, again) || *again.Schedule != want {
		t.Errorf("%+v, %v", again.Schedule, faults)
	}
	for _, c := range [][2]string{
		{`{}`, "cron is missing"},
		{`{cron: "* * *"}`, "write minute, hour, day, month and weekday"},
		{`{cron: "0 0 31 2 *"}`, "never fires"},
		{`{cron: "@every 1s"}`, "@every"},
		{`{cron: "* * * * *", timezone: Berlin}`, `schedule.timezone: there is no time zone "Berlin"`},
		{`{cron: "TZ=UTC * * * * *"}`, "schedule.cron: "},
		{`{cron: "* * * * *", overlap: maybe}`, "skip, queue or kill"},
		{`{cron: "* * * * *", timeout: 1000h}`, "daemon"},
	} {
		_, faults := Decode("f", "backup", []byte("command: [a]\ntype: oneshot\nschedule: "+c[0]+"\n"), nil)
		if len(faults) != 1 || !strings.Contains(faults.Err().Error(), c[1]) {
			t.Errorf("%s: %v, want %q", c[0], faults, c[1])
		}
	}
	if _, faults := Decode("f", "a", []byte("command: [a]\nschedule: {cron: \"* * * * *\"}\n"), nil); len(faults) != 1 {
		t.Errorf("of a daemon: %v", faults)
	}
}
