package main

import (
	"strings"

	"github.com/spf13/cobra"
)

func profileVerb(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "create, delete, list and change profiles",
		Long: `A profile is an agent's identity on the volume: a directory, an environment and
a port. Its gateway is the service gateway-NAME; every verb takes that name and
the profile's.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownVerb(cmd, args[0])
		},
	}
	cmd.AddCommand(profileCreateVerb(t), profileDeleteVerb(t), profileListVerb(t), profileShowVerb(t), profileSetVerb(t))
	return cmd
}

// assignments makes a map of KEY=VALUE arguments.
func assignments(cmd *cobra.Command, written []string) (map[string]string, error) {
	if len(written) == 0 {
		return nil, nil
	}
	vars := make(map[string]string, len(written))
	for _, w := range written {
		key, value, ok := strings.Cut(w, "=")
		if !ok || key == "" {
			return nil, misused(cmd, "%q is no variable; write KEY=VALUE", w)
		}
		vars[key] = value
	}
	return vars, nil
}
