package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
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
	figures := sync.OnceValues(func() (f jobFigures, err error) {
		err = container{more: "jobs: {at_once: 8}\n"}.play("jobs", &f)
		return f, err
	})
	beside := func(f jobFigures, err error) ([]row, error) {
		return []row{{"run", f.Run, "ms"}, {"exec", f.Exec, "ms"}, {"an fsync", f.Sync, "ms"}}, err
	}
	const promise = "at most 1.6 of exec, and its fsyncs"
	return []measure{
		{name: "jobs: rlminit run -- /bin/true as root, as docker exec does it; the whole process, two fsyncs included", promise: promise, run: func() ([]row, error) {
			var f jobFigures
			err := container{root: true, more: "jobs: {at_once: 8}\n"}.play("jobs", &f)
			return beside(f, err)
		}},
		{name: "jobs: the same as the services' user, for whom exec has no rights to give up", promise: promise, run: func() ([]row, error) {
			return beside(figures())
		}},
		{name: "jobs: run, recorded and told, 32 clients at once", promise: "200 a second on two cores", run: func() ([]row, error) {
			f, err := figures()
			return []row{{"run", f.Rate, "jobs/s"}}, err
		}},
	}
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
	client := control.Open()
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
