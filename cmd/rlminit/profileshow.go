package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func profileShowVerb(t *terminal) *cobra.Command {
	return shows(t, &cobra.Command{
		Use:               "show NAME",
		Short:             "show a profile",
		Args:              exactly("NAME"),
		ValidArgsFunction: completeProfiles,
	}, (*control.Client).Profile, profileText)
}

// profileText is what `profile show` prints.
func profileText(t *terminal, p control.Profile) {
	t.printf("name:     %s\n", printable(p.Name))
	t.printf("state:    %s\n", t.paint(stateColour(p.State), p.State))
	t.printf("desired:  %s\n", printable(p.Desired))
	if p.Reason != nil && *p.Reason != "" {
		t.printf("reason:   %s\n", printable(*p.Reason))
	}
	t.printf("service:  %s\n", printable(p.Service))
	t.printf("port:     %s\n", number(p.Port))
	if p.UID != nil {
		t.printf("uid:      %d\n", *p.UID)
	}
	t.printf("dir:      %s\n", printable(p.Dir))
	if len(p.Environment) == 0 {
		return
	}
	t.printf("environment:\n")
	for _, key := range slices.Sorted(maps.Keys(p.Environment)) {
		t.printf("  %s=%s\n", printable(key), printable(p.Environment[key]))
	}
}
