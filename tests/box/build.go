package box

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build compiles rlminit and the programs of the tests, static, into a new
// directory that everyone may read, and returns it. The caller removes it.
func Build() (string, error) {
	dir, err := os.MkdirTemp("", "rlminit-bin-")
	if err != nil {
		return "", fmt.Errorf("cannot build: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", fmt.Errorf("cannot build: %w", err)
	}
	root, err := Repository()
	if err != nil {
		return "", err
	}
	for _, what := range [][]string{
		{"-tags", "nethttpomithttp2", "-ldflags", "-E rlminit/reap/sys.entry", "./cmd/rlminit"}, // as make build
		{"./examples/gateway", "./tests/cmd/nasty", "./tests/cmd/deadfuse", "./tests/cmd/hostile", "./tests/cmd/refuse", "./cmd/rlminit-..."},
	} {
		cmd := exec.Command("go", append([]string{"build", "-trimpath", "-o", dir + string(filepath.Separator)}, what...)...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("cannot build: %w\n%s", err, out)
		}
	}
	return dir, nil
}

// Repository is the root of the sources: the nearest directory above the
// working directory that holds go.mod.
func Repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("cannot find go.mod: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("cannot find go.mod above the working directory")
		}
		dir = parent
	}
}
