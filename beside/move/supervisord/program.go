package supervisord

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/beside/move"
	"rlminit/beside/move/words"
)

// maxProcesses bounds numprocs.
const maxProcesses = 200

// numbered are the keys that are read for all processes of a program at once.
var numbered = []string{
	"priority", "autostart", "autorestart", "startsecs", "startretries", "stopsignal", "stopwaitsecs", "stopasgroup", "killasgroup",
	"exitcodes", "numprocs", "numprocs_start", "process_name", "environment", "command", "directory", "user", "umask", "redirect_stderr",
}

// program makes the services of a program: numprocs of them.
func (r *reader) program(s *section, name string, g membership) {
	n, first := r.integer(s, nil, "numprocs", 1), r.integer(s, nil, "numprocs_start", 0)
	if n < 1 {
		r.plan.Leave(s.keys["numprocs"].at, nil, move.Invalid, "["+move.Short(s.name)+"]", "it is left out: numprocs is below 1")
	}
	if n > maxProcesses {
		r.plan.Leave(s.keys["numprocs"].at, nil, move.Bound, "numprocs", "import makes at most "+itoa(maxProcesses)+" services of one program; write the others, or a kind with a profile for each")
		n = maxProcesses
	}
	group := name
	rank := r.integer(s, nil, "priority", 999)
	if g.name != "" {
		group, rank = g.name, g.priority
	}
	for i := first; i < first+n; i++ {
		names := map[string]string{
			"program_name": name, "group_name": group, "here": s.here, "process_num": itoa(i), "numprocs": itoa(n),
		}
		maps.Copy(names, r.env)
		called := name
		if v, there := s.keys["process_name"]; there {
			if text, err := r.expand(v.text, names); err == nil {
				called = text
			} else if i == first {
				r.plan.Leave(v.at, nil, move.Invalid, "process_name", err.Error()+"; the program's name stands for it")
			}
		}
		if n > 1 && called == name {
			called += "-" + itoa(i)
		}
		process := called
		if r.plan.Find(called) != nil {
			called = group + "-" + called
		}
		service := r.plan.New(called, s.at)
		if service == nil {
			return
		}
		service.Comment = append(service.Comment, "["+s.name+"]")
		if g.name != "" {
			service.Comment[0] += ", of the group " + g.name
		}
		r.rank[service] = rank
		service.Keys.Sub("environment").Set("SUPERVISOR_ENABLED", "1").Set("SUPERVISOR_PROCESS_NAME", process).Set("SUPERVISOR_GROUP_NAME", move.Literal(group))
		r.fill(service, s, names, i == first)
	}
}

// fill reads the keys of a program into a service. Only the first service of a program names
// what is left out.
func (r *reader) fill(to *move.Service, s *section, names map[string]string, says bool) {
	leave := func(v value, reason move.Reason, what, why string) {
		if says {
			r.plan.Leave(v.at, to, reason, what, why)
		}
	}
	text := func(key string) string {
		v, there := s.keys[key]
		if !there {
			return ""
		}
		out, err := r.expand(v.text, names)
		if err != nil {
			leave(v, move.Invalid, key, err.Error()+"; write what it stands for")
		}
		return out
	}
	k := &to.Keys
	env, err := variables(text("environment"))
	if err != nil {
		leave(s.keys["environment"], move.Invalid, "environment", err.Error())
	}
	for _, name := range env.Keys() {
		v, _ := env.Get(name).(string)
		k.Sub("environment").Set(name, v)
		names[envPrefix+name] = v
	}
	command, err := words.Split(text("command"))
	switch {
	case err != nil:
		leave(s.keys["command"], move.Invalid, "command", err.Error()+"; mend it")
	case len(command) == 0:
		leave(value{at: s.at}, move.Invalid, "command", "the program has none; write one")
	}
	k.Set("command", command)
	k.Set("working_dir", cmp.Or(text("directory"), "/")) // where supervisord is started in a container
	k.Add("umask", text("umask"))
	r.account(to, s, text("user"), leave)
	r.home(to, s)
	if !s.is("autostart", true) {
		k.Set("enabled", false)
	}
	r.restarts(to, s, leave)
	r.stop(to, s)
	r.logs(to, s, leave)
	for _, key := range sortedKeys(s) {
		if !slices.Contains(numbered, key) && !logKey.MatchString(key) {
			reason, why := move.Unknown, "import knows no such key of a program; look whether something needs it"
			if key == "serverurl" {
				reason, why = move.NoEqual, "nothing here sets SUPERVISOR_SERVER_URL; ask rlminit, by rlminit status or its control socket"
			}
			leave(s.keys[key], reason, key, why)
		}
	}
}

