package main

import (
	"time"
)

// timesTaken is what parseWhen reads, for a message.
const timesTaken = "10m, 2026-05-24T18:05:33Z, or 2026-05-24 18:05"

// whenLayouts are the ways to write a time, those without a zone in that of
// this process.
var whenLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02",
}

// parseWhen reads a time, or how long ago that is.
func parseWhen(text string, now time.Time) (time.Time, bool) {
	var ago seconds
	if ago.Set(text) == nil {
		return now.Add(-time.Duration(ago)), true
	}
	for _, layout := range whenLayouts {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
