package config

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"rlminit/rights"
	"rlminit/service"
	"rlminit/wire"
)

// Inherits tells whether children see a variable of the container: the last
// pattern that fits decides. A list of exclusions alone excludes from
// everything. What belongs to a manager's conversation with rlminit, and
// RLMINIT_* itself, never passes.
func (c *Config) Inherits(name string) bool {
	if service.Supervised(name) || strings.HasPrefix(name, "RLMINIT_") {
		return false
	}
	inherits := len(c.InheritEnv) > 0 && strings.HasPrefix(c.InheritEnv[0], "!")
	for _, pattern := range c.InheritEnv {
		pattern, excludes := strings.CutPrefix(pattern, "!")
		if glob(pattern, name) {
			inherits = !excludes
		}
	}
	return inherits
}

// plainly takes from path.Match what inherit_env does not have: classes, escapes, and that a
// slash is special.
var plainly = strings.NewReplacer(`[`, `\[`, `\`, `\\`, `/`, "\x00")

// glob matches * (any characters) and ? (any one).
func glob(pattern, s string) bool {
	fits, _ := path.Match(plainly.Replace(pattern), strings.ReplaceAll(s, "/", "\x00"))
	return fits
}

// Environment is the environment of a service, less the variables that the supervisor itself
// passes. Later ones win: those it inherits of the container's; HOME,
// USER and LOGNAME; the global env_file, then environment; a gateway's PROFILE,
// PROFILE_DIR and PORT; the definition's env_file, then environment. Files are
// read now. A profile without a name is none.
//
// The error is EnvFaults: every file and line that is at fault.
func Environment(c *Config, id wire.Identity, container []string, d *service.Definition, p Profile) ([]string, error) {
	return EnvironmentAs(nil, nil, c, id, container, d, p)
}

// Reader is the user that reads a file of an environment; variable is the one whose value
// it is, "" for an env_file.
type Reader func(variable, file string) *rights.User

// EnvironmentAs is Environment of files that user reads, and those of the definition
// whoever own says.
func EnvironmentAs(user *rights.User, own Reader, c *Config, id wire.Identity, container []string, d *service.Definition, p Profile) ([]string, error) {
	e := environ{user: func(string, string) *rights.User { return user }, at: make(map[string]int, len(container)+16)}
	for _, kv := range container {
		if name, _, ok := strings.Cut(kv, "="); ok && name != "" && c.Inherits(name) {
			e.put(name, kv)
		}
	}
	if _, ok := e.at["PATH"]; !ok {
		e.set("PATH", wire.DefaultPath)
	}
	if c.Home != "" {
		e.set("RLMINIT_HOME", c.Home)
	}
	e.set("HOME", id.Home)
	e.set("USER", id.Name)
	e.set("LOGNAME", id.Name)
	e.add(c.EnvFile, c.Environment)
	if p.Name != "" {
		e.set("PROFILE", p.Name)
		e.set("PROFILE_DIR", p.Dir)
		if p.Port != 0 {
			e.set("PORT", strconv.Itoa(p.Port))
		}
	}
	if e.own = true; own != nil {
		e.user = own
	}
	e.add(d.EnvFile, d.Environment)
	if len(e.faults) > 0 {
		return nil, e.faults
	}
	return e.list, nil
}

// environ is a list of variables with each name once.
type environ struct {
	user   Reader
	list   []string
	at     map[string]int
	own    bool // added variables are the definition's
	faults EnvFaults
}

func (e *environ) fault(variable, file string, err error) {
	e.faults = append(e.faults, EnvFault{Own: e.own, Variable: variable, File: file, Err: err})
}

func (e *environ) set(name, value string) { e.put(name, name+"="+value) }

func (e *environ) put(name, kv string) {
	if i, ok := e.at[name]; ok {
		e.list[i] = kv
		return
	}
	e.at[name] = len(e.list)
	e.list = append(e.list, kv)
}

func (e *environ) add(files []string, values map[string]service.Value) {
	for _, file := range files {
		e.file(file)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		if v.File == "" {
			e.set(name, v.Text)
			continue
		}
		text, err := readSmall(e.user(name, v.File), v.File, maxValue)
		if err == nil && strings.ContainsRune(text, 0) {
			err = errors.New("it holds a NUL byte")
		}
		if err != nil {
			e.fault(name, v.File, err)
			continue
		}
		text, _ = strings.CutSuffix(text, "\n")
		e.set(name, text)
	}
}
