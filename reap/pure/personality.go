package pure

import "rlminit/reap/sys"

// personality is an init as which this binary speaks and acts: its command line, its
// texts, and what it does when something happens. An empty text is not said.
type personality struct {
	flags          []flag
	long           bool   // flags have long names
	permute        bool   // flags are also looked for behind the first word that is none
	fault          string // said behind what is wrong with a flag
	closeInherited bool   // no descriptor that we were given stays open

	missing string // logged where the command line names no program
	none    string // and said then

	prefix      func(level int, pid string) string // of each line
	errorsOnly  bool                               // what is said goes to stderr, also what is no warning
	noSubreaper string                             // said before an init ends that could not become one
	noOrphans   string                             // said where orphans go to another process
	noChildren  string                             // said when nobody is left to wait for

	place   func(*mainCommand, *sys.Signals)        // sets signals and the terminal before the command starts
	prepare func(*mainCommand, *sys.Command)        // changes how the command starts
	started func(*mainCommand, *sys.Command)        // tells of its start
	notRun  func(*mainCommand, *sys.Command) int    // says why the program could not be executed, and returns the exit code
	forward func(*mainCommand, int32)               // hands a signal on
	reaped  func(*mainCommand, sys.Wait, bool) bool // a child has ended, the first since we looked; returns true to look no further
}

// flag is an option of a command line.
type flag struct {
	letter byte
	name   string                      // behind two dashes; "" where it has none
	to     int32                       // where text is written
	text   string                      // written, and the init is done; % is the name that it was called by
	on     func(*options)              // what it does
	set    func(*options, string) bool // the same of one that has a value, which may make no sense
}

// read reads the command line of an init. name is what its texts call it: getopt calls it
// by the whole of its path. done tells that it was no command to run, or a wrong one, and
// code is what to exit with.
func (o *options) read(args []string, name string) (code int, done bool) {
	words, fault := o.getopt(args[1:], func(f *flag, value string) bool {
		switch {
		case f.text != "":
			sys.Write(f.to, []byte(named(f.text, name)))
			done = true
		case f.on != nil:
			f.on(o)
		case !f.set(o, value):
			code, done = exitFailed, true
		}
		return !done
	})
	switch {
	case done:
		return code, true
	case fault != "":
		sys.Write(2, []byte(args[0]+": "+fault+"\n"+named(o.as.fault, name)))
		return exitFailed, true
	case len(words) == 0 && !o.catatonit.pause:
		o.log(levelFatal, o.as.missing)
		sys.Write(2, []byte(named(o.as.none, name)))
		return exitFailed, true
	}
	o.command = words
	return 0, false
}

// named puts a name into a text for each %.
func named(text, name string) string {
	for i := range len(text) {
		if text[i] == '%' {
			return text[:i] + name + named(text[i+1:], name)
		}
	}
	return text
}

// getopt reads a command line as getopt(3) does, and getopt_long(3) where there are long
// names. It hands each flag to take, in their order, which returns false to stop, and
// returns the other words. A fault is in getopt's own words, without the program's name.
func (o *options) getopt(args []string, take func(f *flag, value string) bool) (words []string, fault string) {
	_, strict := find(o.environment, "POSIXLY_CORRECT")
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			words = append(words, arg)
			if strict || !o.as.permute {
				break
			}
			continue
		}
		for letters := arg[1:]; letters != ""; {
			var f *flag
			var value string
			var given bool
			called := "-- '" + letters[:1] + "'"
			missing := "option requires an argument " + called
			if arg[1] == '-' && o.as.long {
				if f, value, given, fault = o.as.longFlag(arg); fault != "" {
					return nil, fault
				}
				missing, letters = "option '--"+f.name+"' requires an argument", ""
			} else {
				if f = o.as.letter(letters[0]); f == nil {
					return nil, "invalid option " + called
				}
				if letters = letters[1:]; f.set != nil && letters != "" {
					value, given, letters = letters, true, ""
				}
			}
			if f.set != nil && !given {
				if len(args) == 0 {
					return nil, missing
				}
				value, args, letters = args[0], args[1:], ""
			}
			if !take(f, value) {
				return nil, ""
			}
		}
	}
	return append(words, args...), ""
}

func (p *personality) letter(letter byte) *flag {
	for i := range p.flags {
		if p.flags[i].letter == letter {
			return &p.flags[i]
		}
	}
	return nil
}

// longFlag reads --NAME, --NAME=VALUE, and any beginning of a NAME that is only one's.
func (p *personality) longFlag(arg string) (found *flag, value string, given bool, fault string) {
	name, value, given := cut(arg)
	possible, others := 0, ""
	for i := range p.flags {
		f := &p.flags[i]
		if f.name == "" || len(name)-2 > len(f.name) || f.name[:len(name)-2] != name[2:] {
			continue
		}
		found = f
		if len(name)-2 == len(f.name) {
			possible = 1
			break
		}
		possible++
		others += " '--" + f.name + "'"
	}
	switch {
	case possible == 0:
		fault = "unrecognized option '" + name + "'"
	case possible > 1:
		fault = "option '" + name + "' is ambiguous; possibilities:" + others
	case given && found.set == nil:
		fault = "option '--" + found.name + "' doesn't allow an argument"
	}
	return found, value, given, fault
}
