package s6

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"rlminit/beside/move"
	"rlminit/beside/move/words"
)

// contenv is what runs a program with the container's variables, which every service of
// rlminit has anyway.
const contenv = "with-contenv"

// script is the command that runs a script of the tree: the script itself, or, where its
// first line asks for with-contenv, the interpreter after that, so that the image needs none
// of s6's programs for it. Of what the script calls it names what cannot work here. It is
// nil if the script cannot be read, which is said.
func (r *reader) script(path string, s *move.Service) []string {
	at := move.At{File: path, Line: 1}
	data, err := r.tree.Read(path)
	if err != nil {
		r.plan.Leave(move.At{File: path}, s, move.Invalid, filepath.Base(path), "it cannot be read: "+err.Error()+"; it is left out")
		return nil
	}
	target := move.Literal(r.tree.Target(path))
	first, _, _ := strings.Cut(string(data), "\n")
	interpreter := strings.Fields(strings.TrimPrefix(first, "#!"))
	if strings.HasPrefix(string(data), "\x7fELF") {
		return []string{target}
	}
	r.calls(path, s, data)
	if !strings.HasPrefix(first, "#!") || len(interpreter) == 0 {
		r.plan.Leave(at, s, move.Near, filepath.Base(path), "it has no first line with an interpreter; sh runs it")
		return []string{"sh", target}
	}
	interpreter, direct := withoutContenv(interpreter)
	if len(interpreter) == 0 {
		r.plan.Leave(at, s, move.Invalid, contenv, "it names no program after it; write #!/bin/sh")
		return []string{"sh", target}
	}
	if filepath.Base(interpreter[0]) == "execlineb" {
		r.plan.Leave(at, s, move.Near, "execlineb", "the script needs the program execlineb; keep the package execline in the image, or write the script for sh")
	}
	if direct && r.tree.Executable(path) {
		return []string{target}
	}
	return append(move.Literals(interpreter), target)
}

// withoutContenv is what a first line names after with-contenv, which env, or env -S, may
// start. Direct is true if there is no with-contenv in it.
func withoutContenv(words []string) (rest []string, direct bool) {
	direct = true
	for {
		after := words
		if len(after) > 0 && filepath.Base(after[0]) == "env" {
			if after = after[1:]; len(after) > 0 && after[0] == "-S" {
				after = after[1:]
			}
		}
		if len(after) == 0 || filepath.Base(after[0]) != contenv {
			return words, direct
		}
		words, direct = after[1:], false
	}
}

// call is a program of s6 that a script calls, and what is to be done about it.
type call struct {
	name   *regexp.Regexp
	reason move.Reason
	why    string
}

