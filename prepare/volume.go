package prepare

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/internal/durable"
)

const (
	parentMode = 0o750   // of directories that are made on the way
	maxSeed    = 1 << 30 // bytes of a file that is copied
)

// volume makes the directories and copies the seeds, in their order.
func volume(c *config.Config, say func(string)) error {
	if len(c.Dirs)+len(c.Seed) == 0 {
		return nil
	}
	home, err := durable.Open(c.Home)
	if err != nil {
		return err
	}
	defer home.Close()
	for _, d := range c.Dirs {
		rel := below(c.Home, d.Path)
		if why := inTheWay(home, rel); why != "" {
			say(fmt.Sprintf("dirs: %s is not made: %s; it is left alone, remove it and start the container again", d.Path, why))
			continue
		}
		if there, err := home.Lstat(rel); d.Owner != "" && err == nil && int(there.UID) != os.Geteuid() {
			continue // root has made it, for another user
		}
		if there, err := home.Lstat(rel); ours(rel) && err == nil && int(there.UID) != os.Geteuid() {
			continue // the supervisor's
		}
		if rel != "." {
			if err := home.MkdirAll(rel, parentMode); err != nil {
				return fmt.Errorf("dirs: %w", err)
			}
		}
		if there, err := home.Lstat(rel); rel == "." && err == nil && int(there.UID) != os.Geteuid() {
			continue // root's, who lets the services make what they need there
		}
		if there, err := home.Lstat(rel); err == nil && int(there.UID) != os.Geteuid() {
			say(fmt.Sprintf("dirs: %s belongs to uid %d, and keeps its mode; chown it, or name that user as its owner", d.Path, there.UID))
			continue
		}
		if err := home.Chmod(rel, d.Mode); err != nil {
			return fmt.Errorf("dirs: %w", err)
		}
	}
	for _, s := range c.Seed {
		if err := seed(home, below(c.Home, s.To), s, say); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	return nil
}

// inTheWay says what lies where a directory is to be, or on the way there, and is none: a
// service may have made it. "": nothing does.
func inTheWay(home *durable.Dir, rel string) string {
	made := ""
	for part := range strings.SplitSeq(rel, "/") {
		made = path.Join(made, part)
		there, err := home.Lstat(made)
		switch {
		case err != nil: // it is missing, or whoever makes it says what is wrong
			return ""
		case there.Type == fs.ModeSymlink:
			return made + " is a symbolic link"
		case there.Type != fs.ModeDir:
			return made + " is no directory"
		}
	}
	return ""
}

// writable says why nothing can be written to the volume, if so.
func writable(home string) error {
	d, err := durable.Open(home)
	if err != nil {
		return err
	}
	defer d.Close()
	name := durable.TempName()
	if err := d.WriteFile(name, nil, durable.Write{Mode: 0o600}); err != nil {
		var e *durable.Error
		if errors.As(err, &e) {
			e.Path = home // the file's own name says nothing to anybody
		}
		return err
	}
	return d.RemoveAll(name)
}

// seed copies what is to be there from the start, and enforces its mode at every
// boot. What is there already is left as it is; a link in its place too, which
// is said.
func seed(home *durable.Dir, rel string, s config.Seed, say func(string)) error {
	there, err := home.Lstat(rel)
	switch {
	case err == nil && there.Type == fs.ModeSymlink:
		say(fmt.Sprintf("seed: %s is a symbolic link; it is left alone, and so is what it points to", s.To))
		return nil
	case err == nil:
	case inTheWay(home, path.Dir(rel)) != "":
		say(fmt.Sprintf("seed: %s is not copied: %s; it is left alone, remove it and start the container again", s.To, inTheWay(home, path.Dir(rel))))
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if err := plant(home, rel, s); err != nil {
			return err
		}
	default:
		return err
	}
	if s.Mode == 0 {
		return nil
	}
	return home.Chmod(rel, s.Mode)
}

// plant copies a file or a directory to a place that is free. It appears whole.
func plant(home *durable.Dir, rel string, s config.Seed) error {
	if dir := path.Dir(rel); dir != "." {
		if err := home.MkdirAll(dir, parentMode); err != nil {
			return err
		}
	}
	from, err := os.OpenFile(s.From, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", s.From, durable.Bare(err))
	}
	defer from.Close()
	info, err := from.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("cannot read %s: %w", s.From, durable.Bare(err))
	case info.IsDir():
		return plantTree(home, rel, s)
	case !info.Mode().IsRegular():
		return fmt.Errorf("cannot read %s: it is neither a file nor a directory", s.From)
	}
	content, err := io.ReadAll(io.LimitReader(from, maxSeed+1))
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", s.From, durable.Bare(err))
	}
	mode := s.Mode
	if mode == 0 {
		mode = uint32(info.Mode().Perm())
	}
	return home.WriteFile(rel, content, durable.Write{Mode: mode, Max: maxSeed, Names: true})
}

func plantTree(home *durable.Dir, rel string, s config.Seed) error {
	from, err := durable.Open(s.From)
	if err != nil {
		return err
	}
	defer from.Close()
	unfinished := path.Join(path.Dir(rel), durable.TempName())
	if err := home.Mkdir(unfinished, parentMode); err != nil {
		return err
	}
	err = home.CopyTree(from, unfinished, durable.Copy{DirMode: parentMode})
	if err == nil {
		err = home.RenameNew(unfinished, rel)
	}
	if err != nil {
		return errors.Join(err, home.RemoveAll(unfinished))
	}
	return nil
}
