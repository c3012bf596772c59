package main

import (
	"fmt"
	"sync"
	"syscall"
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
			values, err := s.measure(*services, true)
			if err != nil {
				return nil, err
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

// measure starts n services once and takes the figures of that; idleness, which takes
// a while, only where it is asked for.
func (s *supervisor) measure(n int, idle bool) (map[figure]float64, error) {
	sc, err := s.stage(n)
	if err != nil {
		return nil, err
	}
	defer sc.end()
	values, err := sc.play(idle)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return values, nil
}

// play takes the figures that this supervisor has.
func (sc *scene) play(idle bool) (map[figure]float64, error) {
	values := map[figure]float64{start: ms(sc.took)}
	if !sc.restarts {
		return values, nil
	}
	time.Sleep(5 * time.Second) // until what the start had to write is written
	own, err := sc.overhead()
	if err != nil {
		return nil, err
	}
	for _, p := range own {
		values[memory] += rollup(p.pid, "Pss") / 1024
	}
	if idle {
		values[idleness] = wakeupsIn(own, 5*time.Second)
	}
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

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// wakeupsIn is how often processes wake up in a while.
func wakeupsIn(all []process, while time.Duration) (sum float64) {
	for _, p := range all {
		sum -= wakeups(p.pid)
	}
	time.Sleep(while)
	for _, p := range all {
		sum += wakeups(p.pid)
	}
	return sum
}

// kills is how many services are killed for the median of one scene.
const kills = 5

// recover measures from SIGKILL of a service that has run for long enough to count as
// healthy, until it runs again: the median of several, one after the other.
func (sc *scene) recover() (float64, error) {
	all, err := within(sc.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	readers := map[string]int{} // pids by what they read
	for _, p := range all {
		if len(p.argv) == 2 {
			readers[p.argv[1]] = p.pid
		}
	}
	var took []float64
	for _, name := range sc.names[:min(len(sc.names), kills)] {
		pid, found := readers[fifo(sc.dir, name)]
		if !found {
			return 0, fmt.Errorf("nothing reads %s", fifo(sc.dir, name))
		}
		time.Sleep(100 * time.Millisecond) // until what the restart before had to write is written
		began := time.Now()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return 0, err
		}
		if err := sc.opened.await(name); err != nil {
			return 0, err
		}
		took = append(took, ms(time.Since(began)))
	}
	return median(took), nil
}
