// Package docker runs rlminit in a real Docker engine, through the docker
// command, and holds it to the contract there. What only an engine can show
// (terminals, a limit on processes, a dead mount, two containers on a volume)
// is tested here alone.
//
// It leaves no container, volume or network behind; images stay, as a cache.
package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/tests/box"
)

// label marks the containers and volumes of one test run.
const label = "rlminit.test"

// Place is a container: a box.Place.
type Place struct {
	name string
	home string
}

// patience is how long a docker command may take: longer than any that works,
// so that one that hangs fails its test alone.
const patience = 5 * time.Minute

// docker runs the docker command and returns what it printed.
func docker(in io.Reader, args ...string) (box.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdin = in
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if ctx.Err() != nil {
		return box.Result{}, fmt.Errorf("docker %s: no end after %s: %s", strings.Join(args, " "), patience, complaint.String())
	}
	if cmd.ProcessState == nil {
		return box.Result{}, fmt.Errorf("cannot run docker: %w", err)
	}
	return box.Result{Code: cmd.ProcessState.ExitCode(), Out: out.String(), Err: complaint.String()}, nil
}

// must is docker where a failure is not a result but an error.
func must(in io.Reader, args ...string) (string, error) {
	r, err := docker(in, args...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("docker %s: %s", strings.Join(args, " "), r)
	}
	return strings.TrimSpace(r.Out), err
}

// New creates a container and starts it.
func New(spec box.Spec, image, run string) (*Place, error) {
	p, err := Create(spec, image, run)
	if err != nil {
		return nil, err
	}
	return p, p.Start()
}

// Create creates a container of an image, marked with the run's name. Files
// go in as root's, before its first start.
func Create(spec box.Spec, image, run string) (*Place, error) {
	args := []string{"create", "--label", label + "=" + run}
	for _, kv := range spec.Env {
		args = append(args, "--env", kv)
	}
	args = append(args, spec.Docker...)
	// Nothing can be copied into a read-only container but into a volume.
	const configuration = "/etc/rlminit"
	into := "/"
	if slices.Contains(spec.Docker, "--read-only") && spec.Config != "" {
		args = append(args, "--volume", configuration)
		into = configuration
	}
	args = append(args, image)
	name, err := must(nil, append(args, spec.Main...)...)
	if err != nil {
		return nil, err
	}
	p := &Place{name: name, home: "/data"}
	files := map[string]string{}
	if spec.Config != "" {
		files[strings.TrimPrefix(configuration, strings.TrimSuffix(into, "/"))+"/rlminit.yaml"] = spec.Config
	}
	for name, content := range spec.Files {
		files[name] = content
	}
	if len(files) > 0 {
		archive, err := rootsFiles(files)
		if err != nil {
			return p, err
		}
		if _, err := must(archive, "cp", "-", name+":"+into); err != nil {
			return p, err
		}
	}
	return p, nil
}

// rootsFiles is a tar archive of files that are root's and writable by root
// alone.
func rootsFiles(files map[string]string) (io.Reader, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	var dirs []string
	for name := range files {
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			if !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755}); err != nil {
			return nil, fmt.Errorf("cannot pack %s: %w", dir, err)
		}
	}
	for name, content := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name[1:], Mode: 0o644, Size: int64(len(content))}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("cannot pack %s: %w", name, err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			return nil, fmt.Errorf("cannot pack %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("cannot pack: %w", err)
	}
	return &archive, nil
}

// Start starts the container.
func (p *Place) Start() error {
	_, err := must(nil, "start", p.name)
	return err
}

// Exec is docker exec.
func (p *Place) Exec(user box.User, in io.Reader, argv []string) (box.Result, error) {
	args := []string{"exec", "-u", fmt.Sprintf("%d:%d", user.UID, user.GID)}
	if in != nil {
		args = append(args, "-i")
	}
	return docker(in, append(append(args, p.name), argv...)...)
}

// Signal is docker kill --signal.
func (p *Place) Signal(number int) error {
	_, err := must(nil, "kill", "--signal", strconv.Itoa(number), p.name)
	return err
}

// Stop is docker stop.
func (p *Place) Stop() error {
	_, err := must(nil, "stop", p.name)
	return err
}

// Restart is docker restart.
func (p *Place) Restart() error {
	_, err := must(nil, "restart", p.name)
	return err
}

// Ended waits until the container runs no more.
func (p *Place) Ended(timeout time.Duration) (int, error) {
	deadline := time.Now().Add(timeout)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 300*time.Millisecond) {
		out, err := p.inspect("{{.State.Status}} {{.State.ExitCode}}")
		if err != nil {
			return 0, err
		}
		var status string
		var code int
		if _, err := fmt.Sscan(out, &status, &code); err != nil {
			return 0, fmt.Errorf("cannot read the container's state %q: %w", out, err)
		}
		if status == "exited" || status == "dead" {
			return code, nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("the container has not ended within %s", timeout)
		}
		time.Sleep(pause)
	}
}

// inspect is docker inspect with a template.
func (p *Place) inspect(template string) (string, error) {
	return must(nil, "inspect", "--format", template, p.name)
}

// Printed is docker logs.
func (p *Place) Printed() string {
	cmd := exec.Command("docker", "logs", p.name)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s\ndocker logs: %v", out, err)
	}
	return string(out)
}

// Home is the volume's path inside.
func (p *Place) Home() string { return p.home }

// Remove removes the container, running or not, and its anonymous volumes.
func (p *Place) Remove() error {
	_, err := must(nil, "rm", "-f", "-v", p.name)
	return err
}
