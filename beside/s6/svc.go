package s6

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"rlminit/control"
)

// signals are those that s6-svc sends, by their letters.
var signals = map[byte]string{
	'a': "ALRM", 'b': "ABRT", 'q': "QUIT", 'h': "HUP", 'k': "KILL", 't': "TERM", 'i': "INT",
	'1': "USR1", '2': "USR2", 'p': "STOP", 'c': "CONT", 'y': "WINCH",
}

// svc commands a service, and may wait for what comes of it.
func svc(c *call) int {
	given, words, ok := c.options("abqhkti12pcyroduDUxOQ", "wT")
	if !ok {
		return c.misused()
	}
	var commands []byte
	var most time.Duration
	var wait byte
	for _, o := range given {
		switch o.letter {
		case 'w':
			if wait = o.value[0]; !isGoal(wait) {
				return c.misused()
			}
		case 'T':
			if most, ok = limit(o.value); !ok {
				return c.misused()
			}
		default:
			commands = append(commands, o.letter)
		}
	}
	if len(words) == 0 {
		return c.misused()
	}
	name, err := serviceOf(words[0])
	if err != nil {
		return c.fatal(exitSystem, "unable to control %s: %v", words[0], err)
	}
	client := c.open()
	is, err := client.Service(c.ctx, name)
	if err != nil {
		return c.uncontrolled(words[0], err)
	}
	name = is.Name
	ctx, cancel := within(c.ctx, most)
	defer cancel()
	a := await{client: client, names: []string{name}, goal: goal(wait)}
	if wait != 0 {
		if err := a.begin(ctx); err != nil {
			return c.awaited(words, 0, err)
		}
	}
	for _, letter := range commands {
		if err := c.command(client, name, letter); err != nil {
			return c.uncontrolled(words[0], err)
		}
	}
	if wait == 0 {
		return exitDone
	}
	failed, err := a.end(ctx)
	if failed > 0 {
		return c.fatal(exitNo, "%s failed, and is not tried again; see rlminit status %s", name, name)
	}
	return c.awaited(words, 0, err)
}

// uncontrolled says why a service was not commanded.
func (c *call) uncontrolled(path string, err error) int {
	what := because(err)
	if unknown(err) {
		what = "No such file or directory (" + what + ")"
	}
	return c.fatal(exitOf(err), "unable to control %s: %s", path, what)
}

// command does what one letter asks for. What has nothing to do is no error, as with s6.
func (c *call) command(client *control.Client, name string, letter byte) error {
	switch letter {
	case 'u', 'U':
		return began(client.Start(c.ctx, name, control.Operate{}))
	case 'd', 'D':
		return began(client.Stop(c.ctx, name, control.Operate{Runtime: letter == 'd'}))
	case 'r':
		is, err := client.Service(c.ctx, name)
		if err != nil || is.PID == nil || is.State == "stopping" {
			return err
		}
		return began(client.Restart(c.ctx, name, control.Operate{}))
	case 'o':
		is, err := client.Service(c.ctx, name)
		if err == nil && is.Type != "oneshot" {
			return fmt.Errorf("rlminit runs only what has type: oneshot once; use rlminit run for a command beside %s, or -u", name)
		}
		if err != nil {
			return err
		}
		return began(client.Start(c.ctx, name, control.Operate{}))
	case 'O', 'Q':
		return fmt.Errorf("-%c has no counterpart: whether a service is restarted is its restart policy; write restart: never, or use -d", letter)
	case 'x':
		return nil // no process supervises this service alone
	}
	_, err := client.Signal(c.ctx, name, signals[letter])
	if exits(err, control.ExitNotRunning) {
		return nil
	}
	return err
}

// began is the error of an operation that is not waited for.
func began(outcomes []control.Outcome, err error) error {
	if err != nil {
		return err
	}
	for _, o := range outcomes {
		if o.Problem != nil && o.Problem.ExitCode != control.ExitNotRunning {
			return o.Problem
		}
	}
	return nil
}

// svscanctl commands the supervisor.
func svscanctl(c *call) int {
	given, words, ok := c.options("zabhitqnN", "")
	if !ok || len(words) == 0 {
		return c.misused()
	}
	if !isScanDir(words[0]) {
		return c.fatal(exitSystem, "unable to control %s: No such file or directory (services are in /run/service)", words[0])
	}
	client := c.open()
	if _, err := client.Health(c.ctx, "alive", nil); err != nil {
		return c.fatal(exitOf(err), "unable to control %s: %s", words[0], because(err))
	}
	letters := make([]byte, len(given))
	for i, o := range given {
		letters[i] = o.letter
	}
	var err error
	switch {
	case slices.ContainsFunc(letters, func(l byte) bool { return slices.Contains([]byte("tiqb"), l) }):
		err = client.Shutdown(c.ctx)
	case slices.ContainsFunc(letters, func(l byte) bool { return slices.Contains([]byte("ahnN"), l) }):
		var r control.Reloaded
		if r, err = client.Reload(c.ctx, control.Reload{}); err == nil {
			for _, note := range r.Notes {
				fmt.Fprintf(c.to.Err, "%s: warning: %s\n", c.name, note)
			}
			if isOwnDir(words[0]) {
				err = c.scan(client, words[0])
			}
		}
	}
	if err != nil {
		var p *control.Problem
		if errors.As(err, &p) && p.ExitCode == control.ExitNoAnswer {
			return c.fatal(exitUsage, "unable to control %s: %s", words[0], because(err))
		}
		return c.fatal(exitSystem, "unable to control %s: %s", words[0], because(err))
	}
	return exitDone
}
