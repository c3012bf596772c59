package isolate

import (
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/kernel"
)

// An Image is the container's files as every isolated service may use them: what
// belongs to the image may be read and executed, and a few devices be used.
// Hidden are the paths that it was given, all that is made to be written by
// many (/run, /tmp, /var/tmp, /dev/shm), and what was mounted directly below the
// directories on the way to them: volumes are for those to whom they are given.
//
// The descriptors of what is allowed are kept, so that a ruleset costs a call for
// each and opens nothing. The walk is done again when a directory that was walked
// has changed.
type Image struct {
	root   string
	hidden []string
	whole  bool // everything else is allowed, and all rights: tier 1's own ruleset

	mu      sync.Mutex
	walked  []walked
	allowed []allowed
}

// walked is a directory that cannot be allowed as a whole.
type walked struct {
	path  string
	mtime unix.Timespec
}

// allowed is an open file, and what may be done to it and beneath it.
type allowed struct {
	file      *os.File
	directory bool
	rights    uint64
}

// NewImage is the image in which the paths are hidden, with all beneath them.
// They are absolute.
func NewImage(hidden ...string) *Image { return newImage("/", hidden) }

func newImage(root string, hidden []string) *Image {
	i := &Image{root: root}
	for _, p := range append([]string{"/run", "/tmp", "/var/tmp", "/dev", "/proc", "/sys"}, hidden...) {
		if p = path.Clean(p); p != "/" {
			i.hidden = append(i.hidden, p)
		}
	}
	return i
}

// system are directories that are the image's even where they are mounts.
var system = []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr", "/etc", "/opt", "/nix"}

// extras are what is allowed in the hidden directories. Of /proc and /sys only
// reading: others' environments and memory are kept by the scope of ptrace, and
// a write could raise the OOM score of a process of the same user.
var extras = []struct {
	path   string
	rights uint64
}{
	{"/proc", reading},
	{"/sys", reading},
	{"/dev/null", reading | writeFile | truncate | ioctl},
	{"/dev/zero", reading | writeFile | truncate | ioctl},
	{"/dev/full", reading | writeFile | truncate | ioctl},
	{"/dev/random", reading | writeFile | ioctl},
	{"/dev/urandom", reading | writeFile | ioctl},
	{"/dev/tty", reading | writeFile | truncate | ioctl},
	{"/dev/ptmx", reading | writeFile | truncate | ioctl},
	{"/dev/pts", reading | writeFile | truncate | ioctl},
}

// allow adds the image to a ruleset.
func (i *Image) allow(r *Ruleset) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.changed() {
		i.walk()
	}
	for _, a := range i.allowed {
		if err := r.allow(int(a.file.Fd()), a.directory, a.rights); err != nil {
			return err
		}
	}
	return nil
}

// changed tells whether the walk is to be done.
func (i *Image) changed() bool {
	for _, w := range i.walked {
		var st unix.Stat_t
		if unix.Lstat(i.root+w.path, &st) != nil || st.Mtim != w.mtime {
			return true
		}
	}
	return len(i.walked) == 0
}

// patience is how long the walk waits for file systems that do not answer.
const patience = time.Second

func (i *Image) walk() {
	i.close()
	var wanted []allowed
	var paths []string
	want := func(p string, rights uint64) {
		paths, wanted = append(paths, p), append(wanted, allowed{rights: rights})
	}
	if i.whole {
		i.directory("/", func(p string) { want(p, ^uint64(0)) })
	} else {
		i.directory("/", func(p string) { want(p, executing) })
		for _, e := range extras {
			want(e.path, e.rights)
		}
	}
	// Something may be mounted that does not answer: it is left out. One after the
	// other, for each that is opened takes a thread, of which there may be few.
	deadline := time.Now().Add(patience)
	for at, p := range paths {
		found := make(chan allowed, 1)
		go func() {
			file, directory, err := open(i.root+p, true)
			if err != nil {
				file = nil
			}
			found <- allowed{file, directory, wanted[at].rights}
		}()
		select {
		case a := <-found:
			if a.file != nil {
				i.allowed = append(i.allowed, a)
			}
		case <-time.After(max(time.Until(deadline), patience/20)):
		}
	}
}

// directory tells of what is allowed in dir, in which something is hidden.
func (i *Image) directory(dir string, allow func(string)) {
	var own unix.Stat_t
	if unix.Lstat(i.root+dir, &own) != nil {
		return
	}
	i.walked = append(i.walked, walked{dir, own.Mtim})
	entries, err := os.ReadDir(i.root + dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		p := path.Join(dir, entry.Name())
		switch {
		case entry.Type()&os.ModeSymlink != 0, slices.Contains(i.hidden, p):
			continue // where a link leads is allowed where it is
		case i.leads(p):
			i.directory(p, allow)
			continue
		case !i.whole && !slices.Contains(system, p) && i.mounted(p):
			continue
		}
		allow(p)
	}
}

// leads tells whether something hidden lies below p.
func (i *Image) leads(p string) bool {
	return slices.ContainsFunc(i.hidden, func(h string) bool { return strings.HasPrefix(h, p+"/") })
}

// mounted tells whether something is mounted at p. A file system that does not
// answer does not keep statx(2) from telling.
func (i *Image) mounted(p string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, i.root+p, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	if kernel.Refused(err) {
		return i.listed(p)
	}
	return err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// listed is mounted where the place refuses statx(2): by proc_pid_mountinfo(5). Where that
// cannot be read either, nothing is allowed that might be mounted.
func (i *Image) listed(p string) bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(mounts)) {
		// Blanks in a path are written in octal, which no path of a system directory has.
		if fields := strings.Fields(line); len(fields) > 4 && path.Clean(fields[4]) == path.Clean("/"+i.root+p) {
			return true
		}
	}
	return false
}

func (i *Image) close() {
	for _, a := range i.allowed {
		a.file.Close()
	}
	i.allowed, i.walked = nil, nil
}

// Close gives the descriptors back.
func (i *Image) Close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.close()
}
