package systemd

import (
	"slices"
	"strconv"
	"strings"

	"rlminit/beside/move"
)

// taken are the keys that become something here, or that say nothing which would be lost.
var taken = map[string][]string{
	"Unit": {
		"Description", "Documentation", "Requires", "Requisite", "BindsTo", "Wants", "Upholds", "After", "Before", "PartOf",
		"StartLimitBurst", "StartLimitInterval", "StartLimitIntervalSec", "DefaultDependencies", "SourcePath", "CollectMode", "IgnoreOnIsolate",
	},
	"Install": {"WantedBy", "RequiredBy", "Also", "DefaultInstance"},
	"Service": {
		"Type", "ExecStart", "ExecStartPre", "ExecStop", "WatchdogSec", "TimeoutSec", "TimeoutStartSec", "TimeoutStopSec", "User", "Group", "DynamicUser",
		"SupplementaryGroups", "WorkingDirectory", "UMask", "Environment", "EnvironmentFile", "Restart", "RestartSec", "RestartMaxDelaySec",
		"StartLimitBurst", "StartLimitInterval", "SuccessExitStatus", "RestartPreventExitStatus", "RestartForceExitStatus", "KillSignal", "KillMode",
		"CapabilityBoundingSet", "AmbientCapabilities", "NoNewPrivileges", "MemoryMax", "MemoryLimit", "TasksMax", "CPUQuota", "ReadWritePaths",
		"ReadWriteDirectories", "ReadOnlyPaths", "ReadOnlyDirectories", "ProtectSystem", "PrivateTmp", "RuntimeDirectory", "StateDirectory", "CacheDirectory", "LogsDirectory",
		"RemainAfterExit", "NotifyAccess", "GuessMainPID", "SendSIGKILL", "PassEnvironment", "StandardInput", "StandardOutput", "StandardError",
		"MemoryAccounting", "CPUAccounting", "TasksAccounting", "IOAccounting", "IPAccounting", "Delegate",
		// What no process can do that is not root and has no capabilities.
		"ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs", "ProtectClock", "ProtectHostname", "ProtectControlGroups",
		"PrivateDevices", "DevicePolicy", "DeviceAllow", "RestrictRealtime", "SecureBits",
	},
}

