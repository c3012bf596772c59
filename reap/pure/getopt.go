package pure

// optionSet is a command line as getopt(3) reads it, and getopt_long(3) where there are
// long names.
type optionSet struct {
	letters string // with a colon after those that have a value
	long    []longOption
	permute bool // options are also looked for behind the first word that is none
}

// longOption is the long name of a letter.
type longOption struct {
	name   string
	letter byte
}

// parse hands each option to take, in their order, and returns the other words.
// take returns false to stop. A fault is in getopt's own words, without the
// program's name.
func (s *optionSet) parse(args []string, take func(letter byte, value string) bool) (words []string, fault string) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			return append(words, args[i+1:]...), ""
		case len(arg) < 2 || arg[0] != '-':
			if !s.permute {
				return args[i:], ""
			}
			words = append(words, arg)
			continue
		}
		read := s.cluster
		if arg[1] == '-' && s.long != nil {
			read = s.longName
		}
		more, used, fault := read(arg, args[i+1:], take)
		if fault != "" || !more {
			return nil, fault
		}
		if used {
			i++
		}
	}
	return words, ""
}

// cluster reads letters behind one dash. used tells that a value was the next word.
func (s *optionSet) cluster(arg string, next []string, take func(byte, string) bool) (more, used bool, fault string) {
	for i := 1; i < len(arg); i++ {
		known, valued := s.letter(arg[i])
		value := ""
		switch {
		case !known:
			return false, false, "invalid option -- '" + arg[i:i+1] + "'"
		case valued && i+1 < len(arg):
			value = arg[i+1:]
		case valued && len(next) == 0:
			return false, false, "option requires an argument -- '" + arg[i:i+1] + "'"
		case valued:
			value, used = next[0], true
		}
		if !take(arg[i], value) {
			return false, used, ""
		}
		if valued {
			break
		}
	}
	return true, used, ""
}

// longName reads --NAME, --NAME=VALUE, and any beginning of a NAME that is only
// one's.
func (s *optionSet) longName(arg string, next []string, take func(byte, string) bool) (more, used bool, fault string) {
	name, value, given := cut(arg)
	var found *longOption
	possible, others := 0, ""
	for i := range s.long {
		o := &s.long[i]
		if len(name)-2 > len(o.name) || o.name[:len(name)-2] != name[2:] {
			continue
		}
		if len(name)-2 == len(o.name) {
			found, possible = o, 1
			break
		}
		found = o
		possible++
		others += " '--" + o.name + "'"
	}
	switch {
	case possible == 0:
		return false, false, "unrecognized option '" + name + "'"
	case possible > 1:
		return false, false, "option '" + name + "' is ambiguous; possibilities:" + others
	}
	switch _, valued := s.letter(found.letter); {
	case given && !valued:
		return false, false, "option '--" + found.name + "' doesn't allow an argument"
	case valued && !given && len(next) == 0:
		return false, false, "option '--" + found.name + "' requires an argument"
	case valued && !given:
		value, used = next[0], true
	}
	return take(found.letter, value), used, ""
}

func (s *optionSet) letter(letter byte) (known, valued bool) {
	for i := 0; i < len(s.letters); i++ {
		if s.letters[i] == letter && letter != ':' {
			return true, i+1 < len(s.letters) && s.letters[i+1] == ':'
		}
	}
	return false, false
}
