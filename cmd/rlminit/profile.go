package main

import (
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"rlminit/internal/document"
)

func profileVerb(t *terminal) *cobra.Command {
	return group("profile", "create, delete, list, change, clone and restore profiles", `A profile is an agent's identity on the volume: a directory, an environment and
a port. Its gateway is the service gateway-NAME; every verb takes that name and
the profile's.`,
		profileCreateVerb(t), profileDeleteVerb(t), profileListVerb(t), profileShowVerb(t), profileSetVerb(t),
		profileEditVerb(t), profileCloneVerb(t), profileRenameVerb(t), profileRestoreVerb(t), profilePurgeVerb(t), profileSecretVerb(t), profileAdoptVerb(t), profileRepairVerb(t),
		profileExportVerb(t), profileImportVerb(t))
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
		if !utf8.ValidString(w) { // JSON would carry something else
			return nil, misused(cmd, "%s is not UTF-8; the control socket and profile.yaml carry nothing else", document.Quote(key))
		}
		vars[key] = value
	}
	return vars, nil
}