// account sets the user: never root.
func (r *reader) account(to *move.Service, s *section, user string, leave func(value, move.Reason, string, string)) {
	v, own := s.keys["user"]
	if !own {
		user, v = r.user, value{at: s.at}
	}
	if user == "" || user == "root" || user == "0" {
		what := "user"
		if own {
			what = "user=" + user
		}
		leave(v, move.Rights, what, "supervisord runs it as root, and no service here is root: it runs as user says; give that user the files which it needs, or the rights (sandbox: {capabilities: […]})")
		return
	}
	to.Keys.Set("user", user)
}

// home says once that HOME is another.
func (r *reader) home(to *move.Service, s *section) {
	if _, all := r.env[envPrefix+"HOME"]; r.said || all || to.Keys.Sub("environment").Has("HOME") {
		return
	}
	r.said = true
	r.plan.Leave(s.at, to, move.Near, "HOME", "supervisord leaves HOME as it finds it, which is /root mostly, and sets no USER; rlminit sets HOME, USER and LOGNAME of each service's user; write HOME in environment where a program keeps its files elsewhere")
}

// restarts says when the service is started again. supervisord starts a program at once after
// a run of startsecs or more. After a shorter one it waits, and it gives up when startretries
// more of these have followed each other. Here the pause is a quarter of startsecs, so that
// short runs and long ones can be told apart by how many there are in a time.
func (r *reader) restarts(to *move.Service, s *section, leave func(value, move.Reason, string, string)) {
	policy := "on-failure"
	if v, there := s.keys["autorestart"]; there && strings.ToLower(strings.TrimSpace(v.text)) != "unexpected" {
		policy = "no"
		if truth(v.text) {
			policy = "always"
		}
	}
	if v, there := s.keys["exitcodes"]; there && policy == "on-failure" {
		codes, err := integers(v.text)
		if err != nil {
			leave(v, move.Invalid, "exitcodes", err.Error())
		} else {
			to.Keys.Sub("exits").Set("success", codes)
		}
	}
	if policy == "no" {
		to.Keys.Set("restart", "no")
		return
	}
	m := to.Keys.Sub("restart").Set("policy", policy)
	secs := time.Duration(min(max(r.integer(s, to, "startsecs", 1), 0), 24*3600)) * time.Second
	if secs == 0 { // every run is long enough
		m.Set("limit", 0)
		return
	}
	// Runs that last startsecs never reach the limit: so many take longer than the window.
	tries := min(max(r.integer(s, to, "startretries", 3), 0), 1000) + 1
	m.Set("delay", move.Time(secs/4)).Set("factor", 1).Set("jitter", 0).Set("reset_after", move.Time(secs)).
		Set("limit", tries).Set("window", move.Time(time.Duration(tries)*secs)).Set("retry_failed", "0")
}

func (r *reader) stop(to *move.Service, s *section) {
	stop := to.Keys.Sub("stop")
	if v, there := s.keys["stopsignal"]; there {
		stop.Set("signal", move.Literal(strings.ToUpper(strings.TrimSpace(v.text))))
	}
	stop.Set("timeout", move.Time(time.Duration(min(max(r.integer(s, to, "stopwaitsecs", 10), 1), math.MaxInt32))*time.Second))
	if !s.is("stopasgroup", false) {
		stop.Set("kill", "main")
	}
}

// logKey are the keys about what a program writes.
var logKey = regexp.MustCompile(`^(stdout|stderr)_(logfile|logfile_maxbytes|logfile_backups|capture_maxbytes|events_enabled|syslog)$`)

