package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// container is one in which this program plays an act: as its main command, with the
// services' user, or as root, as docker exec has it.
type container struct {
	root    bool
	more    string                  // of its configuration
	env     []string                // variables that PID 1 has besides
	prepare func(home string) error // puts something on the volume; may be nil
	slow    bool                    // its volume is on a slow disk
}

// play plays an act there, and reads the figures that it prints.
func (c container) play(act string, figures any) (err error) {
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
	if c.slow {
		leave, refused := slowDisk(home)
		if refused != nil {
			return refused
		}
		defer func() { err = errors.Join(err, leave()) }()
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
	role := []string{program, act, init}
	main := role
	if c.root {
		main = []string{"/bin/sleep", "1000"}
	}
	cmd := boxed(append([]string{init, "init", "--"}, main...)...)
	cmd.Env = append(append(cmd.Env, "RLMINIT_CONFIG="+file), c.env...)
	cmd.Stderr = os.Stderr
	ask := cmd.Output
	if c.root {
		ask = func() ([]byte, error) { return asRoot(cmd, home, role) }
	}
	out, err := ask()
	if err != nil {
		return err
	}
	return json.Unmarshal(out, figures)
}

// asRoot starts a container, runs a command in it, and ends it.
func asRoot(container *exec.Cmd, home string, argv []string) ([]byte, error) {
	if err := container.Start(); err != nil {
		return nil, err
	}
	defer container.Wait()
	defer container.Process.Kill()
	if err := awaitCommand(container.Process.Pid, "/bin/sleep"); err != nil {
		return nil, err
	}
	cmd := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(container.Process.Pid), "-p", "-m", "--"}, argv...)...)
	cmd.Env = append(slices.Clone(container.Env), "RLMINIT_HOME="+home)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

// awaitCommand returns when a command runs in the namespace that pid is the first of.
func awaitCommand(pid int, name string) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		all, err := within(pid)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(p process) bool { return p.argv[0] == name }) {
			return nil
		}
	}
	return fmt.Errorf("%s does not run after %s", name, patience)
}