// noted are keys that are left out, and what is to be done about each.
var noted = move.ByKey([][2]string{
	{"ExecReload", "rlminit signal HUP NAME sends what a daemon reloads on; rlminit has no command of its own for it"},
	{"ExecStartPost", "nothing runs once a service has started; do it in a oneshot that requires it"},
	{"ExecStopPost", "nothing runs after a service has ended; do it at the start, or by a hook (key hooks)"},
	{"ExecCondition", "a start has no condition here; let the command test it, and exit with 0"},
	{"PIDFile", "the first process of a service is the service here, and no file says which; the program may write it all the same"},
	{"BusName", "there is no bus here"},
	{"OnFailure", "write a hook (key hooks) on failed that runs the command of that unit"},
	{"OnSuccess", "write a hook (key hooks) on exited that runs the command of that unit"},
	{"Conflicts", "services do not end each other here; start and stop them as is needed"},
	{"Alias", "a service has one name here; use that in scripts"},
	{"SyslogIdentifier", "the log of a service is known by its name"},
	{"SyslogFacility", "log: {forward: {format: rfc5424}} sends daemon"},
	{"SyslogLevel", "log: {forward: {format: rfc5424}} sends informational, and error for stderr"},
	{"Nice", "rlminit sets no priorities; run the program by nice(1), which can only make it lower"},
	{"OOMScoreAdjust", "the kernel ends the largest service first; limits: {memory: …} bounds each"},
	{"OOMPolicy", "what the kernel ends for want of memory has failed, and restart says what follows"},
	{"IOSchedulingClass", "rlminit sets no priorities; run the program by ionice(1)"},
	{"CPUSchedulingPolicy", "rlminit sets no priorities; run the program by chrt(1)"},
	{"CPUAffinity", "run the program by taskset(1)"},
	{"MemoryHigh", "there is one limit here: limits: {memory: …}"},
	{"MemorySwapMax", "limits.memory counts no swap"},
	{"CPUWeight", "services have equal shares; limits: {cpu: …} bounds one"},
	{"IOWeight", "services have equal shares"},
	{"Slice", "a service has a cgroup of its own, of which rlminit is the owner"},
	{"RootDirectory", "services see the container's files; isolation: strict restricts that"},
	{"RootImage", "services see the container's files"},
	{"ConfigurationDirectory", "make it in the image"},
	{"RuntimeDirectoryMode StateDirectoryMode CacheDirectoryMode LogsDirectoryMode", "make the directory in the image, with that mode"},
	{"RuntimeDirectoryPreserve", "the directory is the image's, and stays"},
	{"UnsetEnvironment", "inherit_env excludes variables of the container, for all services: [\"*\", \"!NAME\"]"},
	{"ProtectHome", "isolation: {level: profile} hides what is no part of the image; /home of the image can be read"},
	{"InaccessiblePaths InaccessibleDirectories", "isolation: {level: profile} hides what is no part of the image; what else is to be hidden, by its mode"},
	{"ExecPaths", "isolation: {level: profile, exec: […]} says what may be executed beyond the image"},
	{"NoExecPaths", "isolation: {level: profile} executes nothing beyond the image"},
	{"SystemCallFilter SystemCallArchitectures SystemCallErrorNumber", "isolation: strict has a filter of its own, which docs/isolation.md describes"},
	{"RestrictAddressFamilies", "isolation: strict denies exotic sockets, and {connect: […], bind: […]} says which TCP ports"},
	{"RestrictNamespaces", "isolation: strict denies namespaces"},
	{"MemoryDenyWriteExecute LockPersonality RestartMode CoredumpFilter TimerSlackNSec", "rlminit has nothing of the kind"},
	{"RestrictSUIDSGID", "no_new_privs, which each service has, keeps such programs from giving rights"},
	{"ProtectProc ProcSubset", "isolation: {level: profile} hides memory, environment and descriptors of others, not their names"},
	{"PrivateNetwork", "isolation: {level: strict, connect: [], bind: []} denies TCP"},
	{"PrivateUsers", "services share the container's user namespace"},
	{"PrivateMounts MountFlags", "services share the container's mounts"},
	{"PrivateIPC", "services share the container's IPC namespace"},
	{"IPAddressDeny IPAddressAllow", "isolation: {connect: […]} restricts ports, not addresses"},
	{"BindPaths BindReadOnlyPaths", "mount it into the container: docker run -v"},
	{"TemporaryFileSystem", "mount it into the container: docker run --tmpfs"},
	{"AppArmorProfile SELinuxContext", "the container has one: docker run --security-opt"},
	{"KeyringMode", "isolation: strict denies keys"},
	{"RemoveIPC", "rlminit removes no IPC objects"},
	{"IgnoreSIGPIPE", "a service here gets SIGPIPE as by default; let the program ignore it"},
	{"SendSIGHUP", "stop: {signal: …} is the one signal that a service gets before KILL"},
	{"NonBlocking", "sockets are passed as they are; let the program set O_NONBLOCK"},
	{"FileDescriptorStoreMax", "a service may store 58 descriptors, less its sockets"},
	{"PermissionsStartOnly", "the commands before the service run as its user"},
	{"LoadCredential SetCredential", "secrets: {NAME: {file: PATH}} gives it in CREDENTIALS_DIRECTORY"},
	{"TTYPath", "services have no terminal here"},
	{"RestartSteps", "delays grow by restart: {factor}"},
	{"RuntimeMaxSec", "a run is not bounded here; run the program by timeout(1)"},
	{"TimeoutAbortSec", "after ABRT a service has its stop.timeout"},
	{"ReloadPropagatedFrom PropagatesReloadTo", "a reload is sent to one service at a time: rlminit signal"},
	{"RequiresMountsFor WantsMountsFor", "the engine has mounted everything before the container starts"},
	{"StopWhenUnneeded", "a service runs until somebody stops it"},
	{"RefuseManualStart", "whoever may command may start it"},
	{"RefuseManualStop", "whoever may command may stop it"},
	{"AllowIsolate", "rlminit has no targets"},
	{"FailureAction SuccessAction StartLimitAction", "main: {exit_on: NAME} ends the container with a service"},
	{"JobTimeoutSec", "rlminit start --timeout bounds the wait"},
	{"JoinsNamespaceOf", "services share the container's namespaces"},
	{"LogRateLimitIntervalSec LogRateLimitBurst", "a log here is bounded by its size: log: {max_size, max_files}"},
	{"PAMName", "services have no session of PAM"},
	{"UtmpIdentifier", "rlminit keeps no utmp"},
	{"SocketBindAllow SocketBindDeny", "isolation: {bind: […]} says which TCP ports"},
	{"Sockets", "sockets of a unit of another name are not taken over; write sockets"},
	{"SyslogLevelPrefix", "lines are kept as they are"},
})

