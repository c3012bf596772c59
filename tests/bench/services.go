package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// figure is what is measured of a supervisor with many services.
type figure int

const (
	start figure = iota // from PID 1 to the last service, ms
	recovery
	memory
	idleness
	stop // from TERM to the end of PID 1, ms
)

// supervisorMeasures are those of a supervisor with many services.
func supervisorMeasures() []measure {
	all := sync.OnceValues(measureSupervisors)
	of := func(f figure, unit, name string) measure {
		return measure{name: "supervisor: " + name, run: func() ([]row, error) {
			values, err := all()
			var rows []row
			for _, s := range supervisors() {
				rows = append(rows, row{peer: s.name, values: values[s.name][f], unit: unit})
			}
			return rows, err
		}}
	}
	return []measure{
		of(start, "ms", fmt.Sprintf("start of %d services, from PID 1 to the last", *services)),
		of(recovery, "ms", "a service that is killed runs again"),
		of(memory, "MB", fmt.Sprintf("proportional memory beside %d services", *services)),
		of(idleness, "wake-ups", fmt.Sprintf("times it woke up in 5 s beside %d idle services", *services)),
		of(stop, "ms", fmt.Sprintf("stop of %d services, from TERM to the end of PID 1", *services)),
	}
}

// measureSupervisors takes all figures of all supervisors, who take turns, so
// that what else the machine does hits all alike.
func measureSupervisors() (map[string]map[figure][]float64, error) {
	all := map[string]map[figure][]float64{}
	for range *rounds {
		for _, s := range supervisors() {
			sc, err := s.stage(*services)
			if err != nil {
				return nil, err
			}
			values, err := sc.play()
			sc.end()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			if all[s.name] == nil {
				all[s.name] = map[figure][]float64{}
			}
			for f, value := range values {
				all[s.name][f] = append(all[s.name][f], value)
			}
		}
	}
	return all, nil
}

// play takes the figures that this supervisor has.
func (sc *scene) play() (map[figure]float64, error) {
	values := map[figure]float64{start: ms(sc.took)}
	if !sc.restarts {
		return values, nil
	}
	time.Sleep(5 * time.Second) // until what the start had to write is written
	own, err := sc.overhead()
	if err != nil {
		return nil, err
	}
	woken := 0.0
	for _, p := range own {
		values[memory] += rollup(p.pid, "Pss") / 1024
		woken += wakeups(p.pid)
	}
	time.Sleep(5 * time.Second)
	for _, p := range own {
		values[idleness] += wakeups(p.pid)
	}
	values[idleness] -= woken
	if values[recovery], err = sc.recover(); err != nil || sc.stop == 0 {
		return values, err
	}
	began := time.Now()
	if err := sc.cmd.Process.Signal(sc.stop); err != nil {
		return nil, err
	}
	_ = sc.cmd.Wait() // its exit code is not what is measured
	values[stop] = ms(time.Since(began))
	return values, nil
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// recover measures from SIGKILL of a service that has run for long enough to
// count as healthy, until it runs again.
func (sc *scene) recover() (float64, error) {
	all, err := within(sc.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	victim := fifo(sc.dir, sc.names[0])
	for _, p := range all {
		if len(p.argv) != 2 || p.argv[1] != victim {
			continue
		}
		process, err := os.FindProcess(p.pid)
		if err != nil {
			return 0, err
		}
		began := time.Now()
		if err := process.Kill(); err != nil {
			return 0, err
		}
		err = sc.opened.await(sc.names[0])
		return ms(time.Since(began)), err
	}
	return 0, fmt.Errorf("nothing reads %s", victim)
}
