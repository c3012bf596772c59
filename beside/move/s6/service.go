package s6

import (
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/beside/move"
	"rlminit/beside/move/words"
)

// restarts are those of s6-supervise: always, and not more often than once a second.
func restarts(s *move.Service) {
	s.Keys.Sub("restart").Set("policy", "always").Set("delay", "1s").Set("factor", 1).Set("jitter", 0).Set("reset_after", "1s").Set("limit", 0)
	s.Keys.Sub("stop").Set("kill", "main")
}

// service reads a service directory.
func (r *reader) service(dir string) (found bool) {
	name := filepath.Base(dir)
	run := filepath.Join(dir, "run")
	if there, isDir := r.tree.Has(run); !there || isDir {
		r.plan.Leave(move.At{File: dir}, nil, move.Invalid, move.Short(name), "there is no run in it, so s6 runs nothing of it")
		return false
	}
	if r.plan.Find(name) != nil {
		r.plan.Leave(move.At{File: dir}, nil, move.Invalid, move.Short(name), "there is another service of that name in the tree, which is taken")
		return true
	}
	s := r.plan.New(name, move.At{File: run, Line: 1})
	if s == nil {
		return true
	}
	restarts(s)
	command := r.script(run, s)
	if command == nil {
		r.plan.Remove(s)
		return true
	}
	s.Keys.Set("command", command).Set("working_dir", move.Literal(r.tree.Target(dir))) // where s6-supervise starts it
	r.files(dir, s, nil)
	r.logger(filepath.Join(dir, "log", "run"), s)
	if filepath.Base(filepath.Dir(dir)) == "services.d" {
		r.legacy = append(r.legacy, s)
	}
	if !r.changed[s] {
		r.rooted(s, move.At{File: run, Line: 1})
	}
	return true
}

// passive are files of a service directory that say nothing which a definition would have,
// or are read elsewhere.
var passive = []string{
	"run", "type", "log", "supervise", "event", "data", "dependencies", "dependencies.d", "contents", "contents.d",
	"producer-for", "consumer-for", "pipeline-name", "essential", "flag-recommended", "up", "down",
}

// files reads the files beside run. down is one of s6 itself in a service directory, and the
// command of s6-rc that ends a oneshot in a source.
func (r *reader) files(dir string, s *move.Service, u *unit) {
	entries, err := r.tree.List(dir)
	if err != nil {
		r.plan.Leave(move.At{File: dir}, s, move.Invalid, filepath.Base(dir), err.Error())
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		at := move.At{File: path, Line: 1}
		switch name := e.Name(); {
		case name == "down" && u == nil:
			s.Keys.Set("enabled", false)
		case name == "down":
			r.plan.Leave(at, s, move.NoEqual, "down", "rlminit runs nothing when a oneshot is stopped; write a service that does it when it gets its stop signal")
		case name == "finish":
			r.finish(path, s)
		case name == "notification-fd":
			r.descriptor(path, s)
		case name == "down-signal":
			s.Keys.Sub("stop").Set("signal", move.Literal(strings.TrimPrefix(strings.ToUpper(r.word(path)), "SIG")))
		case name == "timeout-kill":
			if ms := r.millis(path, s); ms > 0 {
				s.Keys.Sub("stop").Set("timeout", move.Time(ms))
			} else {
				r.plan.Leave(at, s, move.NoEqual, name, "s6 waits for ever where it is 0; rlminit sends KILL after stop.timeout, 5 s")
			}
		case name == "timeout-up":
			r.timeoutUp(path, s)
		case name == "timeout-finish" || name == "timeout-down":
			r.plan.Leave(at, s, move.NoEqual, name, "nothing here runs after a service has ended, so there is nothing to bound")
		case name == "max-death-tally":
			r.tally(path, s)
		case name == "env":
			r.directory(path, s)
		case slices.Contains(passive, name) || strings.HasPrefix(name, ".") || e.IsDir() && u == nil && name == "instance":
		case name == "nosetsid" || name == "lock-fd" || name == "flag-essential" || name == "flag-newpidns" || name == "instances":
			r.plan.Leave(at, s, move.NoEqual, name, "rlminit has nothing of the kind: each service has a session of its own, and may be stopped")
		case e.IsDir() || r.isData(path):
		default:
			r.plan.Leave(at, s, move.Unknown, move.Short(name), "import knows no such file of a service; look whether the service needs it")
		}
	}
}