// rest reads limits, and names what nothing else has read.
func (c *conversion) rest() {
	said := map[string]bool{}
	for _, o := range c.unit.options {
		why, known := noted[o.name]
		switch {
		case o.value == "" && o.section != "":
		case slices.Contains(taken[o.section], o.name):
			c.output(o)
		case strings.HasPrefix(o.name, "X-") || strings.HasPrefix(o.section, "X-"):
		case o.section == "Service" && strings.HasPrefix(o.name, "Limit"):
			c.limit(o)
		case strings.HasPrefix(o.name, "Condition") || strings.HasPrefix(o.name, "Assert"):
			c.leave(o, move.NoEqual, "a start has no condition here; let the command test it, or set enabled by a variable: \"${NAME:-false}\"")
		case known && why != "" && (truth(o.value) || !falsity(o.value)):
			c.leave(o, move.NoEqual, why)
		case known:
		case !said[o.section+o.name]:
			said[o.section+o.name] = true
			c.leave(o, move.Unknown, "import knows no such key of ["+move.Short(o.section)+"]; look whether the service needs it")
		}
	}
}

// falsity tells whether a value switches something off that is off anyway.
func falsity(value string) bool {
	return slices.Contains([]string{"0", "no", "n", "false", "f", "off"}, strings.ToLower(value))
}

// output names what is not taken over of keys that mostly are.
func (c *conversion) output(o option) {
	switch o.name {
	case "StandardOutput", "StandardError":
		switch kind, _, _ := strings.Cut(o.value, ":"); kind {
		case "journal", "inherit", "syslog", "kmsg", "journal+console", "syslog+console", "tty":
		case "null":
			c.leave(o, move.Near, "rlminit keeps a log of each service; log: {file: false} keeps the newest lines only")
		default:
			c.leave(o, move.NoEqual, "rlminit keeps the log in $RLMINIT_HOME/logs/services/"+c.to.Name+"; what reads "+move.Short(o.value)+" must read that")
		}
	case "StandardInput":
		if o.value != "null" {
			c.leave(o, move.NoEqual, "the stdin of a service is /dev/null here")
		}
	case "SendSIGKILL":
		if !truth(o.value) {
			c.leave(o, move.NoEqual, "a stop ends with KILL here; write a longer stop.timeout")
		}
	case "Delegate":
		if truth(o.value) {
			c.leave(o, move.NoEqual, "a service has no cgroups of its own to manage here")
		}
	}
}

// limits are the keys of setrlimit(2), as rlminit calls them.
var limits = map[string]string{
	"LimitNOFILE": "nofile", "LimitNPROC": "nproc", "LimitCORE": "core", "LimitAS": "as", "LimitDATA": "data", "LimitSTACK": "stack", "LimitRSS": "rss",
	"LimitFSIZE": "fsize", "LimitMEMLOCK": "memlock", "LimitLOCKS": "locks", "LimitSIGPENDING": "sigpending", "LimitMSGQUEUE": "msgqueue", "LimitNICE": "nice",
	"LimitRTPRIO": "rtprio", "LimitRTTIME": "rttime", "LimitCPU": "cpu_time",
}

func (c *conversion) limit(o option) {
	name, known := limits[o.name]
	if !known {
		c.leave(o, move.Unknown, "import knows no such limit")
		return
	}
	soft, hard, both := strings.Cut(o.value, ":")
	value := count(soft)
	if both {
		value += ":" + count(hard)
	}
	c.to.Keys.Sub("limits").Set(name, move.Literal(value))
}

// count is a limit of setrlimit(2) as a number, whether it counts bytes or not.
func count(s string) string {
	s = limitValue(s)
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if digits, is := strings.CutSuffix(s, unit); is {
			if n, err := strconv.ParseUint(digits, 10, 20); err == nil {
				return strconv.FormatUint(n<<(10*(i+1)), 10)
			}
		}
	}
	return s
}

// limitValue is a limit as rlminit writes one: K, M and so on are powers of 1024.
func limitValue(s string) string {
	if s = strings.TrimSpace(s); s == "infinity" {
		return "unlimited"
	}
	if n := len(s); n > 1 && strings.ContainsRune("KMGT", rune(s[n-1])) {
		return s + "iB"
	}
	return s
}
