package main

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/control"
)

// A terminal that is too small shows what is not well, and counts the rest.
func TestWatchFitsTheTerminal(t *testing.T) {
	var services []control.Service
	for i := range 45 {
		state := "running"
		if i == 40 || i == 43 {
			state = "failed"
		}
		services = append(services, control.Service{Name: fmt.Sprintf("p%02d", i), State: state})
	}
	names := func(list []control.Service) string {
		var all []string
		for _, s := range list {
			all = append(all, s.Name)
		}
		return strings.Join(all, " ")
	}
	fit := func(services []control.Service, height int) ([]control.Service, string) {
		return fitting(services, height, urgency, func(s control.Service) string { return s.State })
	}
	shown, rest := fit(services, 6)
	if got := names(shown); got != "p40 p43 p00 p01" || rest != "and 41 running" {
		t.Errorf("shown: %s; %s", got, rest)
	}
	if shown, rest := fit(services, 0); len(shown) != 45 || rest != "" {
		t.Errorf("without a size: %d, %q", len(shown), rest)
	}
	if shown, rest := fit(services, 46); len(shown) != 45 || rest != "" {
		t.Errorf("where all fit: %d, %q", len(shown), rest)
	}
	if shown, _ := fit(services, 1); len(shown) != 1 {
		t.Errorf("in one line: %d", len(shown))
	}
}