// isData tells whether a file beside run is the service's own: a script or a configuration,
// of which s6 takes no notice, and which stays where it is.
func (r *reader) isData(path string) bool {
	return strings.Contains(filepath.Base(path), ".") || r.tree.Executable(path)
}

// word is the first word of a file, "" for none.
func (r *reader) word(path string) string {
	data, err := r.tree.Read(path)
	if f := strings.Fields(string(data)); err == nil && len(f) > 0 {
		return f[0]
	}
	return ""
}

// millis is the time that a file has, in milliseconds.
func (r *reader) millis(path string, s *move.Service) time.Duration {
	ms, err := strconv.Atoi(r.word(path))
	if err != nil || ms < 0 || ms > math.MaxInt32 {
		r.plan.Leave(move.At{File: path, Line: 1}, s, move.Invalid, filepath.Base(path), move.Short(r.word(path))+" is no number of milliseconds; the default holds")
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

func (r *reader) timeoutUp(path string, s *move.Service) {
	ms := r.millis(path, s)
	if ms == 0 {
		return
	}
	if s.Keys.Get("type") == "oneshot" {
		r.plan.Leave(move.At{File: path, Line: 1}, s, move.NoEqual, "timeout-up", "a oneshot may take as long as it likes here; write timeout in the command, by timeout(1), or make it a command of boot, which has one")
		return
	}
	s.Keys.Sub("ready").Set("timeout", move.Time(ms))
}

// tally reads max-death-tally: how many deaths s6-permafailon and s6-rc remember.
func (r *reader) tally(path string, s *move.Service) {
	r.plan.Leave(move.At{File: path, Line: 1}, s, move.NoEqual, "max-death-tally", "rlminit counts starts itself; restart: {limit, window} says after how many a service is failed")
}

// directory reads an env directory, as s6-envdir has it: a file for each variable.
func (r *reader) directory(dir string, s *move.Service) {
	for _, path := range r.scripts(dir) {
		if data, err := r.tree.Read(path); err == nil {
			first, _, _ := strings.Cut(string(data), "\n")
			s.Keys.Sub("environment").Set(filepath.Base(path), move.Literal(strings.TrimRight(first, " \t")))
		}
	}
}

// finish names what runs after each end of the service. What it is most often for, the end
// of the container with the service, is main.exit_on.
func (r *reader) finish(path string, s *move.Service) {
	data, err := r.tree.Read(path)
	at := move.At{File: path, Line: 1}
	if err != nil {
		r.plan.Leave(at, s, move.Invalid, "finish", "it cannot be read: "+err.Error())
		return
	}
	ends := false
	for l := range strings.Lines(string(data)) {
		l = strings.TrimSpace(l)
		ends = ends || !strings.HasPrefix(l, "#") && (strings.Contains(l, "s6-svscanctl") || strings.Contains(l, "basedir/bin/halt"))
	}
	if main := r.plan.Top.Sub("main"); ends && !main.Has("exit_on") {
		main.Set("exit_on", s.Name)
		s.Comment = append(s.Comment, "its finish ends the container: main.exit_on")
		r.plan.Leave(at, s, move.Near, "finish", "it ends the container, which main: {exit_on: "+s.Name+"} does whenever the service has ended for good; what else the script does is not done")
		s.Keys.Set("restart", "no")
		return
	}
	if len(r.plan.Top.Sub("main").Keys()) == 0 {
		r.plan.Top.Drop("main")
	}
	r.plan.Leave(at, s, move.NoEqual, "finish", "rlminit runs nothing after a service has ended; do it at the start of run, or by a hook (key hooks) on backoff, failed and stopped")
}

// notifier is s6-notifyoncheck, which asks a program again and again until the service is
// ready, with what follows it in its line.
var notifier = regexp.MustCompile(`(?m)^[^#\n]*?\bs6-notifyoncheck\s+(.*)$`)

// check makes what s6-notifyoncheck asks into the probe, and tells whether the script of a
// service has it. The service's own data/check is asked, or what -c names.
func (r *reader) check(dir, run string, s *move.Service) bool {
	data, err := r.tree.Read(run)
	text := strings.ReplaceAll(string(data), "\\\n", " ")
	if first, rest, _ := strings.Cut(text, "\n"); strings.Contains(first, "execlineb") {
		text = strings.ReplaceAll(rest, "\n", " ") // a line end is a blank there
	}
	m := notifier.FindStringSubmatch(text)
	if err != nil || m == nil {
		return false
	}
	at := move.At{File: run, Line: 1 + strings.Count(string(data)[:strings.Index(string(data), "s6-notifyoncheck")], "\n")}
	path := filepath.Join(dir, "data", "check")
	switch line := checkOption.FindStringSubmatch(m[1]); {
	case line != nil:
		text = strings.ReplaceAll(line[1], `\"`, `"`) + line[2] + line[3]
		s.Keys.Sub("ready").Set("exec", checkLine(text))
		r.plan.Leave(at, s, move.Near, "s6-notifyoncheck -c", "ready: {exec: […]} asks "+move.Short(text)+" with the service's environment, until ready.timeout; look whether that is all it needs")
	case r.isFile(path):
		s.Keys.Sub("ready").Set("exec", r.script(path, s))
	default:
		r.plan.Leave(at, s, move.Missing, "s6-notifyoncheck", "there is no data/check that it could ask; write ready: {exec: […]}, or the service is ready when its process runs")
	}
	return true
}

// checkOption is -c of s6-notifyoncheck and its line, behind other options.
var checkOption = regexp.MustCompile(`^(?:-d?\s+|-d?[3sTtwn]\s*\S+\s+)*-d?c\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|(\S+))`)

// checkLine is a command of a line of execline, in which a shell may have put variables.
func checkLine(line string) []string {
	list, err := words.Split(line)
	switch {
	case strings.ContainsAny(line, "{}") && !strings.Contains(line, "${") || err != nil || len(list) == 0:
		return []string{"execlineb", "-P", "-c", move.Literal(line)}
	case strings.Contains(line, "$"):
		return []string{"sh", "-c", move.Literal(line)}
	}
	return move.Literals(list)
}

// fills tells whether the script that a service runs has a word about a descriptor.
func (r *reader) fills(run string, fd int) bool {
	data, err := r.tree.Read(run)
	if err != nil || strings.HasPrefix(string(data), "\x7fELF") {
		return err == nil
	}
	number := regexp.MustCompile(`(^|[^0-9A-Za-z.:/])` + strconv.Itoa(fd) + `([^0-9A-Za-z.:/]|$)`)
	for l := range strings.Lines(string(data)) {
		if l = strings.TrimSpace(l); !strings.HasPrefix(l, "#") && number.MatchString(l) {
			return true
		}
	}
	return false
}

// descriptor makes a service ready when it writes to a descriptor. rlminit knows sd_notify
// and probes alone: the descriptor is a file, and the probe waits until something is in it.
func (r *reader) descriptor(path string, s *move.Service) {
	dir := filepath.Dir(path)
	run := filepath.Join(dir, "run")
	if r.check(dir, run, s) {
		return
	}
	fd, err := strconv.Atoi(r.word(path))
	if err != nil || fd < 3 || fd > 9 {
		r.plan.Leave(move.At{File: path, Line: 1}, s, move.NoEqual, "notification-fd", move.Short(r.word(path))+" is no descriptor from 3 to 9, which are those that a shell can open; write ready: {…} with a probe")
		return
	}
	if !r.fills(run, fd) {
		r.plan.Leave(move.At{File: path, Line: 1}, s, move.Near, "notification-fd", "run has no word about the descriptor "+strconv.Itoa(fd)+", so the service is ready when its process runs; write ready: {tcp: …} or {exec: […]}")
		return
	}
	s.Keys.Set("fd", fd)
	r.ready = append(r.ready, s)
}

// readyDir is the directory on the volume where services leave word that they are ready.
const readyDir = "ready"

// readiness wraps the services that are ready by a descriptor.
func (r *reader) readiness() {
	var made []*move.Map
	for _, s := range r.ready {
		fd, _ := s.Keys.Get("fd").(int)
		s.Keys.Drop("fd")
		command, _ := s.Keys.Get("command").([]string)
		if len(command) == 0 {
			continue
		}
		file := "${RLMINIT_HOME}/" + readyDir + "/" + s.Name + "/fd"
		dir := &move.Map{}
		dir.Set("path", readyDir+"/"+s.Name)
		if user, _ := s.Keys.Get("user").(string); user != "" {
			dir.Set("owner", user)
		}
		made = append(made, dir)
		n := strconv.Itoa(fd)
		s.Keys.Set("command", append([]string{"sh", "-c", `f=$$1; shift; rm -f "$$f"; exec ` + n + `>"$$f"; exec "$$@"`, "sh", file}, command...))
		s.Keys.Sub("ready").Set("exec", []string{"test", "-s", file})
		s.Comment = append(s.Comment, "its descriptor "+n+", by which it says that it is ready, is a file that the probe looks at")
	}
	if len(made) > 0 {
		top := &move.Map{}
		top.Set("path", readyDir).Set("mode", "0755")
		r.plan.Top.Set("dirs", append([]*move.Map{top}, made...))
	}
	for _, s := range r.plan.Services {
		switch ready, is := s.Keys.Get("ready").(*move.Map); {
		case is && !ready.Has("exec"):
			s.Keys.Drop("ready") // a timeout alone: nothing says when it is ready
		case is && !ready.Has("timeout"):
			ready.Set("timeout", "1h") // s6 waits for ever
		}
	}
}

// loggers are s6-log, and what runs it for s6-overlay.
var loggers = regexp.MustCompile(`s6-log|logutil-service`)

// logger reads log/run, or the consumer of a pipeline: rlminit keeps the log itself, and
// takes over how large s6-log lets it become.
func (r *reader) logger(path string, s *move.Service) {
	if there, dir := r.tree.Has(path); !there || dir {
		return
	}
	data, err := r.tree.Read(path)
	if err != nil {
		r.plan.Leave(move.At{File: path}, s, move.Invalid, "log", "it cannot be read: "+err.Error())
		return
	}
	n := 0
	for l := range strings.Lines(string(data)) {
		n++
		at := loggers.FindStringIndex(l)
		if trimmed := strings.TrimSpace(l); at == nil || strings.HasPrefix(trimmed, "#") {
			continue
		}
		args, err := words.Split(strings.TrimSpace(l[at[1]:]))
		if err != nil {
			break
		}
		dir := "its directory"
		for _, a := range args {
			switch i, err := strconv.Atoi(strings.TrimLeft(a, "ns")); {
			case err == nil && strings.HasPrefix(a, "n") && i > 0:
				s.Keys.Sub("log").Set("max_files", i)
			case err == nil && strings.HasPrefix(a, "s") && i > 0:
				s.Keys.Sub("log").Set("max_size", strconv.Itoa(i))
			case strings.HasPrefix(a, "/"):
				dir = a
			}
		}
		r.plan.Leave(move.At{File: path, Line: n}, s, move.Near, "log", "rlminit keeps the log itself, in $RLMINIT_HOME/logs/services/"+s.Name+"; what reads "+move.Short(dir)+" must read that, or rlminit logs "+s.Name)
		return
	}
	r.plan.Leave(move.At{File: path, Line: 1}, s, move.NoEqual, "log", "rlminit keeps the log itself, and passes it to no other program; log: {forward: …} sends it on")
}
