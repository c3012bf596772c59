package document

import (
	"slices"
	"strings"
)

// foreign are keys that other supervisors have for what the configuration has too, by
// the key that it has here, in lower case: those of Compose, systemd, supervisord and s6.
var foreign = map[string][]string{
	"after":       {"dependencies", "order", "priority"},
	"command":     {"entrypoint", "exec", "execstart", "program", "run"},
	"enabled":     {"autostart", "down", "install", "wantedby"},
	"env_file":    {"environmentfile", "env-file"},
	"environment": {"env", "passenvironment"},
	"gateway":     {"kind", "kinds", "template"},
	"group":       {"gid"},
	"groups":      {"group_add", "supplementarygroups"},
	"health":      {"healthcheck", "livenessprobe"},
	"limits":      {"cpus", "deploy", "limitnofile", "mem_limit", "memorymax", "pids_limit", "tasksmax", "ulimits"},
	"log":         {"logging", "standarderror", "standardoutput", "stderr_logfile", "stdout_logfile"},
	"main":        {"cmd", "foreground"},
	"ready":       {"notification-fd", "readinessprobe", "startsecs"},
	"requires":    {"bindsto", "depends_on", "requisite"},
	"restart":     {"autorestart", "restart_policy", "restartsec", "startretries"},
	"sandbox":     {"cap_drop", "nonewprivileges", "privatetmp", "protectsystem", "read_only", "security_opt"},
	"schedule":    {"cron", "crontab", "oncalendar"},
	"services":    {"programs", "service", "units"},
	"sockets":     {"listenstream", "socket"},
	"stop":        {"execstop", "killsignal", "stop_grace_period", "stop_signal", "stopsignal", "stopwaitsecs", "timeoutstopsec"},
	"umask":       {"mask"},
	"user":        {"dynamicuser", "uid"},
	"watchdog":    {"watchdogsec"},
	"working_dir": {"cwd", "directory", "dir", "workdir", "workingdirectory"},
}

// elsewhere are keys of others for which there is none here, and why.
var elsewhere = map[string]string{
	"build":          "every service runs in the container's own image",
	"container_name": "every service runs in the one container",
	"extends":        "each service is written out, and environment and env_file are for all of them",
	"finish":         "hooks run a command when a service ends",
	"image":          "every service runs in the container's own image",
	"labels":         "what a person should know of a service stands in a comment",
	"networks":       "the container's engine has the networks",
	"ports":          "the container's engine publishes ports; a profile's own comes from gateway.ports",
	"volumes":        "the container's engine mounts volumes",
}

// translated says what another supervisor's key is called among these, or that it
// goes into a service; "": it is no such key.
func translated(name string, known []string) string {
	lower := strings.ToLower(name)
	ofService := ""
	if foreign[lower] != nil && slices.Contains(known, "services") {
		ofService = "; " + Quote(lower) + " is a key of services and of gateway"
	}
	for ours, theirs := range foreign {
		if !slices.Contains(theirs, lower) {
			continue
		}
		if slices.Contains(known, ours) {
			return "; here it is " + Quote(ours)
		}
		if slices.Contains(known, "services") {
			ofService = "; in a service and in gateway it is " + Quote(ours)
		}
	}
	if slices.Contains(known, lower) {
		return "; here it is " + Quote(lower)
	}
	if why := elsewhere[lower]; why != "" {
		return ": " + why
	}
	return ofService
}
