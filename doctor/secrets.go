package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
	stray := 0
	look := func(name, dir string) {
		if name == "default" {
			return
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return
		}
		stray++
		e.add("secrets", Warn, fmt.Sprintf("secrets of %s are kept, and there is no such profile, in the trash neither", name),
			fmt.Sprintf("rlminit profile secret forget %s %s removes one", name, e.oneSecret(filepath.Join(home, name))))
	}
	for _, n := range names {
		if n.IsDir() && !strings.HasPrefix(n.Name(), ".") {
			look(n.Name(), filepath.Join(e.Home, "profiles", n.Name()))
		}
	}
	if stray == 0 {
		e.add("secrets", OK, "every secret on the volume is a profile's", "")
	}
}

// oneSecret is the name of one of the secrets of a profile.
func (e *examination) oneSecret(dir string) string {
	versions, _ := filepath.Glob(filepath.Join(dir, "[0-9]*"))
	for _, v := range versions {
		if all, err := os.ReadDir(v); err == nil && len(all) > 0 {
			return all[0].Name()
		}
	}
	return "NAME"
}
