// Package supervisord reads the configuration of supervisord(1): programs, groups, and what
// [include] names. It knows the format of supervisor 4 and what each key means there; the
// table of what becomes of each is in docs/import.md.
package supervisord

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"rlminit/beside/move"
)

// reader is one import.
type reader struct {
	tree     *move.Tree
	plan     *move.Plan
	sections []*section
	files    []string
	failed   error
	user     string                // of [supervisord], as the next
	env      map[string]string     // in rlminit's syntax, by the names that %(ENV_NAME)s has
	said     bool                  // what becomes of HOME
	rank     map[*move.Service]int // the priority of a service's group, or its own without one
}

// Import reads the files by these paths into a plan.
func Import(tree *move.Tree, paths []string, plan *move.Plan) error {
	r := &reader{tree: tree, plan: plan, env: map[string]string{}, rank: map[*move.Service]int{}}
	if err := r.read(paths); err != nil {
		return err
	}
	r.own()
	groups := r.groups()
	for _, s := range r.sections {
		kind, name, _ := strings.Cut(s.name, ":")
		name = strings.TrimSpace(name)
		switch {
		case kind == "program":
			r.program(s, name, groups[name])
		case kind == "eventlistener":
			r.plan.Leave(s.at, nil, move.NoEqual, "["+move.Short(s.name)+"]", "rlminit speaks no event protocol of supervisord's; write a hook (key hooks) that runs a command for each event")
		case kind == "fcgi-program":
			r.plan.Leave(s.at, nil, move.NoEqual, "["+move.Short(s.name)+"]", "rlminit passes sockets by LISTEN_FDS, not as stdin; write a service with sockets, or have the program listen itself")
		}
	}
	r.order()
	return nil
}

// own reads supervisord's own sections.
func (r *reader) own() {
	for _, s := range r.sections {
		kind, _, _ := strings.Cut(s.name, ":")
		switch kind {
		case "supervisord":
			for _, key := range sortedKeys(s) {
				r.ofSupervisord(key, s.keys[key], s.here)
			}
		case "unix_http_server", "inet_http_server":
			r.plan.Leave(s.at, nil, move.NoEqual, "["+s.name+"]", "rlminit has a control socket of its own, and sets no SUPERVISOR_SERVER_URL; ask it by rlminit status, start and stop, or by HTTP: docs/control.md")
		case "rpcinterface":
			if s.name != "rpcinterface:supervisor" {
				r.plan.Leave(s.at, nil, move.NoEqual, "["+move.Short(s.name)+"]", "it is a plug-in of supervisord's; nothing here loads it")
			}
		case "program", "group", "eventlistener", "fcgi-program", "supervisorctl":
		default:
			r.plan.Leave(s.at, nil, move.Unknown, "["+move.Short(s.name)+"]", "import knows no such section; look whether something needs it")
		}
	}
}

// itself are the keys of [supervisord] that are about supervisord and nothing that it runs.
var itself = []string{
	"logfile", "logfile_maxbytes", "logfile_backups", "loglevel", "pidfile", "nodaemon", "silent", "minfds", "minprocs",
	"nocleanup", "childlogdir", "identifier",
}

func (r *reader) ofSupervisord(key string, v value, here string) {
	text, err := r.expand(v.text, map[string]string{"here": here})
	if err != nil {
		r.plan.Leave(v.at, nil, move.Invalid, key, err.Error())
	}
	switch {
	case key == "user":
		r.user = text
	case key == "umask" || key == "directory":
		r.plan.Leave(v.at, nil, move.Near, key, "supervisord heeds it only when it goes into the background, which it does not with nodaemon=true or -n, so no service has it; if yours did, write "+
			map[string]string{"umask": "umask", "directory": "working_dir"}[key]+" in the services")
	case key == "environment":
		r.environment(v, text, here)
	case key == "strip_ansi" && !truth(v.text):
	case slices.Contains(itself, key):
	default:
		r.plan.Leave(v.at, nil, move.Unknown, key, "rlminit has no such setting for all services; look whether something needs it")
	}
}

