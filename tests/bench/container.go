package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// container is one of which this program is the main command.
type container struct {
	more    string                  // of its configuration
	env     []string                // variables that PID 1 has besides
	prepare func(home string) error // puts something on the volume; may be nil
	by      []string                // a command that executes init as itself
}

// play plays an act there, and reads the figures that it prints.
func (c container) play(act string, figures any) error {
	dir, err := os.MkdirTemp("/var/tmp", "rlminit-bench-") // not in /tmp, which is a special place for walls
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	home, file := filepath.Join(dir, "data"), filepath.Join(dir, "rlminit.yaml")
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(home, 0o755); err != nil {
		return err
	}
	if c.prepare != nil {
		if err := c.prepare(home); err != nil {
			return err
		}
	}
	if os.Geteuid() == 0 {
		if err := exec.Command("chown", "-R", "1000:1000", home).Run(); err != nil {
			return fmt.Errorf("cannot give the volume away: %w", err)
		}
	}
	config := fmt.Sprintf("version: 1\nuser: \"1000:1000\"\nhome: %s\n%s", home, c.more)
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return err
	}
	self, err := os.ReadFile("/proc/self/exe") // which may lie where the service user cannot look
	if err != nil {
		return err
	}
	program := filepath.Join(dir, "bench")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		return err
	}
	own, err := os.ReadFile(*binary)
	if err != nil {
		return err
	}
	init := filepath.Join(dir, "rlminit")
	if err := os.WriteFile(init, own, 0o755); err != nil {
		return err
	}
	cmd := boxed(append(slices.Clone(c.by), init, "init", "--", program, act, init)...)
	cmd.Env = append(append(cmd.Env, "RLMINIT_CONFIG="+file), c.env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	return json.Unmarshal(out, figures)
}
