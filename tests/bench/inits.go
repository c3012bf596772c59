package main

import (
	"fmt"
	"os/exec"
	"time"
)

// initMeasures are those of an init without a configuration.
func initMeasures() []measure {
	return []measure{
		{name: "init: start to end of /bin/true", promise: "at most 2.2 of tini's", run: trueTimes},
		{name: "init: idle, proportional memory", promise: "at most 4500 KB", run: func() ([]row, error) { return idle("Pss", "KB") }},
		{name: "init: idle, anonymous memory", promise: "at most 1500 KB", run: func() ([]row, error) { return idle("Anonymous", "KB") }},
		{name: "init: idle, times it woke up in 2 s", promise: "none", run: func() ([]row, error) { return idle("", "wake-ups") }},
	}
}

// inits are the command lines before the command: of rlminit, then tini, then
// whatever else is installed.
func inits() ([]string, map[string][]string) {
	argv := map[string][]string{
		"rlminit":   {*binary, "init", "--"},
		"tini":      {"tini", "-s", "--"},
		"dumb-init": {"dumb-init", "--"},
		"catatonit": {"catatonit", "--"},
	}
	return []string{"rlminit", "tini", "dumb-init", "catatonit"}, argv
}

func trueTimes() ([]row, error) {
	return eachInit("ms", 40**rounds, func(argv []string) (float64, error) {
		// Without a namespace, whose making costs more than the whole.
		cmd := exec.Command(argv[0], append(argv[1:], "/bin/true")...)
		began := time.Now()
		err := cmd.Run()
		return ms(time.Since(began)), err
	})
}

func idle(key, unit string) ([]row, error) {
	return eachInit(unit, *rounds, func(argv []string) (float64, error) {
		cmd := boxed(append(argv, "/bin/sleep", "1000")...)
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
		if err := awaitCommand(cmd.Process.Pid, "/bin/sleep"); err != nil {
			return 0, err
		}
		time.Sleep(200 * time.Millisecond)
		if key != "" {
			return rollup(cmd.Process.Pid, key), nil
		}
		before := wakeups(cmd.Process.Pid)
		time.Sleep(2 * time.Second)
		return wakeups(cmd.Process.Pid) - before, nil
	})
}

// eachInit measures the inits by turns, so that what else the machine does hits
// all alike.
func eachInit(unit string, times int, f func(argv []string) (float64, error)) ([]row, error) {
	names, argv := inits()
	var rows []row
	for _, name := range names {
		if _, err := exec.LookPath(argv[name][0]); err == nil {
			rows = append(rows, row{peer: name, unit: unit})
		}
	}
	for range times {
		for i := range rows {
			v, err := f(argv[rows[i].peer])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", rows[i].peer, err)
			}
			rows[i].values = append(rows[i].values, v)
		}
	}
	return rows, nil
}