// environment reads the variables of all programs. supervisord expands this text twice.
func (r *reader) environment(v value, text, here string) {
	if strings.Contains(text, "%") {
		twice, err := r.expand(strings.ReplaceAll(text, "$$", "$"), map[string]string{"here": here})
		if err != nil {
			r.plan.Leave(v.at, nil, move.Invalid, "environment", "supervisord expands this text twice and refuses it: write %%%% there for one %; here it is "+move.Short(text))
		} else {
			text = twice
		}
	}
	env, err := variables(text)
	if err != nil {
		r.plan.Leave(v.at, nil, move.Invalid, "environment", err.Error())
	}
	for _, name := range env.Keys() {
		r.env[envPrefix+name], _ = env.Get(name).(string)
	}
	r.plan.Top.Add("environment", env)
}

// membership is the group that a program is in.
type membership struct {
	name     string
	priority int
}

// groups are those of programs that a section [group:…] names.
func (r *reader) groups() map[string]membership {
	all := map[string]membership{}
	for _, s := range r.sections {
		name, is := strings.CutPrefix(s.name, "group:")
		if !is {
			continue
		}
		g := membership{strings.TrimSpace(name), r.integer(s, nil, "priority", 999)}
		for _, key := range sortedKeys(s) {
			v := s.keys[key]
			switch key {
			case "programs":
				for _, program := range strings.FieldsFunc(v.text, func(c rune) bool { return c == ',' || c == ' ' || c == '\t' || c == '\n' }) {
					if !slices.ContainsFunc(r.sections, func(o *section) bool {
						return o.name == "program:"+program || o.name == "fcgi-program:"+program
					}) {
						r.plan.Leave(v.at, nil, move.Missing, "["+move.Short(s.name)+"]", "there is no program "+move.Short(program)+"; take it out of programs")
					}
					all[program] = g
				}
			case "priority":
			default:
				r.plan.Leave(v.at, nil, move.Unknown, key, "supervisord has no such key of a group; take it out")
			}
		}
	}
	return all
}

// order makes the priorities into the order of starts: what has the next lower one comes
// before. supervisord waits as little as after does. In a group it starts the programs in the
// order in which the group names them, whatever their own priorities, and waits for none.
func (r *reader) order() {
	all := slices.DeleteFunc(slices.Clone(r.plan.Services), func(s *move.Service) bool { return s.Keys.Get("enabled") == false })
	slices.SortStableFunc(all, func(a, b *move.Service) int { return cmp.Compare(r.rank[a], r.rank[b]) })
	var before, same []*move.Service
	for _, s := range all {
		if len(same) > 0 && r.rank[same[0]] != r.rank[s] {
			before, same = same, nil
		}
		same = append(same, s)
		for _, b := range before {
			s.After = append(s.After, b.Source)
		}
	}
}

func sortedKeys(s *section) []string {
	keys := make([]string, 0, len(s.keys))
	for k := range s.keys {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.keys[a].at.Line, s.keys[b].at.Line), cmp.Compare(a, b))
	})
	return keys
}

// integer is a number of a section; what is none is named, and the default holds.
func (r *reader) integer(s *section, of *move.Service, key string, def int) int {
	v, there := s.keys[key]
	if !there {
		return def
	}
	i, err := strconv.Atoi(strings.TrimSpace(v.text))
	if err != nil {
		r.plan.Leave(v.at, of, move.Invalid, key, move.Short(v.text)+" is no number; "+itoa(def)+" holds, which is supervisord's default")
		return def
	}
	return i
}

// truth is a boolean as supervisord reads one; what is none is false.
func truth(text string) bool {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "y", "yes", "true", "t", "1", "on":
		return true
	}
	return false
}

func (s *section) is(key string, def bool) bool {
	if v, there := s.keys[key]; there {
		return truth(v.text)
	}
	return def
}
