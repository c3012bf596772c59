package walls

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/slots"
)

// credentialsDirectory is the name of a service's secrets in its slot.
const credentialsDirectory = "credentials"

func credentials(runtime, service string) string {
	return filepath.Join(runtime, "services", service, credentialsDirectory)
}

// DropSecrets removes what was handed to a service's last process: nothing, as a rule.
func DropSecrets(runtime, service string) {
	if dir := credentials(runtime, service); unix.Rmdir(dir) != unix.ENOENT {
		_ = os.RemoveAll(dir)
	}
}

// Secrets puts the secrets of a service into a directory of its slot, and adds
// CREDENTIALS_DIRECTORY to its environment. files are those of its definition, by
// name; stored is a directory whose files are secrets too, "" for none, and do not
// replace those; by is who reads the former. The directory gets the service's tag for its group, and so is for
// no other; where there are no tags, for whoever is its user.
func (p *Place) Secrets(w *Walls, name string, files map[string]string, by func(file string) *rights.User, stored string) error {
	dir := credentials(p.runtime, name)
	all := merged(files, stored)
	if len(all) == 0 {
		return nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if _, gone := os.Lstat(filepath.Dir(dir)); gone != nil {
			err = slots.ErrNoSlot
		}
		return fmt.Errorf("cannot make a place for the secrets: %w", err)
	}
	for _, secret := range slices.Sorted(maps.Keys(all)) {
		content, err := read(reader(by, files, secret), all[secret])
		if err == nil {
			w.Secrets = append(w.Secrets, string(content))
			err = write(filepath.Join(dir, secret), content)
		}
		if err != nil {
			os.RemoveAll(dir)
			return fmt.Errorf("cannot hand over the secret %s: %w%s", secret, err, mayRead(err, reader(by, files, secret), all[secret]))
		}
	}
	opened, err := os.Open(dir)
	if err == nil {
		err = opened.Chmod(0o750) // of our own group so far
	}
	if err != nil {
		return fmt.Errorf("cannot hand over the secrets: %w", err)
	}
	w.credentials = opened
	if w.ruleset != nil {
		if err := w.ruleset.AllowReading(opened); err != nil {
			return fmt.Errorf("cannot hand over the secrets: %w", err)
		}
	}
	w.Environment = set(w.Environment, "CREDENTIALS_DIRECTORY", dir)
	return nil
}

// mayRead says which user must be able to read a secret's file; "": that is not why it
// failed.
func mayRead(err error, as *rights.User, file string) string {
	switch {
	case !errors.Is(err, fs.ErrPermission):
		return ""
	case as == nil:
		return fmt.Sprintf("; the supervisor reads it as uid %d: chown %[1]d %s", os.Geteuid(), file)
	}
	return "; the user of the service must be able to read it"
}

// reader is who reads a secret: of a definition's files whoever by says, else the
// supervisor, who keeps them.
func reader(by func(file string) *rights.User, files map[string]string, secret string) *rights.User {
	if files[secret] == "" {
		return nil
	}
	return by(files[secret])
}

// Values are the secrets that Secrets would hand over, as far as they can be read.
func Values(by func(file string) *rights.User, files map[string]string, stored string) (values []string) {
	for secret, file := range merged(files, stored) {
		if content, err := read(reader(by, files, secret), file); err == nil {
			values = append(values, string(content))
		}
	}
	return values
}

// merged are the files of a definition's secrets and of the stored ones, by name.
func merged(files map[string]string, stored string) map[string]string {
	all := map[string]string{}
	for _, file := range storedIn(stored) {
		all[filepath.Base(file)] = file
	}
	maps.Copy(all, files)
	return all
}

// storedIn are the files of a directory of secrets.
func storedIn(dir string) (files []string) {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() && service.CheckSecret(entry.Name()) == "" {
			files = append(files, filepath.Join(dir, entry.Name()))
		}
	}
	return files
}

// read reads a secret, whose file may be anything.
func read(user *rights.User, path string) ([]byte, error) {
	file, err := user.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	content, err := io.ReadAll(io.LimitReader(file, service.MaxSecret+1))
	if err == nil && len(content) > service.MaxSecret {
		err = fmt.Errorf("%s is longer than %d bytes", path, service.MaxSecret)
	}
	return content, err
}

// write makes a file that whoever gets into its directory may read.
func write(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Chmod(0o444), file.Close())
}
