package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// How much is looked at to find what is root's in the directories of profiles.
const (
	ownersMost   = 20_000 // entries of one profile
	ownersWithin = 2 * time.Second
)

// owners finds what is root's in a profile's directory: its gateway may be unable to
// read it, or to write it.
func (e *examination) owners() {
	dirs, err := os.ReadDir(filepath.Join(e.Home, "profiles"))
	if e.Home == "" || errors.Is(err, fs.ErrNotExist) {
		return
	}
	closed, good, until := 0, 0, time.Now().Add(ownersWithin)
	var roots []string // profiles with files of root's
	first, linked := "", ""
	for _, dir := range dirs {
		if !dir.IsDir() || strings.HasPrefix(dir.Name(), ".") {
			continue
		}
		found := rootsBelow(filepath.Join(e.Home, "profiles", dir.Name()), until)
		linked = cmp.Or(linked, found.linked)
		switch {
		case found.first != "":
			roots, first = append(roots, dir.Name()), cmp.Or(first, found.first)
		case found.cut:
			e.add("owners", Unknown, fmt.Sprintf("profile %s has too many files for a look at whose each is", dir.Name()), "rlminit profile repair "+dir.Name())
		case found.closed:
			closed++
		default:
			good++
		}
	}
	switch len(roots) {
	case 0:
	case 1:
		e.add("owners", Warn, fmt.Sprintf("files of profile %s are root's, such as %s: its gateway may not be able to use them", roots[0], first), "rlminit profile repair "+roots[0])
	default:
		e.add("owners", Warn, fmt.Sprintf("files of %d profiles are root's, such as %s: their gateways may not be able to use them", len(roots), first), "docker exec CONTAINER rlminit profile repair --all")
	}
	if linked != "" {
		e.add("owners", Warn, linked+" is root's and has several links, so that it keeps its owner: its gateway may not be able to use it",
			"find the other links by find / -xdev -samefile "+linked+", and remove what is not meant, or chown it as root")
	}
	e.strangers()
	switch {
	case err != nil || closed > 0:
		e.add("owners", Unknown, "cannot look at whose the files of all profiles are", "run it by docker exec without -u")
	case good > 0:
		e.add("owners", OK, fmt.Sprintf("%d profiles have no files of root's", good), "")
	}
}

// strangers finds a volume whose profiles are a user's who is neither root nor the services:
// one that was restored by somebody else, without its owners.
func (e *examination) strangers() {
	services, group, _ := strings.Cut(strings.TrimSpace(e.read(filepath.Join(e.Runtime, "user"))), ":")
	dir := filepath.Join(e.Home, "profiles")
	uid, err := e.kernel.Owner(dir)
	if err != nil || services == "" || uid == 0 || fmt.Sprint(uid) == services {
		return
	}
	e.add("owners", Fail, fmt.Sprintf("%s belongs to uid %d, and services are uid %s: they cannot use what is there", dir, uid, services),
		fmt.Sprintf("docker exec -u 0 CONTAINER chown -R %s:%s %s && docker restart CONTAINER", services, cmp.Or(group, services), e.Home))
}

// looked is what was found below a directory.
type looked struct {
	roots  int
	first  string
	linked string // a file of root's with several links, which no repair changes
	closed bool   // some of it is not ours to look at
	cut    bool   // not all was looked at
}

func rootsBelow(top string, until time.Time) (l looked) {
	seen := 0
	_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error { // each error has been taken account of
		if seen++; seen > ownersMost || seen%64 == 0 && time.Now().After(until) {
			l.cut = true
			return fs.SkipAll
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			l.closed = true
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return nil // it is gone
		}
		st, is := info.Sys().(*syscall.Stat_t)
		if is && st.Uid == 0 && st.Nlink > 1 && !d.IsDir() {
			l.linked = cmp.Or(l.linked, path)
		} else if is && st.Uid == 0 {
			if l.roots++; l.first == "" {
				l.first = path
			}
		}
		return nil
	})
	return l
}
