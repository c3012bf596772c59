package config

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
	"rlminit/internal/durable"
	"rlminit/rights"
	"rlminit/service"
)

// Bounds of the files that are read at a spawn.
const (
	maxValue   = document.MaxString
	maxEnvFile = 1 << 20
)

// readSmall reads a file that a service may own: it waits for no FIFO and no
// device, and reads no more than limit bytes.
func readSmall(user *rights.User, path string, limit int) (string, error) {
	f, err := user.Open(path)
	if err != nil {
		return "", durable.Bare(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", durable.Bare(err)
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is no regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return "", durable.Bare(err)
	}
	if len(data) > limit {
		return "", fmt.Errorf("it has more than %d bytes", limit)
	}
	return string(data), nil
}

// EnvFault is a file that an environment cannot be made of, or a line of one.
type EnvFault struct {
	Own      bool   // the definition names the file, not the top level
	Variable string // whose value the file is; "": it is an env_file
	File     string // its path, with the line
	Err      error
}

func (f EnvFault) Error() string {
	if f.Variable != "" {
		return fmt.Sprintf("cannot read %s for %s: %v", f.File, f.Variable, f.Err)
	}
	return fmt.Sprintf("cannot read env_file %s: %v", f.File, f.Err)
}

// within is the fault as the configuration's: field is that of the definition.
func (f EnvFault) within(field string) string {
	at := "env_file"
	if f.Variable != "" {
		at = "environment." + f.Variable
	}
	if f.Own {
		at = field + "." + at
	}
	return fmt.Sprintf("%s: cannot read %s: %v", at, f.File, f.Err)
}

// EnvFaults is everything that is wrong with an environment: at least one.
type EnvFaults []EnvFault

// Error is one line: the reason why a service does not run.
func (f EnvFaults) Error() string {
	switch len(f) {
	case 1:
		return f[0].Error()
	case 2:
		return f[0].Error() + " (and one more fault)"
	}
	return fmt.Sprintf("%v (and %d more faults)", f[0], len(f)-1)
}

// file adds the variables of an env_file. A leading ? lets it be missing.
func (e *environ) file(path string) {
	path, optional := strings.CutPrefix(path, "?")
	text, err := readSmall(e.user("", path), path, maxEnvFile)
	if optional && errors.Is(err, unix.ENOENT) {
		return
	}
	if err != nil {
		e.fault("", path, err)
		return
	}
	for i, line := range strings.Split(text, "\n") {
		name, value, ok, fault := envLine(line)
		if fault != "" {
			e.fault("", fmt.Sprintf("%s:%d", path, i+1), errors.New(fault))
		}
		if ok {
			e.set(name, value)
		}
	}
}

// ParseEnvFile reads a file of NAME=value lines. The error names the file and the
// line.
func ParseEnvFile(file string, text []byte) (map[string]string, error) {
	vars := map[string]string{}
	for i, line := range strings.Split(string(text), "\n") {
		name, value, ok, fault := envLine(line)
		if fault != "" {
			return nil, fmt.Errorf("%s:%d: %s", file, i+1, fault)
		}
		if ok {
			vars[name] = value
		}
	}
	return vars, nil
}

// envLine reads one line: NAME=value, with or without "export" before it. Quotes
// around the whole value are taken off, and a comment behind them; in double
// quotes \n, \", \\ and \$ are understood. Nothing is expanded. Empty lines, and
// those that begin with #, are skipped.
func envLine(line string) (name, value string, ok bool, fault string) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return "", "", false, ""
	}
	if rest, found := strings.CutPrefix(line, "export "); found {
		line = strings.TrimSpace(rest)
	}
	name, value, found := strings.Cut(line, "=")
	name = strings.TrimSpace(name)
	switch {
	case !found:
		return "", "", false, "the line has no =; write NAME=value" // it may be a part of a secret
	case service.Supervised(name):
		return "", "", false, document.Quote(name) + ": " + service.CheckVariable(name)
	case service.CheckVariable(name) != "":
		return "", "", false, service.CheckVariable(name)
	case strings.ContainsRune(value, 0):
		return "", "", false, name + " holds a NUL byte"
	}
	value = strings.TrimSpace(value)
	if value == "" || value[0] != '"' && value[0] != '\'' {
		return name, value, true, ""
	}
	quote := value[:1]
	end := closing(value)
	if end < 0 {
		return "", "", false, name + "'s value has a quote that is not closed"
	}
	rest := value[end+1:]
	if comment := strings.TrimLeft(rest, " \t"); rest != "" && (comment == rest || comment[0] != '#') {
		return "", "", false, name + "'s value goes on behind its quotes; put the quotes around all of it"
	}
	value = value[1:end]
	if quote == `"` {
		value = strings.NewReplacer(`\n`, "\n", `\"`, `"`, `\\`, `\`, `\$`, `$`).Replace(value)
	}
	return name, value, true, ""
}

// closing is where the quote ends that a value begins with, or -1. In double
// quotes a backslash takes one of them for the value's own.
func closing(value string) int {
	for i := 1; i < len(value); i++ {
		switch {
		case value[i] == value[0]:
			return i
		case value[i] == '\\' && value[0] == '"':
			i++
		}
	}
	return -1
}
