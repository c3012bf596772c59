package isolate

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNone is returned where the kernel has no Landlock to offer.
var ErrNone = errors.New("this kernel offers no Landlock")

// Build makes the ruleset of the rules, which the caller closes. A path that is
// not there is left out: it is allowed at the first start after it has been made.
// One that is a link below a directory of services is left out too, and so is one
// that what is behind a link would make a hidden one. Notes have a line for each
// of those.
func Build(image *Image, rules Rules) (ruleset *Ruleset, notes []string, err error) {
	return build(abi(), image, rules)
}

func build(version int, image *Image, rules Rules) (ruleset *Ruleset, notes []string, err error) {
	if version == 0 {
		return nil, nil, ErrNone
	}
	if ruleset, err = create(version, attr(version, rules)); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			ruleset.Close()
			ruleset = nil
		}
	}()
	if err = image.allow(ruleset); err != nil {
		return nil, nil, fmt.Errorf("cannot allow the image: %w", err)
	}
	for _, part := range []struct {
		paths  []string
		rights uint64
		own    bool
		by     func(string, bool) (int, error)
	}{
		{rules.Own, all &^ devices, true, rules.Open},
		{rules.Read, reading, false, rules.Open},
		{rules.Write, writing, false, rules.Open},
		{rules.Exec, executing, false, rules.Open},
		{rules.Speak, speak, true, nil}, // the supervisor's own
	} {
		if part.rights&ruleset.files == 0 {
			continue // nothing of it is held back by this kernel
		}
		for _, p := range part.paths {
			note, err := image.grant(ruleset, part.by, p, part.rights, part.own)
			if err != nil {
				return nil, nil, err
			}
			if note != "" {
				notes = append(notes, note)
			}
		}
	}
	return ruleset, notes, ruleset.allowPorts(rules)
}

func (r *Ruleset) allowPorts(rules Rules) error {
	for right, ports := range map[uint64]Ports{
		unix.LANDLOCK_ACCESS_NET_CONNECT_TCP: rules.Connect,
		unix.LANDLOCK_ACCESS_NET_BIND_TCP:    rules.Bind,
	} {
		if r.ports&right == 0 {
			continue
		}
		for _, span := range ports.Ranges {
			for port := span.Low; port <= span.High; port++ {
				if err := r.allowPort(port, right); err != nil {
					return fmt.Errorf("cannot allow port %d: %w", port, err)
				}
			}
		}
	}
	return nil
}

// grant allows rights to a path. own is for those that we made up ourselves.
func (i *Image) grant(r *Ruleset, by func(string, bool) (int, error), p string, rights uint64, own bool) (note string, err error) {
	writable := i.within(p) != ""
	file, directory, err := openBy(by, i.root+p, !writable)
	switch {
	case errors.Is(err, unix.ENOENT):
		if own {
			return "", nil
		}
		return p + " is not there; it is allowed at the first start after it has been made", nil
	case errors.Is(err, unix.ELOOP):
		return p + " is not allowed: a symbolic link is on the way, which a service could change; name the place itself", nil
	case err != nil:
		return fmt.Sprintf("%s is not allowed: %v", p, err), nil
	}
	defer file.Close()
	if !own {
		if real := behind(file); real != path.Clean(i.root+p) && i.covers(strings.TrimPrefix(real, strings.TrimSuffix(i.root, "/"))) {
			return fmt.Sprintf("%s is not allowed: behind it is %s, which is not for services", p, real), nil
		}
	}
	if err := r.allow(int(file.Fd()), directory, rights); err != nil {
		return "", fmt.Errorf("cannot allow %s: %w", p, err)
	}
	return "", nil
}

// within is the hidden directory in which p lies, "" for none.
func (i *Image) within(p string) string {
	for _, h := range i.hidden {
		if p == h || strings.HasPrefix(p, h+"/") {
			return h
		}
	}
	return ""
}

// covers tells whether allowing p would allow something that is hidden for a
// reason: what it was given, not what is merely everybody's.
func (i *Image) covers(p string) bool {
	return i.leads(p) || p == "/" || p == "" || i.within(p) != "" && !i.common(p)
}

// common tells whether p lies in one of the places that are hidden for being
// everybody's.
func (i *Image) common(p string) bool {
	switch i.within(p) {
	case "/run", "/tmp", "/var/tmp", "/dev", "/proc", "/sys":
		return true
	}
	return false
}

// behind is where an open file is.
func behind(file *os.File) string {
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return file.Name()
	}
	return real
}
