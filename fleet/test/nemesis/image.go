package nemesis

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"rlminit/fleet/test/cluster"
)

// serviceUser owns the members' volumes.
const serviceUser = 1000

// build makes the image of members and nodes: the binaries and the files of the
// project's own image, and nothing else.
func (w *World) build(spec Spec) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	if _, err := cluster.Build(); err != nil {
		return err
	}
	if _, err := cluster.Compile("recorder", "./test/recorder"); err != nil {
		return err
	}
	name, flags := "rlminit-fleet", []string(nil)
	if spec.NoDeadline {
		name, flags = "rlminit-fleet-unsafe", []string{"-tags", "unsafe"}
	}
	if _, err := cluster.Compile(name, "./cmd/rlminit-fleet", flags...); err != nil {
		return err
	}
	if _, err := cluster.CompileInit(); err != nil {
		return err
	}
	context := filepath.Join(w.dir, "image")
	if err := os.MkdirAll(filepath.Join(context, "bin"), 0o755); err != nil {
		return fmt.Errorf("cannot build the image: %w", err)
	}
	for from, to := range map[string]string{"rlminit": "rlminit", name: "rlminit-fleet", "recorder": "recorder", "etcd": "etcd"} {
		if _, err := run("cp", filepath.Join(root, "bin/fleet-test", from), filepath.Join(context, "bin", to)); err != nil {
			return err
		}
	}
	if _, err := run("cp", "-R", filepath.Join(root, "rootfs"), context); err != nil {
		return err
	}
	for _, dir := range []string{"data", "run", "tmp"} {
		if err := os.Mkdir(filepath.Join(context, "rootfs", dir), 0o755); err != nil {
			return fmt.Errorf("cannot build the image: %w", err)
		}
	}
	const recipe = "FROM scratch\nCOPY rootfs/ /\nCOPY bin/ /usr/local/bin/\nENV PATH=/usr/local/bin\nENTRYPOINT [\"/usr/local/bin/rlminit\", \"init\", \"--\"]\n"
	if err := os.WriteFile(filepath.Join(context, "Dockerfile"), []byte(recipe), 0o644); err != nil {
		return fmt.Errorf("cannot build the image: %w", err)
	}
	if _, err := docker("build", "-q", "-t", w.image, context); err != nil {
		return err
	}
	w.undo = append(w.undo, func() error { _, err := docker("rmi", w.image); return err })
	return nil
}

// box is a member's configuration: the agent, and the kind of gateway of its fleet.
const box = `version: 1
user: app
home: /data
stop_timeout: 5s
gateway:
  command: [recorder, /recordings]
  isolation: none
gateways:
  fleet:
    command: [recorder, /recordings]
    deadline: required
    environment: {PROFILE: "${PROFILE}"}
    stop: {signal: TERM, timeout: 1s}
fleet: `

// writeConfiguration writes a member's /etc/rlminit.
func writeConfiguration(dir, member string, endpoints []string, spec Spec) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("cannot configure %s: %w", member, err)
	}
	// JSON is YAML.
	fleet, err := json.Marshal(map[string]any{
		"name": fleetName, "member": member, "lease": spec.Lease.String(),
		"etcd": map[string]any{"endpoints": endpoints},
		"data": map[string]any{"bucket": "file:///bucket", "every": "5s"},
	})
	if err != nil {
		return fmt.Errorf("cannot configure %s: %w", member, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rlminit.yaml"), []byte(box+string(fleet)+"\n"), 0o644); err != nil {
		return fmt.Errorf("cannot configure %s: %w", member, err)
	}
	return nil
}

// Program is the fleet's program, as it was built for this run.
func (w *World) Program() string { return filepath.Join(w.dir, "image/bin/rlminit-fleet") }

// Configuration is a configuration by which its verbs find etcd.
func (w *World) Configuration() string {
	return filepath.Join(w.dir, w.Members[0].Name+".etc", "rlminit.yaml")
}
