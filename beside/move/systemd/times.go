package systemd

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

var span = regexp.MustCompile(`^\s*(\d+(?:\.\d+)?)\s*([a-zA-Zµ]*)`)

var units = map[string]time.Duration{
	"": time.Second, "s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"ms": time.Millisecond, "msec": time.Millisecond, "us": time.Microsecond, "usec": time.Microsecond, "µs": time.Microsecond,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour, "w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
}

// longest is the longest time that import takes over.
const longest = 365 * 24 * time.Hour

// duration is a time as systemd.time(7) writes it: 5min 20s. ok is false for infinity, and
// for what is no time.
func duration(s string) (d time.Duration, ok bool) {
	rest := s
	for strings.TrimSpace(rest) != "" {
		m := span.FindStringSubmatch(rest)
		if m == nil {
			return 0, false
		}
		f, err := strconv.ParseFloat(m[1], 64)
		unit, known := units[m[2]]
		if err != nil || !known || f*float64(unit) > float64(longest) {
			return 0, false
		}
		d += time.Duration(f * float64(unit))
		rest = rest[len(m[0]):]
	}
	return min(d, longest), s != ""
}

var (
	daily   = regexp.MustCompile(`^(?:([A-Za-z.,-]+) )?\*-\*-(\*|\d+)(?: (\*|\d+(?:/\d+)?)(?::(\*|\d+(?:/\d+)?)(?::0*)?)?)?$`)
	clock   = regexp.MustCompile(`^(?:([A-Za-z.,-]+) )?(\d+):(\d+)(?::0*)?$`)
	weekday = regexp.MustCompile(`(?i)^(mon|tue|wed|thu|fri|sat|sun)[a-z]*(?:(\.\.|,|-)(mon|tue|wed|thu|fri|sat|sun)[a-z]*)?$`)
)

var calendar = map[string]string{
	"minutely": "* * * * *", "hourly": "0 * * * *", "daily": "0 0 * * *", "weekly": "0 0 * * 1", "monthly": "0 0 1 * *",
	"yearly": "0 0 1 1 *", "annually": "0 0 1 1 *", "quarterly": "0 0 1 1,4,7,10 *", "semiannually": "0 0 1 1,7 *",
}

// cron is an expression of cron for OnCalendar=; false: there is none that import knows.
func cron(s string) (string, bool) {
	s = strings.Join(strings.Fields(s), " ")
	if c, known := calendar[strings.ToLower(s)]; known {
		return c, true
	}
	day, month, hour, minute := "", "*", "0", "0"
	if m := clock.FindStringSubmatch(s); m != nil {
		day, hour, minute = m[1], m[2], m[3]
	} else if m := daily.FindStringSubmatch(s); m != nil {
		day, month = m[1], m[2]
		if m[3] != "" {
			hour = m[3]
		}
		if m[4] != "" {
			minute = m[4]
		}
	} else if weekday.MatchString(s) {
		day = s
	} else {
		return "", false
	}
	days := "*"
	if day != "" {
		m := weekday.FindStringSubmatch(day)
		if m == nil {
			return "", false
		}
		days = strings.ToUpper(m[1])
		if m[3] != "" {
			days += map[string]string{"..": "-", "-": "-", ",": ","}[m[2]] + strings.ToUpper(m[3])
		}
	}
	return strings.Join([]string{number(minute, "59"), number(hour, "23"), number(month, "31"), "*", days}, " "), true
}

// number is a field of systemd's as cron has it: without leading zeros, and N/M as N-LAST/M.
func number(s, last string) string {
	first, step, repeats := strings.Cut(s, "/")
	if n, err := strconv.Atoi(first); err == nil {
		first = strconv.Itoa(n)
	}
	switch {
	case repeats && first == "0":
		return "*/" + number(step, last)
	case repeats:
		return first + "-" + last + "/" + number(step, last)
	}
	return first
}
