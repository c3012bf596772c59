package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"rlminit/control"
	"rlminit/internal/document"
)

// stage is what `try` plays on: a directory with a configuration and a volume.
type stage struct {
	dir      string
	self     string // the path of this binary
	profiles []string
	shell    bool
	uid, gid int // of the services, as seen inside
}

// messages is what rlminit says of itself: on a terminal that belongs to a shell
// it would come between the prompt and what is typed.
func (s *stage) messages() string { return filepath.Join(s.dir, "messages") }

// The service user of a play that root started: inside a user namespace any
// number will do, and without one it is nobody's.
const tryUser = 61000

func newStage(self string, profiles int) (*stage, error) {
	dir, err := os.MkdirTemp("", "rlminit-try-")
	if err != nil {
		return nil, control.Failed("cannot try rlminit: %v", err)
	}
	s := &stage{dir: dir, self: self, uid: os.Geteuid(), gid: os.Getegid()}
	s.shell = isTerminal(os.Stdin) && isTerminal(os.Stdout)
	if s.uid == 0 {
		s.uid, s.gid = tryUser, tryUser
	}
	for i := range profiles {
		s.profiles = append(s.profiles, profileName(i))
	}
	if err := s.furnish(); err != nil {
		s.clear()
		return nil, control.Failed("cannot try rlminit: %v", err)
	}
	return s, nil
}

// profileName gives the first profiles people's names, and numbers the rest.
func profileName(i int) string {
	names := []string{"alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi"}
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("agent-%03d", i+1)
}

// furnish writes the configuration and, as if somebody had copied them there,
// the profiles.
func (s *stage) furnish() error {
	for _, dir := range []string{"etc", "bin", "data", "data/profiles"} {
		if err := os.Mkdir(filepath.Join(s.dir, dir), 0o755); err != nil {
			return err
		}
	}
	// The shell finds rlminit by its name whatever this binary is called.
	if err := os.Symlink(s.self, filepath.Join(s.dir, "bin/rlminit")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "etc/rlminit.yaml"), []byte(s.configuration("")), 0o644); err != nil {
		return err
	}
	if err := s.introduce(); err != nil {
		return err
	}
	for _, name := range s.profiles {
		dir := filepath.Join(s.dir, "data/profiles", name)
		if err := os.Mkdir(dir, 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "profile.yaml"), []byte("{}\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// introduce makes the passwd and group in which the user of the play has a name,
// or a shell says that it has none. They are mounted over the machine's.
func (s *stage) introduce() error {
	if s.uid != tryUser {
		return nil
	}
	for file, line := range map[string]string{
		"passwd": fmt.Sprintf("rlminit-try:x:%d:%d:the user of rlminit try:%s:/bin/sh\n", s.uid, s.gid, s.dir),
		"group":  fmt.Sprintf("rlminit-try:x:%d:\n", s.gid),
	} {
		text, err := os.ReadFile(filepath.Join("/etc", file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // there is nothing to mount over
		}
		if err != nil {
			return err
		}
		if len(text) > 0 && text[len(text)-1] != '\n' {
			text = append(text, '\n')
		}
		if err := os.WriteFile(filepath.Join(s.dir, "etc", file), append(text, line...), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// configuration is the rlminit.yaml of the play; user is a line that says who
// services run as, which only root has to say. The network is the machine's own,
// so that the ports begin where few others do, and elsewhere each time.
func (s *stage) configuration(user string) string {
	first := 20000 + 600*rand.IntN(20)
	return fmt.Sprintf(`# The configuration of rlminit try. It is gone when the shell ends.
version: 1
%shome: %s
stop_timeout: 9s
gateway:
  found_state: running
  ports: %d-%d
  command: [%s, try-gateway]
  ready: {notify: true, timeout: 30s}
`, user, quoted(filepath.Join(s.dir, "data")), first, first+599, quoted(s.self))
}

// quoted is a string of YAML (JSON's are) in which nothing is expanded.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil { // a string always has a form in JSON
		panic(err)
	}
	return document.Escape(string(b))
}

// giveAway names the user that services run as and makes the volume theirs, for
// a play that root starts without a user namespace.
func (s *stage) giveAway() error {
	user := fmt.Sprintf("user: \"%d:%d\"\n", s.uid, s.gid)
	err := os.WriteFile(filepath.Join(s.dir, "etc/rlminit.yaml"), []byte(s.configuration(user)), 0o644)
	if err == nil {
		err = os.Chmod(s.dir, 0o755)
	}
	if err == nil {
		err = filepath.WalkDir(filepath.Join(s.dir, "data"), func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, s.uid, s.gid)
		})
	}
	if err != nil {
		return control.Failed("cannot give the volume to uid %d: %v", s.uid, err)
	}
	return nil
}

// suggestions are the commands that greet shows.
func (s *stage) suggestions() []string {
	name := "zoe"
	lines := []string{"rlminit status", "rlminit profile create " + name}
	if len(s.profiles) > 0 {
		name = s.profiles[0]
	}
	return append(lines,
		"rlminit logs "+name,
		"rlminit stop "+name,
		"rlminit signal KILL "+name+"   # and it is back",
		"rlminit events -f",
	)
}

// abridged names the first few.
func abridged(names []string) string {
	if len(names) <= 4 {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:3], ", ") + ", …"
}
