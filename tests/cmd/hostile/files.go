package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// errNotThere is of a path that there is not: nothing was attempted.
var errNotThere = errors.New("not there")

// files tries to write, rename, link, lock and lease what rlminit goes by.
func files(a *attack, runtime, home, victim string) {
	services := filepath.Join(runtime, "services")
	slot := filepath.Join(services, victim)
	for _, dir := range []string{"/", "/run", "/proc/1/root/run", runtime} {
		directory(a, "change the runtime directory", Always, dir)
	}
	for _, dir := range []string{services, slot} {
		directory(a, "change the service directory", Supervisor, dir)
	}
	for _, file := range []string{"service.yaml", "status.json"} {
		content(a, "change a slot's files", Supervisor, filepath.Join(slot, file))
	}
	content(a, "take the control socket's place", Always, filepath.Join(runtime, "control.sock"))
	own := filepath.Join(home, ".rlminit")
	for _, name := range []string{".rlminit", "logs"} {
		a.try("rename or remove the supervisor's files", Supervisor, name, func() error {
			// A directory that is not empty stays: but who may not remove it is told so first.
			if err := unix.Rmdir(filepath.Join(home, name)); !errors.Is(err, unix.ENOTEMPTY) {
				return err
			}
			return nil
		})
	}
	a.try("rename or remove the supervisor's files", Supervisor, ".rlminit.lock", func() error {
		// Likewise: a file takes no directory's place.
		if err := unix.Rename(filepath.Join(home, ".rlminit.lock"), filepath.Join(home, "profiles")); !errors.Is(err, unix.EISDIR) {
			return err
		}
		return nil
	})
	a.try("rename or remove the supervisor's files", Supervisor, "the volume: chmod", func() error {
		info, err := os.Stat(home)
		if err != nil {
			return err
		}
		return unix.Chmod(home, uint32(info.Mode().Perm())|uint32(info.Sys().(*syscall.Stat_t).Mode&0o7000))
	})
	for _, top := range []string{own, filepath.Join(home, "logs")} {
		kind := "change the journal"
		if top != own {
			kind = "change another's log"
		}
		_ = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil // which is as good as refused
			}
			if entry.IsDir() {
				directory(a, kind, Supervisor, path)
			} else if entry.Type().IsRegular() {
				content(a, kind, Supervisor, path)
			}
			return nil
		})
		directory(a, kind, Supervisor, top)
	}
	for _, lock := range []string{filepath.Join(home, ".rlminit.lock"), filepath.Join(own, "lock")} {
		content(a, "forge the volume's lock", Supervisor, lock)
		a.try("take the volume's lock", Always, lock, func() error {
			f, err := os.Open(lock)
			if err != nil {
				return err
			}
			defer f.Close()
			return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		})
	}
	profile := filepath.Join(home, "profiles", victim[len("gateway-"):])
	directory(a, "change another profile", Own, profile)
	for _, file := range []string{"gateway_state.json", "profile.yaml"} {
		content(a, "change another profile", Own, filepath.Join(profile, file))
		reading(a, "read another profile", Own, filepath.Join(profile, file))
	}
	reading(a, "read another profile", Own, profile)
	reading(a, "read another's log", Own, filepath.Join(home, "logs", "gateways", filepath.Base(profile), "current"))
	reading(a, "list the profiles", Own, filepath.Dir(profile))
	a.try("rename another profile", Own, profile, func() error {
		if err := os.Rename(profile, profile+"-moved"); err != nil {
			return err
		}
		return os.Rename(profile+"-moved", profile)
	})
	a.try("make a profile", Own, filepath.Dir(profile), func() error {
		if err := os.Mkdir(filepath.Join(filepath.Dir(profile), "hostile"), 0o700); err != nil {
			return err
		}
		return os.Remove(filepath.Join(filepath.Dir(profile), "hostile"))
	})
	reading(a, "read a definition", Supervisor, filepath.Join(slot, "service.yaml"))
}

// reading tries to read a file, or to list a directory.
func reading(a *attack, kind string, needs Needs, path string) {
	a.try(kind, needs, path, func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.Readdirnames(1); err == nil {
			return nil
		}
		_, err = f.Read(make([]byte, 1))
		return err
	})
}

// directory tries to put something into a directory, and with it to rename and
// remove what is in it: as a file, a link, a pipe, a directory.
func directory(a *attack, kind string, needs Needs, path string) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return
	}
	at := filepath.Join(path, ".hostile")
	for what, make := range map[string]func() error{
		"file": func() error {
			f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			return f.Close()
		},
		"link":      func() error { return os.Symlink("/etc/passwd", at) },
		"pipe":      func() error { return unix.Mkfifo(at, 0o600) },
		"directory": func() error { return os.Mkdir(at, 0o700) },
	} {
		a.try(kind, needs, path+": make a "+what, func() error {
			if err := make(); err != nil {
				return err
			}
			return os.Remove(at)
		})
	}
	a.try(kind, needs, path+": chmod", func() error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Chmod(path, info.Mode())
	})
}

// content tries to get hold of a file so as to change it or hold it up.
func content(a *attack, kind string, needs Needs, path string) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return
	}
	a.try(kind, needs, path+": open for writing", func() error {
		f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		return f.Close()
	})
	a.try(kind, needs, path+": truncate", func() error {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			return errors.Join(err, errNotThere)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0) // truncating itself would be no attempt to be undone
		if err != nil {
			return err
		}
		return f.Close()
	})
	a.try(kind, needs, path+": lease", func() error {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
			return err
		}
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		return err
	})
	a.try(kind, needs, path+": chmod", func() error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Chmod(path, info.Mode().Perm())
	})
	a.try(kind, needs, path+": set times", func() error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Chtimes(path, info.ModTime(), info.ModTime())
	})
}
