package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"rlminit/control"
)

// jobFigures is what the act jobs prints, in ms and jobs a second.
type jobFigures struct {
	Run  []float64 `json:"run"`
	Exec []float64 `json:"exec"`
	Sync []float64 `json:"sync"` // one fsync on the volume
	Rate []float64 `json:"rate"`
}

// jobMeasures are those of one-shot commands.
func jobMeasures() []measure {
	figures := sync.OnceValues(measureJobs)
	return []measure{
		{name: "jobs: rlminit run -- /bin/true, the whole process, two fsyncs included", promise: "at most 1.6 of exec, and its fsyncs", run: func() ([]row, error) {
			f, err := figures()
			return []row{{"run", f.Run, "ms"}, {"exec", f.Exec, "ms"}, {"an fsync", f.Sync, "ms"}}, err
		}},
		{name: "jobs: run, recorded and told, 32 clients at once", promise: "200 a second on two cores", run: func() ([]row, error) {
			f, err := figures()
			return []row{{"run", f.Rate, "jobs/s"}}, err
		}},
	}
}

// measureJobs has a container's main command measure.
func measureJobs() (f jobFigures, err error) {
	err = inContainer("jobs: {at_once: 8}\n", "jobs", &f)
	return f, err
}

// inContainer runs this program as the main command of a container with a
// configuration, plays an act there, and reads the figures that it prints. PID 1 has
// the variables env besides.
func inContainer(more, act string, figures any, env ...string) error {
	return inPrepared(more, act, func(string) error { return nil }, figures, env...)
}

// inPrepared is inContainer with a volume that prepare has put something on.
func inPrepared(more, act string, prepare func(home string) error, figures any, env ...string) error {
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
	if err := prepare(home); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := exec.Command("chown", "-R", "1000:1000", home).Run(); err != nil {
			return fmt.Errorf("cannot give the volume away: %w", err)
		}
	}
	config := fmt.Sprintf("version: 1\nuser: \"1000:1000\"\nhome: %s\n%s", home, more)
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
	cmd := boxed(init, "init", "--", program, act, init)
	cmd.Env = append(append(cmd.Env, "RLMINIT_CONFIG="+file), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	return json.Unmarshal(out, figures)
}

// sync measures what of a run is the disk's.
func (f *jobFigures) sync() error {
	file, err := os.CreateTemp(os.Getenv("RLMINIT_HOME"), "sync-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	for range 30 {
		if _, err := file.Write(make([]byte, 300)); err != nil {
			return err
		}
		began := time.Now()
		if err := file.Sync(); err != nil {
			return err
		}
		f.Sync = append(f.Sync, ms(time.Since(began)))
	}
	return nil
}

// playJobs is the main command of that container.
func playJobs(args []string) error {
	client, err := control.Open()
	if err != nil {
		return err
	}
	var f jobFigures
	verbs := map[string]*[]float64{"run": &f.Run, "exec": &f.Exec}
	for range 30 {
		for verb, values := range verbs {
			began := time.Now()
			if out, err := exec.Command(args[0], verb, "--", "/bin/true").CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", verb, err, bytes.TrimSpace(out))
			}
			*values = append(*values, ms(time.Since(began)))
		}
	}
	if err := f.sync(); err != nil {
		return err
	}
	const clients, each = 32, 10
	for range 3 {
		var all sync.WaitGroup
		failures := make(chan error, clients)
		began := time.Now()
		for range clients {
			all.Go(func() {
				for range each {
					if _, err := client.Run(context.Background(), control.RunJob{Command: []string{"/bin/true"}}, nil, nil); err != nil {
						failures <- err
						return
					}
				}
			})
		}
		all.Wait()
		select {
		case err := <-failures:
			return err
		default:
		}
		f.Rate = append(f.Rate, clients*each/time.Since(began).Seconds())
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}
