package nemesis_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"rlminit/fleet/test/check"
	"rlminit/fleet/test/nemesis"
)

// changer declares the profiles, and changes and moves them from time to time, as a
// person would: by the verbs of rlminit fleet.
type changer struct {
	w    *nemesis.World
	say  func(format string, args ...any)
	luck *rand.Rand
	all  []check.Change
	n    int
}

// changed is the exit code of an apply that has changed something.
const changed = 9

func name(i int) string { return fmt.Sprintf("p%02d", i) }

// first declares all profiles. A machine with too much to do may need a second attempt.
func (c *changer) first(ctx context.Context) error {
	for range 3 {
		c.change(ctx)
		if c.all[len(c.all)-1].Acked != 0 {
			return nil
		}
	}
	return errors.New("the fleet has no faults yet, and no apply came about")
}

// change declares all profiles with another revision, and takes down whether that was
// acknowledged.
func (c *changer) change(ctx context.Context) {
	c.n++
	sent := check.Now()
	err := c.apply(ctx)
	acked := check.Now()
	if err != nil {
		acked = 0
		c.say("revision %d was not acknowledged: %v", c.n, err)
	} else {
		c.say("revision %d was acknowledged after %s", c.n, time.Duration(acked-sent).Round(time.Millisecond))
	}
	for i := range profiles {
		c.all = append(c.all, check.Change{Profile: name(i), Revision: fmt.Sprint(c.n), Sent: sent, Acked: acked})
	}
}

// goOn changes or moves something every now and then, until ctx is done.
func (c *changer) goOn(ctx context.Context) {
	for {
		pause := time.NewTimer(time.Duration(5+c.luck.IntN(20)) * time.Second)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		if c.luck.IntN(2) == 0 {
			c.change(context.WithoutCancel(ctx)) // what was begun is not left half done
			continue
		}
		which, to := name(c.luck.IntN(profiles)), c.w.Members[c.luck.IntN(len(c.w.Members))].Name
		if _, err := c.fleet(ctx, "move", which, to, "--timeout", "30s"); err != nil {
			c.say("%s was not moved to %s: %v", which, to, err)
		} else {
			c.say("%s was moved to %s", which, to)
		}
	}
}

// apply plans a set, and applies it with the plan's hash.
func (c *changer) apply(ctx context.Context) error {
	file := filepath.Join(c.w.Files, fmt.Sprintf("set-%d.yaml", c.n))
	if err := os.WriteFile(file, []byte(c.set()), 0o644); err != nil {
		return fmt.Errorf("cannot write the set: %w", err)
	}
	out, err := c.fleet(ctx, "plan", file, "--json")
	var plan struct{ Hash string }
	if jerr := json.Unmarshal([]byte(out), &plan); jerr != nil {
		return errors.Join(err, jerr)
	}
	_, err = c.fleet(ctx, "apply", file, "--approve", plan.Hash, "--timeout", "40s", "--steady", "1s")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == changed {
		return nil
	}
	return err
}

// fleet runs a verb on this machine, which reaches etcd as the members do. An error has
// the last line that it printed.
func (c *changer) fleet(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.w.Program(), append(args, "--config", c.w.Configuration())...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(complaint.String()), "\n")
		err = fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return string(out), err
}

// set is the declarations' text. Every third gateway takes no notice of a TERM.
func (c *changer) set() string {
	var b strings.Builder
	b.WriteString("version: 1\nprofiles:\n")
	for i := range profiles {
		fmt.Fprintf(&b, "  %s: {kind: fleet, environment: {REVISION: %q, STUBBORN: %q}}\n", name(i), fmt.Sprint(c.n), fmt.Sprint(i%3/2))
	}
	return b.String()
}
