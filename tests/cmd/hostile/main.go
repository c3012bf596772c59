// Command hostile is a service that has turned against the others: it tries what a
// process of its user, with its tag, could do to the supervisor, to PID 1 and to
// other services. What succeeds is undone at once. It prints a line of JSON for each
// kind of attempt: how many were made, how many were refused, and what was not.
//
//	hostile SUPERVISOR-PID VICTIM-PID VICTIM
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Needs is what it takes for a kind of attempt to be refused.
type Needs string

// What it takes: nothing but rlminit, a user of the supervisor's own, or one of
// the victim's.
const (
	Always     Needs = "always"
	Supervisor Needs = "supervisor_user"
	Own        Needs = "user: auto"
)

// Result is what came of the attempts of a kind.
type Result struct {
	Kind     string   `json:"kind"`
	Needs    Needs    `json:"needs"`
	Attempts int      `json:"attempts"`
	Held     int      `json:"held"`
	Broke    []string `json:"broke,omitempty"` // what succeeded
}

// attack collects results.
type attack struct {
	order   []string
	results map[string]*Result
}

// try makes an attempt. It succeeds without an error.
func (a *attack) try(kind string, needs Needs, what string, f func() error) {
	r := a.results[kind]
	if r == nil {
		r = &Result{Kind: kind, Needs: needs}
		a.results[kind] = r
		a.order = append(a.order, kind)
	}
	r.Attempts++
	if err := f(); err != nil {
		r.Held++
	} else if len(r.Broke) < 20 {
		r.Broke = append(r.Broke, what)
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 4 {
		return fmt.Errorf("usage: hostile SUPERVISOR-PID VICTIM-PID VICTIM")
	}
	var pids [2]int
	for i := range pids {
		pid, err := strconv.Atoi(os.Args[1+i])
		if err != nil {
			return fmt.Errorf("no pid: %w", err)
		}
		pids[i] = pid
	}
	runtime := os.Getenv("RLMINIT_RUNTIME_DIR")
	if runtime == "" {
		runtime = "/run/rlminit"
	}
	a := &attack{results: map[string]*Result{}}
	processes(a, "PID 1", Always, 1)
	processes(a, "the supervisor", Supervisor, pids[0])
	processes(a, "another service", Own, pids[1])
	secrets(a, "PID 1", Always, 1)
	secrets(a, "the supervisor", Always, pids[0])
	secrets(a, "another service", Own, pids[1])
	files(a, runtime, os.Getenv("RLMINIT_HOME"), os.Args[3])
	requests(a, filepath.Join(runtime, "control.sock"), os.Args[3])
	notifications(a, filepath.Join(runtime, "services", os.Args[3], "notify"))
	out := json.NewEncoder(os.Stdout)
	for _, kind := range a.order {
		if err := out.Encode(a.results[kind]); err != nil {
			return err
		}
	}
	return nil
}
