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
	facts(t, 9, "name:", p.Name, "state:", cell{p.State, stateColour(p.State)}, "desired:", p.Desired, "reason:", p.Reason, "service:", p.Service,
		"port:", number(p.Port), "uid:", p.UID, "dir:", p.Dir)
	if len(p.Environment) == 0 {
		return
	}
	t.printf("environment:\n")
	for _, key := range slices.Sorted(maps.Keys(p.Environment)) {
		t.printf("  %s=%s\n", printable(key), printable(p.Environment[key]))
	}
}
