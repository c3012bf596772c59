package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rlminit/wire"
)

// tryEnvironment is the environment of the play: the caller's, with rlminit in
// PATH and without what would lead it to another rlminit.
func tryEnvironment(dir string, environment []string) []string {
	path := wire.DefaultPath
	kept := slices.DeleteFunc(slices.Clone(environment), func(v string) bool {
		if value, ok := strings.CutPrefix(v, "PATH="); ok && value != "" {
			path = value
			return true
		}
		return strings.HasPrefix(v, "PATH=") || strings.HasPrefix(v, "RLMINIT_") ||
			strings.HasPrefix(v, "NOTIFY_SOCKET=") || strings.HasPrefix(v, "PUID=") || strings.HasPrefix(v, "PGID=")
	})
	return append(kept, "PATH="+filepath.Join(dir, "bin")+":"+path)
}

// shellOf is the caller's shell, or the one that every system has.
func shellOf(environment []string) string {
	for _, v := range environment {
		if shell, ok := strings.CutPrefix(v, "SHELL="); ok && filepath.IsAbs(shell) {
			if _, err := os.Stat(shell); err == nil {
				return shell
			}
		}
	}
	return "/bin/sh"
}
