package main

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"rlminit/config"
)

// configPath is where the container's init has found its configuration: where its flag says
// or, without one, RLMINIT_CONFIG. A variable that the caller has set, and PID 1 has not, wins.
func configPath() string {
	path := os.Getenv(configVariable)
	if o := containersInit(); o.config != "" && (path == "" || path == variableOfInit(configVariable)) {
		return o.config
	}
	return unnamedConfig()
}

// unnamedConfig is where init looks for the configuration when no flag names it.
func unnamedConfig() string { return cmp.Or(os.Getenv(configVariable), config.DefaultPath) }

const configVariable = "RLMINIT_CONFIG"

// containersInit are the arguments of PID 1, if that is rlminit init; else none.
func containersInit() (o initOptions) {
	line, err := os.ReadFile("/proc/1/cmdline")
	args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	if err != nil || len(args) < 2 || args[1] != "init" || filepath.Base(args[0]) != "rlminit" {
		return o
	}
	if o, _, err = initArguments(args[2:]); err != nil {
		return initOptions{}
	}
	if o.config != "" && !filepath.IsAbs(o.config) {
		if dir, err := os.Readlink("/proc/1/cwd"); err == nil {
			o.config = filepath.Join(dir, o.config)
		}
	}
	return o
}

// variableOfInit is a variable that PID 1 was started with; "": it has none, or none that the
// caller may see.
func variableOfInit(name string) string {
	environ, err := os.ReadFile("/proc/1/environ")
	if err != nil {
		return ""
	}
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		if value, is := strings.CutPrefix(string(kv), name+"="); is {
			return value
		}
	}
	return ""
}
