package pure

// DefaultPath is searched where PATH is not set: wire.DefaultPath, which a pure init
// does not link.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Candidates returns the paths under which a command may lie, in the order in
// which execvp(3) tries them: a name with a slash is a path, an empty element
// of PATH is the working directory.
func Candidates(name, path string) []string {
	if name == "" {
		return nil
	}
	for i := 0; i < len(name); i++ {
		if name[i] == '/' {
			return []string{name}
		}
	}
	if path == "" {
		path = DefaultPath
	}
	var all []string
	for start := 0; start <= len(path); {
		end := start
		for end < len(path) && path[end] != ':' {
			end++
		}
		if end == start {
			all = append(all, name)
		} else {
			all = append(all, path[start:end]+"/"+name)
		}
		start = end + 1
	}
	return all
}