func named(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[\s;&|(/"'])(` + pattern + `)(?:$|[\s;&|)"'])`)
}

// calls are looked for in each line that is no comment.
var calls = []call{
	{named(`(?:/\S*/)?s6-setuidgid`), move.Rights, "s6's own needs root to change the user, which the service is already (key user); the one of rlminit install-compat starts the program at once then, so make its links, or take the word and the user out of the line"},
	{named(`(?:/\S*/)?(?:s6-applyuidgid|s6-envuidgid|su-exec|gosu|setuidgid|chpst|setpriv|sudo|runuser|su)`), move.Rights, "it needs root to change the user, and the service has its user already (key user); take the word, its options and the user out of the line"},
	{named(`(?:/\S*/)?with-contenv`), move.Near, "a service has the container's variables anyway; take the word out of the line"},
	{named(`s6-svc|s6-svstat|s6-svwait|s6-svok`), move.Near, "it asks s6's own directories; make links of these names by rlminit install-compat, or write rlminit start, stop --runtime, restart, status, wait; a service that commands others needs control: true"},
	{named(`s6-svlink|s6-rc`), move.Near, "it asks s6's own directories; write rlminit start, stop --runtime, status; a service that commands others needs control: true"},
	{named(`s6-svscanctl|/run/s6/basedir/bin/halt|s6-linux-init-shutdown`), move.NoEqual, "s6's own stop is not there; write rlminit shutdown in a service with control: true, or main: {exit_on: NAME}"},
	{named(`s6-notifyoncheck`), move.Near, "s6's own works under s6-supervise alone; the one of rlminit install-compat starts its program at once, and the service's key ready has the check, so make its links, or take the word and its options out of the line"},
	{named(`s6-envdir`), move.Near, "what a directory env has is in the service's environment already; take the word and the directory out of the line, or keep the package s6 in the image for others"},
	{named(`s6-log|s6-fdholder-[a-z-]+|s6-ipcserver[a-z-]*|s6-tcpserver[a-z0-9-]*|s6-sudo[a-z]*|s6-softlimit|s6-fghack|s6-maximumtime`), move.Near, "the image must keep the package s6, which has this program"},
	{regexp.MustCompile(`(/run/s6/container_environment|/etc/s6-overlay/(?:env|s6-container-environment)|/var/run/s6/container_environment)`), move.NoEqual, "variables are not passed on by files there; write the key environment, or an env_file that the script writes and the services name"},
}

// calls names what a script calls and cannot have here, each once, and takes the user that
// it changes to.
func (r *reader) calls(path string, s *move.Service, data []byte) {
	said := map[string]bool{}
	n := 0
	for l := range strings.Lines(string(data)) {
		n++
		trimmed := strings.TrimSpace(l)
		if strings.HasPrefix(trimmed, "#") {
			continue
		}
		for _, c := range calls {
			m := c.name.FindStringSubmatch(trimmed)
			if m == nil || said[m[1]] {
				continue
			}
			said[m[1]] = true
			if c.reason == move.Rights {
				r.takeUser(s, trimmed)
			}
			r.plan.Leave(move.At{File: path, Line: n}, s, c.reason, m[1], c.why)
		}
	}
}

// account is a user of a command line, with a group behind a colon, or a variable, in which
// case both are empty.
const account = `["']?(?:([A-Za-z0-9_][A-Za-z0-9_.-]*)(?::([A-Za-z0-9_][A-Za-z0-9_.-]*))?|\$[^\s"']*)["']?(?:\s|$)`

// changes are the ways in which a line changes the user.
var changes = []*regexp.Regexp{
	regexp.MustCompile(`(?:setuidgid|su-exec|gosu)\s+` + account),
	regexp.MustCompile(`chpst\s(?:.*?\s)?-u\s*:?` + account),
	regexp.MustCompile(`(?:sudo|runuser)\s(?:.*?\s)?(?:-u\s*|--user[ =])` + account),
	regexp.MustCompile(`s6-applyuidgid\s(?:.*?\s)?-u\s*["']?(\d+)["']?(?:\s+-g\s*["']?(\d+)["']?)?\s`),
	regexp.MustCompile(`setpriv\s(?:.*?\s)?--reuid[ =]([A-Za-z0-9_.-]+)(?:\s+--regid[ =]([A-Za-z0-9_.-]+))?\s`),
	regexp.MustCompile(`(?:^|[\s;&|(/])su\s+(?:-s\s+\S+\s+|-[lmp]?\s+)*` + account + `(?:-s\s+\S+\s+)?-c\s`),
}

// takeUser sets the service's user to the one that a line of its script changes to. Where
// that is a variable, it is the container's, which PUID and PGID change.
func (r *reader) takeUser(s *move.Service, l string) {
	for _, c := range changes {
		m := c.FindStringSubmatch(l)
		switch {
		case m == nil || m[1] == "root" || m[1] == "0" || r.changed[s]:
		case m[1] == "":
			r.changed[s] = true
			s.Comment = append(s.Comment, "a variable has its user, which is the container's here: PUID and PGID change that (remap)")
		default:
			r.changed[s] = true
			s.Keys.Set("user", m[1]).Add("group", m[2])
			s.Comment = append(s.Comment, "its user is the one that the script changes to")
		}
	}
}

// commandLine is the command of an `up` of s6-rc: a command line of execline. Simple words
// are a command as they are; blocks and variables need execlineb itself.
func (r *reader) commandLine(path string, s *move.Service) []string {
	data, err := r.tree.Read(path)
	if err != nil {
		r.plan.Leave(move.At{File: path}, s, move.Invalid, filepath.Base(path), "it cannot be read: "+err.Error()+"; it is left out")
		return nil
	}
	if strings.HasPrefix(string(data), "#!") {
		// A whole line after # is a comment to execline, but people write scripts here, and
		// s6-rc runs these by their first line's interpreter only where that is execlineb.
		first, _, _ := strings.Cut(string(data), "\n")
		if !strings.Contains(first, "execlineb") {
			r.plan.Leave(move.At{File: path, Line: 1}, s, move.Near, filepath.Base(path), "s6-rc reads it as a line of execline and not as a script; here its first line counts")
			return r.script(path, s)
		}
	}
	var lines []string
	for l := range strings.Lines(string(data)) {
		if trimmed := strings.TrimSpace(l); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			lines = append(lines, trimmed)
		}
	}
	r.calls(path, s, data)
	text := strings.Join(lines, " ")
	list, err := words.Split(text)
	if err == nil && len(list) > 0 && filepath.Base(list[0]) == contenv {
		list = list[1:]
	}
	switch {
	case text == "" || err == nil && len(list) == 0:
		return []string{"true"}
	case err != nil || slices.ContainsFunc(list, func(w string) bool { return w == "{" || w == "}" || strings.Contains(w, "$") }) || block.MatchString(list[0]):
		r.plan.Leave(move.At{File: path, Line: 1}, s, move.Near, "execlineb", "the line needs the program execlineb; keep the package execline in the image, or write a script for sh")
		return []string{"execlineb", "-P", "-c", move.Literal(text)}
	}
	rest := move.Literals(list[1:])
	if path := r.tree.Source(list[0]); strings.HasPrefix(list[0], "/") && r.isFile(path) {
		// The script's own first line may ask for with-contenv.
		if command := r.script(path, s); command != nil {
			return append(command, rest...)
		}
	}
	r.follow(list[1:], s)
	return append(move.Literals(list[:1]), rest...)
}

func (r *reader) isFile(path string) bool {
	there, dir := r.tree.Has(path)
	return there && !dir
}

// block are programs of execline that are no command by themselves.
var block = regexp.MustCompile(`^(if|ifelse|ifte|ifthenelse|foreground|background|redirfd|fdmove|fdclose|export|import|importas|define|elgetopt|exec|cd|umask|backtick|multisubstitute|unexport|emptyenv|s6-[a-z-]+)$`)

// follow looks into the scripts that an up has as arguments, as of a shell.
func (r *reader) follow(command []string, s *move.Service) {
	for _, w := range command {
		if !strings.HasPrefix(w, "/") {
			continue
		}
		path := r.tree.Source(w)
		if r.isFile(path) && !r.scanned[path] {
			r.scanned[path] = true
			if data, err := r.tree.Read(path); err == nil && !strings.HasPrefix(string(data), "\x7fELF") {
				r.calls(path, s, data)
			}
		}
	}
}
