package jobs

import (
	"errors"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/job"
	"rlminit/job/table"
	"rlminit/wire"
)

// keyedTask is a job under the key K that somebody asks for.
func keyedTask(kind, profile string, command ...string) *task {
	return newTask("", kind, nil, control.RunJob{Command: command, Profile: profile, Key: "K", TimeoutMS: 3_600_000, MaxOutput: 1000, Detach: true})
}

// A request that is sent again under its key is the job that it was, while that runs and
// as long as it is remembered, by another container too; the key of another is refused,
// and one that was refused was none.
func TestKeys(t *testing.T) {
	d := newDisk("here")
	g := newRig(t, d, Unrecorded())
	g.Open()
	g.task = keyedTask("run", "alice", "id")
	if taken, err := g.submit(g.task); taken != g.task || err != nil {
		t.Fatalf("%v, %v", taken, err)
	}
	others := func(when string) {
		t.Helper()
		for what, other := range map[string]*task{
			"of another profile": keyedTask("run", "bob", "id"), "of none": keyedTask("run", "", "id"),
			"another command": keyedTask("run", "alice", "id", "-u"), "another kind": keyedTask(kindWrite, "alice", "id"),
		} {
			_, err := g.submit(other)
			var problem *control.Problem
			if !errors.As(err, &problem) || problem.ExitCode != control.ExitExists {
				t.Errorf("%s, %s: %v", what, when, err)
			}
		}
	}
	others("while it runs")
	if taken, err := g.submit(keyedTask("run", "alice", "id")); taken != g.task || err != nil {
		t.Errorf("sent again: %v, %v", taken, err)
	}
	g.until("it is spawned", func() bool { return g.spawn() != 0 })
	g.Hear(&wire.Exited{ID: g.task.run.id, Exit: wire.Exit{At: 1}})
	g.over()
	others("when it is over")
	if past, err := g.submit(keyedTask("run", "alice", "id")); err != nil || past.spec.ID != "1" || past.state.Outcome != job.Succeeded || past.outcome.result.State != "succeeded" {
		t.Errorf("sent again when it is over: %v, %v", past, err)
	}
	next := newRig(t, d, Unrecorded())
	if past, err := next.submit(keyedTask("run", "alice", "id")); err != nil || past.spec.ID != "1" || past.state.Outcome != job.Succeeded {
		t.Errorf("sent again to the next: %v, %v", past, err)
	}

	refused := newDisk("here")
	refused.Note(table.TypeSubmitted, table.Submitted{Job: "1", Kind: "run", Command: []string{"id"}, Profile: "alice", Key: "K"})
	refused.Note(table.TypeFailed, table.Ended{Job: "1", State: job.RefusedAs})
	again := newRig(t, refused, Unrecorded())
	second := keyedTask("run", "alice", "id")
	if taken, err := again.submit(second); taken != second || err != nil {
		t.Errorf("one that was refused, sent again: %v, %v", taken, err)
	}
}

// A key is of the whole command, not of what is recorded of it for people.
func TestKeyIsOfTheWholeCommand(t *testing.T) {
	g := newRig(t, newDisk("here"), Unrecorded())
	g.Open()
	long := strings.Repeat("x", 2000)
	first := keyedTask("run", "alice", "sh", "-c", long+"1")
	if _, err := g.submit(first); err != nil {
		t.Fatal(err)
	}
	if taken, err := g.submit(keyedTask("run", "alice", "sh", "-c", long+"1")); taken != first || err != nil {
		t.Errorf("sent again: %v, %v", taken, err)
	}
	var problem *control.Problem
	if _, err := g.submit(keyedTask("run", "alice", "sh", "-c", long+"2")); !errors.As(err, &problem) || problem.ExitCode != control.ExitExists {
		t.Errorf("another command: %v", err)
	}
}
