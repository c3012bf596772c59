// Package schedule says when something recurs: a cron expression in a time zone,
// through both changes of summer time, clocks that jump, and times at which nobody
// was there. It is pure: it owns no clock and starts nothing.
//
// An occurrence is a time as a wall clock shows it. Where the expression leaves the
// hour open (*, or */n), it recurs by what goes by: in the hour that comes twice it
// does so twice, and not in the one that is left out. Where it names hours, each day
// has them once: in the hour that comes twice the first counts, and what falls into
// the one that is left out is due at its end. cron(8) of Debian does the same.
package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a container may have none

	"github.com/robfig/cron/v3"
)

// Cron is when something recurs.
type Cron struct {
	expression string
	zone       *time.Location
	fields     *cron.SpecSchedule
	elapsed    bool // the hour is open
}

// longest bounds how far ahead the next occurrence is looked for: 29 February
// comes at least once in it.
const longest = 9 * 366 * 24 * time.Hour

// Parse reads an expression of five fields (minute, hour, day, month, weekday) or
// one of @hourly, @daily, @weekly, @monthly, @yearly, for a time zone by its name;
// "" is UTC. One that never fires is refused.
func Parse(expression, zone string) (*Cron, error) {
	location, err := Zone(zone)
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(expression, "@every"):
		return nil, fmt.Errorf("%q: @every would depend on when rlminit started; write */5 * * * *", expression)
	case strings.Contains(expression, "TZ="):
		return nil, fmt.Errorf("%q: the time zone has a key of its own, timezone", expression)
	}
	parsed, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor).Parse(sundays(expression))
	if err != nil {
		return nil, fmt.Errorf("%q: %w; write minute, hour, day, month and weekday, such as 0 3 * * *", expression, err)
	}
	fields, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("%q is no cron expression", expression)
	}
	fields.Location = time.UTC // wall clocks are counted as if they were UTC's
	c := &Cron{expression: expression, zone: location, fields: fields, elapsed: opensHour(expression)}
	if c.fields.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("%q never fires: no month has that day", expression)
	}
	return c, nil
}

// sundays writes the weekday 7, which is Sunday as 0 is, as the parser knows it; so too as the
// end of a range, by its number or its name. Anything else stays, right or wrong.
func sundays(expression string) string {
	f := strings.Fields(expression)
	if len(f) != 5 {
		return expression
	}
	var days []string
	for _, part := range strings.Split(f[4], ",") {
		days = append(days, sunday(part)...)
	}
	f[4] = strings.Join(days, ",")
	return strings.Join(f, " ")
}

// sunday is sundays for one element of the list of weekdays.
func sunday(part string) []string {
	span, step, stepped := strings.Cut(part, "/")
	first, last, ranged := strings.Cut(span, "-")
	named := strings.EqualFold(last, "sun")
	switch from, n := weekday(first), 1; {
	case span == "7":
		return []string{"0"}
	case !ranged || from < 0 || last != "7" && !named || named && from == 0:
		return []string{part}
	default:
		if stepped {
			var err error
			if n, err = strconv.Atoi(step); err != nil || n < 1 {
				return []string{part}
			}
		}
		var days []string
		for day := from; day <= 7; day += n {
			days = append(days, strconv.Itoa(day%7))
		}
		return days
	}
}

// weekday is the number of a day by its number or name; -1: it is none.
func weekday(text string) int {
	if n, err := strconv.Atoi(text); err == nil && 0 <= n && n <= 7 {
		return n
	}
	return slices.Index([]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, strings.ToLower(text))
}

// Zone is a time zone by its name; "" is UTC.
func Zone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name) // "" is UTC there too
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("there is no time zone %q; write one such as Europe/Berlin", name)
	}
	return zone, nil
}

// opensHour tells whether an expression leaves the hour open.
func opensHour(expression string) bool {
	if expression == "@hourly" {
		return true
	}
	f := strings.Fields(expression)
	return len(f) > 1 && strings.HasPrefix(f[1], "*")
}

// Next is the first occurrence after a time; the zero Time: there is none for years.
func (c *Cron) Next(after time.Time) time.Time {
	if c.elapsed {
		return c.nextElapsed(after)
	}
	for wall := wallOf(after.In(c.zone)).Add(-25 * time.Hour); ; {
		if wall = c.fields.Next(wall); wall.IsZero() {
			return time.Time{}
		}
		at := c.at(wall)
		if at.After(after) {
			return at
		}
		if at.Sub(after) > longest {
			return time.Time{}
		}
	}
}

// nextElapsed counts in what goes by: from one change of the clock to the next a
// wall clock and the time run side by side.
func (c *Cron) nextElapsed(after time.Time) time.Time {
	from, wall := after, wallOf(after.In(c.zone))
	for {
		_, end := from.In(c.zone).ZoneBounds()
		next := c.fields.Next(wall)
		if next.IsZero() {
			return time.Time{}
		}
		at := next.Add(-time.Duration(offset(from, c.zone)) * time.Second)
		if end.IsZero() || at.Before(end) {
			return at
		}
		from, wall = end, wallOf(end.In(c.zone)).Add(-time.Second) // what it shows first counts too
	}
}

func offset(at time.Time, zone *time.Location) int {
	_, o := at.In(zone).Zone()
	return o
}

// wallOf is what a clock shows, as if it were UTC's.
func wallOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// at is the first moment at which a clock of the zone shows wall, or where it never
// does the first at which it shows something later.
func (c *Cron) at(wall time.Time) time.Time {
	// Zones are at most a day from UTC, and change at most once in two days.
	from := wall.Add(-26 * time.Hour)
	for {
		_, end := from.In(c.zone).ZoneBounds()
		at := wall.Add(-time.Duration(offset(from, c.zone)) * time.Second)
		if at.Before(from) {
			return from // it was left out
		}
		if end.IsZero() || at.Before(end) {
			return at
		}
		from = end
	}
}
