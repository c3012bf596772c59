package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Build compiles the server as bin/fleet-test/etcd of the repository, static, and
// returns its path. Where it is up to date already nothing is done.
func Build() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	return compile(filepath.Join(root, "fleet/test/etcd"), filepath.Join(root, "bin/fleet-test/etcd"), ".")
}

// Compile compiles a command of the fleet's module, as bin/fleet-test/NAME.
func Compile(name, what string, flags ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	return compile(filepath.Join(root, "fleet"), filepath.Join(root, "bin/fleet-test", name), what, flags...)
}

// CompileInit compiles rlminit itself, with the flags of make build.
func CompileInit() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	return compile(root, filepath.Join(root, "bin/fleet-test/rlminit"), "./cmd/rlminit", "-tags", "nethttpomithttp2", "-ldflags", "-s -w -E rlminit/reap/sys.entry")
}

// compile runs go build in a module, one at a time over all processes: two that
// wrote one file would disturb each other.
func compile(module, to, what string, flags ...string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", fmt.Errorf("cannot build %s: %w", what, err)
	}
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(to), ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("cannot build %s: %w", what, err)
	}
	defer lock.Close() // and the lock with it
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("cannot build %s: %w", what, err)
	}
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", to}, flags...) // the last -ldflags counts
	cmd := exec.Command("go", append(args, what)...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %s: %w\n%s", what, err, out)
	}
	return to, nil
}

// Root is the root of the repository: the directory above that holds the fleet's
// module.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("cannot find the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "fleet", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("cannot find fleet/go.mod above the working directory")
		}
		dir = parent
	}
}
