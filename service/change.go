package service

import (
	"maps"
	"slices"
	"strings"
)

// NeedsRestart tells whether a running service has to be started anew for its
// new definition to hold, and why: "command and environment changed". What the
// supervisor itself acts on (restart, exits, stop, log, health, requires) holds
// at once.
func NeedsRestart(old, new *Definition) (needed bool, why string) {
	var changed []string
	for _, c := range []struct {
		field string
		same  bool
	}{
		{"command", slices.Equal(old.Command, new.Command)},
		{"user", old.User == new.User},
		{"group", old.Group == new.Group},
		{"groups", slices.Equal(old.Groups, new.Groups)},
		{"working_dir", old.WorkingDir == new.WorkingDir},
		{"umask", old.Umask == new.Umask},
		{"environment", maps.Equal(old.Environment, new.Environment)},
		{"env_file", slices.Equal(old.EnvFile, new.EnvFile)},
		{"type", old.Type == new.Type},
		{"profile", old.Profile == new.Profile},
		{"port", old.Port == new.Port},
		// NOTIFY_SOCKET and WATCHDOG_USEC are in the environment.
		{"ready", notifies(old) == notifies(new)},
		{"watchdog", old.Watchdog == new.Watchdog},
		{"deadline", old.Deadline == new.Deadline},
		{"sockets", slices.Equal(old.Sockets, new.Sockets)},
		{"limits", old.Limits.equal(new.Limits)},
		{"sandbox", old.Sandbox.NoNewPrivs == new.Sandbox.NoNewPrivs &&
			slices.Equal(old.Sandbox.Capabilities, new.Sandbox.Capabilities)},
		{"isolation", old.Isolation.equal(new.Isolation)},
		{"secrets", maps.Equal(old.Secrets, new.Secrets) && old.SecretsVersion == new.SecretsVersion},
	} {
		if !c.same {
			changed = append(changed, c.field)
		}
	}
	if len(changed) == 0 {
		return false, ""
	}
	last := len(changed) - 1
	why = changed[last]
	if last > 0 {
		why = strings.Join(changed[:last], ", ") + " and " + why
	}
	return true, why + " changed"
}

func notifies(d *Definition) bool { return d.Ready != nil && d.Ready.Notify }

// NotifySocket tells whether its process has a notify socket.
func (d *Definition) NotifySocket() bool { return d.Watchdog > 0 || notifies(d) }

func (l Limits) equal(o Limits) bool {
	return maps.Equal(l.Rlimits, o.Rlimits) && l.Memory == o.Memory && l.Pids == o.Pids && l.CPU == o.CPU
}
