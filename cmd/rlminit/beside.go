package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"rlminit/internal/trust"
)

// besidePrefix is the prefix of a program that is a verb of its own.
const besidePrefix = "rlminit-"

// shorts are the descriptions of the verbs beside the binary that are part of this project.
var shorts = map[string]string{
	"top":    "watch and operate services in the terminal",
	"page":   "serve a web page of services, operations and plans",
	"import": "write an rlminit.yaml from what runs today under s6, supervisord, systemd, a Procfile or Compose",
	"s6":     "run a command of s6 for services of rlminit",
	"shim":   "have a program that root calls run as the service user",
	"fleet":  "run each profile on one of many machines, by etcd",
}

// besideVerbs makes a verb of each program rlminit-VERB in the directory of this binary,
// unless VERB is one already. What PID 1 need not link is a program of its own.
func besideVerbs(own *cobra.Command) (verbs []*cobra.Command) {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	dir := filepath.Dir(self)
	entries, _ := os.ReadDir(dir) // what cannot be read has no verbs
	for _, entry := range entries {
		name, is := strings.CutPrefix(entry.Name(), besidePrefix)
		if !is || !isVerb(name) || name == "help" || childNamed(own, name) != nil {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if !isProgram(path) {
			continue
		}
		verbs = append(verbs, besideVerb(name, path))
	}
	return verbs
}

// isProgram tells whether there is a program at path.
func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// isVerb tells whether a verb can have this name: small letters, digits and dashes between
// them. So editors' backups, and rlminit-1.2.3, are none.
func isVerb(name string) bool {
	return name != "" && name[0] >= 'a' && name[0] <= 'z' && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// besideVerb is the verb that a program beside this binary is. All that follows the verb is
// that program's.
func besideVerb(name, path string) *cobra.Command {
	short, known := shorts[name]
	if !known {
		short = "run " + path
	}
	return &cobra.Command{
		Use:                name,
		Short:              short,
		DisableFlagParsing: true,
		Annotations:        map[string]string{besideAt: path},
		RunE:               func(_ *cobra.Command, args []string) error { return runBeside(path, args) },
	}
}

// notBeside says of a verb that is a program of its own where that program belongs.
func notBeside(name string) error {
	self, _ := os.Executable()
	return &usageError{what: fmt.Sprintf("no verb %q here: it is a program of its own, %s%s, which belongs into %s", name, besidePrefix, name, filepath.Dir(self))}
}

// besideAt is the annotation of a verb that has the path of its program.
const besideAt = "beside"

// runBeside has a program take the place of this one.
func runBeside(path string, args []string) error {
	for _, at := range []string{filepath.Dir(path), path} {
		if err := trust.OnlyRoots(at); err != nil {
			return fmt.Errorf("cannot run %s: %w", path, err)
		}
	}
	argv := append([]string{filepath.Base(path)}, args...)
	return fmt.Errorf("cannot run %s: %w", path, unix.Exec(path, argv, os.Environ()))
}
