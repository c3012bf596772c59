package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// secrets finds those that are kept under the name of no profile, nor of one in the trash:
// no boot removes a secret. Values are not looked at.
func (e *examination) secrets() {
	home := filepath.Join(e.Home, ".rlminit", "secrets")
	names, err := os.ReadDir(home)
	if e.Home == "" || errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		e.add("secrets", Unknown, "cannot look at whose the secrets on the volume are", "run it by docker exec without -u")
		return
	}
	var strays []string
	for _, n := range names {
		if !n.IsDir() || strings.HasPrefix(n.Name(), ".") || n.Name() == "default" {
			continue
		}
		_, err := os.Lstat(filepath.Join(e.Home, "profiles", n.Name()))
		if errors.Is(err, fs.ErrNotExist) && oneSecret(filepath.Join(home, n.Name())) != "" {
			strays = append(strays, n.Name())
		}
	}
	if len(strays) == 0 {
		e.add("secrets", OK, "every secret on the volume is a profile's", "")
		return
	}
	if e.changedLately(home) || e.changedLately(filepath.Join(e.Home, "profiles")) {
		e.add("secrets", Unknown, "a profile has just been made, renamed or removed, so its secrets may have no profile for now", "run it again in a minute")
		return
	}
	first, more := strays[0], ""
	if len(strays) > 1 {
		more = fmt.Sprintf(", and of %d other names (ls %s)", len(strays)-1, home)
	}
	e.add("secrets", Warn, fmt.Sprintf("secrets of %s are kept, and there is no such profile, in the trash neither%s", first, more),
		fmt.Sprintf("rlminit profile secret forget %s %s removes one", first, oneSecret(filepath.Join(home, first))))
}

// settles is within what time a profile that is made has its directory beside its secrets.
const settles = 10 * time.Second

// changedLately tells whether a name was made in a directory, or taken from it, so lately that
// the change may be under way: a profile has its secrets before its directory.
func (e *examination) changedLately(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && e.kernel.Now().Sub(info.ModTime()).Abs() < settles
}

// oneSecret is the name of one of the secrets of a profile; "": it has none.
func oneSecret(dir string) string {
	versions, _ := filepath.Glob(filepath.Join(dir, "[0-9]*"))
	for _, v := range versions {
		if all, err := os.ReadDir(v); err == nil && len(all) > 0 {
			return all[0].Name()
		}
	}
	return ""
}
