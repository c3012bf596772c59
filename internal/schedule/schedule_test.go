package schedule

import (
	"math/rand/v2"
	"testing"
	"time"
)

func parse(t *testing.T, expression, zone string) *Cron {
	t.Helper()
	c, err := Parse(expression, zone)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Both changes of summer time, in both hemispheres, and a zone that skipped a day.
func TestChangesOfTheClock(t *testing.T) {
	for _, c := range []struct {
		expression, zone, after string
		want                    []string
	}{
		// 02:00 to 03:00 is left out on 29 March 2026 in Berlin.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", []string{"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"}},
		{"30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", []string{"2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"}},
		// 02:00 to 03:00 comes twice on 25 October 2026.
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"}},
		{"*/20 2 * * *", "Europe/Berlin", "2026-10-24T23:50:00Z", []string{"2026-10-25T00:00:00Z", "2026-10-25T00:20:00Z", "2026-10-25T00:40:00Z", "2026-10-26T01:00:00Z"}},
		// Half an hour, at 02:00, in Lord Howe.
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", []string{"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"}},
		// 30 December 2011 was left out in Samoa.
		{"0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", []string{"2011-12-30T10:00:00Z"}},
		{"0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
		{"@daily", "America/New_York", "2026-11-22T05:00:00Z", []string{"2026-11-23T05:00:00Z"}},
		// 7 is Sunday, as 0 is; 22 November 2026 is one.
		{"0 0 * * 7", "UTC", "2026-11-17T12:00:00Z", []string{"2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z"}},
		{"0 0 * * 5-7", "UTC", "2026-11-17T12:00:00Z", []string{"2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z", "2026-11-27T00:00:00Z"}},
		{"0 0 * * 1,fri-sun/2", "UTC", "2026-11-17T12:00:00Z", []string{"2026-11-20T00:00:00Z", "2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z"}},
		{"0 0 * * 0-7", "UTC", "2026-11-20T12:00:00Z", []string{"2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z"}},
		{"0 9 * * 1-5", "Asia/Kolkata", "2026-11-20T12:00:00Z", []string{"2026-11-23T03:30:00Z"}},
	} {
		at, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			at = parse(t, c.expression, c.zone).Next(at)
			if got := at.UTC().Format(time.RFC3339); got != want {
				t.Errorf("%s in %s: %s, want %s", c.expression, c.zone, got, want)
			}
		}
	}
}

func TestRefusedExpressions(t *testing.T) {
	for _, c := range [][2]string{
		{"", ""},
		{"* * *", ""},
		{"* * * * * *", ""},
		{"61 * * * *", ""},
		{"@every 5m", ""},
		{"0 0 30 2 *", ""},
		{"0 0 31 4,6,9,11 *", ""},
		{"CRON_TZ=UTC * * * * *", ""},
		{"* * * * *", "Nowhere/City"},
		{"* * * * *", "Local"},
		{"* * * * *", "../etc/passwd"},
	} {
		if _, err := Parse(c[0], c[1]); err == nil {
			t.Errorf("%q in %q is taken", c[0], c[1])
		}
	}
}

// Years in seconds: a clock that steps forwards and backwards, supervisors that are
// killed between recording and running, containers that are off for hours. No
// occurrence is run twice, each that nobody could miss is run, and nobody is woken
// for nothing.
func TestYearsOfOccurrences(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, expression := range []string{"30 2 * * *", "*/30 * * * *", "0 */6 * * *", "15 1,2,3 * * 0", "@hourly"} {
		for _, catchUp := range []CatchUp{CatchUpNone, CatchUpOne} {
			c := parse(t, expression, "Europe/Berlin")
			begin := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
			now, last := begin, time.Time{}
			ran := map[time.Time]int{}
			steady := begin // since when nothing unusual has happened
			wakes := 0
			for now.Before(begin.AddDate(2, 0, 0)) {
				timer := Timer{Cron: c, CatchUp: catchUp, Last: last, Since: begin}
				at, run, missed := timer.Due(now)
				if !at.IsZero() {
					if !at.After(last) || at.After(now) {
						t.Fatalf("%s: %v is due at %v after %v", expression, at, now, last)
					}
					if steady.Before(at) && (missed > 0 || !run) {
						t.Fatalf("%s: missed %d up to %v at %v, and nothing was unusual since %v", expression, missed, at, now, steady)
					}
					if catchUp == CatchUpOne && !run {
						t.Fatalf("%s: %v is not made up for", expression, at)
					}
					last = at // recorded
					if random.IntN(20) != 0 && run {
						ran[at]++ // else it was killed before that
					}
					timer.Last = last
				} else {
					wakes++
				}
				next := timer.Next(now)
				if !next.After(now) {
					t.Fatalf("%s: next is %v at %v", expression, next, now)
				}
				switch random.IntN(12) {
				case 0: // off for a while
					now = now.Add(time.Duration(random.IntN(40)) * time.Hour)
					steady = now
				case 1: // set back, and the timer is told of it
					now = now.Add(-time.Duration(random.IntN(180)) * time.Minute)
					steady = next
				case 2: // woken for nothing: a change of the clock
					now = now.Add(next.Sub(now) / 2)
				default:
					now = next.Add(time.Duration(random.IntN(int(Grace))))
				}
			}
			for at, n := range ran {
				if n > 1 {
					t.Errorf("%s: %v was run %d times", expression, at, n)
				}
			}
			if len(ran) < 50 {
				t.Errorf("%s: only %d were run", expression, len(ran))
			}
		}
	}
}

// A clock that is set by decades is no work of hours.
func TestClockIsSetByDecades(t *testing.T) {
	c := parse(t, "* * * * *", "UTC")
	timer := Timer{Cron: c, CatchUp: CatchUpOne, Last: time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)}
	now := time.Date(2030, 6, 1, 12, 0, 30, 0, time.UTC)
	at, run, _ := timer.Due(now)
	if !run || !at.Equal(now.Truncate(time.Minute)) {
		t.Errorf("%v, %v", at, run)
	}
}