// logs says where what the service writes goes. rlminit has one log of a service, for both.
func (r *reader) logs(to *move.Service, s *section, leave func(value, move.Reason, string, string)) {
	both := !s.is("redirect_stderr", false)
	size, files := 0, -1
	for _, of := range []string{"stdout", "stderr"} {
		if of == "stderr" && !both {
			continue
		}
		for _, key := range []string{"_logfile", "_capture_maxbytes", "_events_enabled", "_syslog"} {
			if v, there := s.keys[of+key]; there {
				r.logOf(of, key, v, leave)
			}
		}
		v, said := s.keys[of+"_logfile_maxbytes"]
		_, named := s.keys[of+"_logfile"]
		if !inFile(s.keys[of+"_logfile"].text) || of == "stderr" && !said && !named && size > 0 { // stdout is what people have thought of
			continue
		}
		files = max(files, r.integer(s, to, of+"_logfile_backups", 10))
		bytes, ok := byteSize(v.text)
		switch {
		case !said:
			bytes = 50 << 20
		case !ok:
			leave(v, move.Invalid, of+"_logfile_maxbytes", move.Short(v.text)+" is no size")
		case bytes == 0:
			leave(v, move.NoEqual, of+"_logfile_maxbytes", "supervisord lets the file grow for ever; no log here does: at log: {max_size: 1MB} it is rotated, and max_files, 10, are kept; write larger ones, or log: {forward: …}")
		}
		size = max(size, bytes)
	}
	if size > 0 { // the log has both streams, and is as large as the larger of theirs
		to.Keys.Sub("log").Set("max_size", sized(size)).Set("max_files", max(files, 0))
	}
}

// inFile tells whether supervisord keeps what goes to such a logfile in a file: its default,
// AUTO, is one.
func inFile(text string) bool {
	switch text = strings.ToLower(strings.TrimSpace(text)); text {
	case "none", "off", "syslog":
		return false
	}
	return !strings.HasPrefix(text, "/dev/") && !strings.HasPrefix(text, "/proc/")
}

// sized is a number of bytes as people write it.
func sized(n int) string {
	if n%(1<<20) == 0 {
		return itoa(n>>20) + "MiB"
	}
	return itoa(n)
}

func (r *reader) logOf(of, key string, v value, leave func(value, move.Reason, string, string)) {
	text := strings.TrimSpace(v.text)
	switch key {
	case "_logfile":
		switch low := strings.ToLower(text); {
		case low == "auto" || text == "/dev/stdout" || text == "/dev/stderr" || text == "/dev/fd/1" || text == "/dev/fd/2":
			return // its log, and the container's stdout, have it
		case low == "none" || low == "off" || text == "/dev/null":
			leave(v, move.Near, of+key, "rlminit keeps a log of each service, which status quotes from; log: {file: false} keeps the newest lines only")
		case low == "syslog":
			leave(v, move.NoEqual, of+key, "rlminit sends no syslog by itself; log: {forward: {to: unix:/dev/log, format: rfc5424}} does")
		default:
			leave(v, move.NoEqual, of+key, "rlminit keeps the log in $RLMINIT_HOME/logs/services/NAME/current; what reads "+move.Short(text)+" must read that, or rlminit logs NAME")
		}
	case "_syslog":
		if truth(text) {
			leave(v, move.NoEqual, of+key, "rlminit sends no syslog by itself; log: {forward: {to: unix:/dev/log, format: rfc5424}} does")
		}
	default:
		if n, ok := byteSize(text); truth(text) || ok && n > 0 {
			leave(v, move.NoEqual, of+key, "rlminit speaks no event protocol of supervisord's; write a hook (key hooks)")
		}
	}
}

// byteSize is a size as supervisord writes it: 50MB, with 1024 to the KB.
func byteSize(text string) (int, bool) {
	text = strings.ToUpper(strings.TrimSpace(text))
	for suffix, factor := range map[string]int{"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30} {
		if digits, is := strings.CutSuffix(text, suffix); is {
			n, err := strconv.Atoi(strings.TrimSpace(digits))
			return n * factor, err == nil && n >= 0 && n < math.MaxInt32
		}
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0
}

func integers(text string) (list []int, err error) {
	for _, f := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' }) {
		i, err := strconv.Atoi(f)
		if err != nil {
			return nil, errors.New(move.Short(f) + " is no exit code; write numbers")
		}
		list = append(list, i)
	}
	return list, nil
}

var pair = regexp.MustCompile(`^\s*([^\s=,"']+)\s*=\s*("[^"]*"|'[^']*'|[^\s,"']*)\s*(?:,|$)`)

// variables reads KEY=value,KEY2="a value", which is in rlminit's syntax already.
func variables(text string) (*move.Map, error) {
	env := &move.Map{}
	for rest := text; strings.TrimSpace(rest) != ""; {
		m := pair.FindStringSubmatch(rest)
		if m == nil {
			return env, errors.New(move.Short(rest) + " is no KEY=\"value\"; write environment: {KEY: value}")
		}
		env.Set(m[1], strings.Trim(m[2], `"'`))
		rest = rest[len(m[0]):]
	}
	return env, nil
}
