package serve

import (
	"context"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/profiles"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/wire"
)

// isFence tells whether a text can be a fence: 1 to 64 letters, digits, dots, dashes and
// underscores.
func isFence(s string) bool {
	const signs = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._-"
	return len(s) > 0 && len(s) <= 64 && strings.Trim(s, signs) == ""
}

// leaseFor is what a command on one service is to run it under, or why it may not be given.
// Who starts all names none, and starts nothing that needs one.
func leaseFor(units []*View, verb, of string, d *control.Deadline) (lease machine.Lease, err error) {
	now := int64(wire.SinceBoot())
	switch {
	case d == nil && (verb == core.VerbStop || of == control.All || len(units) == 0):
		return lease, nil
	case d != nil && (verb != core.VerbStart || of == control.All || len(units) == 0):
		return lease, control.BadRequest("cannot %s %s: a deadline goes with the start of one service", verb, of)
	}
	u := units[0]
	is := u.State.Lease
	switch {
	case d == nil && u.policy().Deadline && is.At <= now:
		return lease, control.NotSupported("cannot %s %s: it runs only under a deadline, and has none; start it by POST /v1/services/NAME/start with a fence and a deadline, as the agent of a fleet does", verb, u.Title)
	case d == nil:
		return lease, nil
	case !u.policy().Deadline:
		return lease, control.BadRequest("cannot start %s with a deadline: its definition does not have `deadline: required`", u.Title)
	case !isFence(d.Fence):
		return lease, control.BadRequest("cannot start %s: its fence has 1 to 64 letters, digits, dots, dashes and underscores", u.Title)
	case d.AtNS <= now:
		return lease, control.Conflict("cannot start %s: its deadline has passed %s ago", u.Title, time.Duration(now-d.AtNS).Round(time.Millisecond))
	case u.State.ID != 0 && is.Fence != d.Fence:
		return lease, control.Conflict("cannot start %s: what runs under the fence %q is still there", u.Title, is.Fence)
	}
	return machine.Lease{Fence: d.Fence, At: d.AtNS}, nil
}

// claimed is the service of the profile that a command for a claimed one is about.
func (s *Backend) claimed(verb, profile string) (name string, err error) {
	if verb == core.VerbRestart || !profiles.ValidName(profile) {
		return "", control.BadRequest("cannot %s %s: claimed goes with the start or stop of one profile, by its name", verb, document.Quote(profile))
	}
	name = profiles.GatewayName(profile)
	u, err := s.LookUp(name)
	switch {
	case err != nil:
		return "", err
	case u.Name != name || u.Definition.Profile != profile && !core.Leased(&u.State):
		return "", control.Refused("cannot %s %s: it is a service of the configuration, and no profile", verb, name)
	}
	return name, nil
}

// Prolong moves deadlines on, and answers once the loop has done so, or ctx ends.
func (c *Commands) Prolong(ctx context.Context, deadlines []control.Deadline) (answer control.Prolonged, err error) {
	c.loop.Read(func(now Services) {
		for _, d := range deadlines {
			if u := now.Find(d.Name); u != nil {
				c.loop.Tell(core.Input{Kind: core.Happened, Node: u.Life.Node(), Event: machine.Event{
					Kind: machine.Prolong, Lease: machine.Lease{Fence: d.Fence, At: d.AtNS},
				}})
			}
		}
	})
	// A read may come before the loop has done what it was told. An answer of the loop comes after.
	if err := c.loop.Await(ctx, 0, func(Services, *core.Operation) bool { return true }); err != nil {
		return answer, err
	}
	answer.Refused = []control.Unmoved{}
	c.loop.Read(func(now Services) {
		for _, d := range deadlines {
			if why := unmoved(now.Find(d.Name), d); why != "" {
				answer.Refused = append(answer.Refused, control.Unmoved{Name: d.Name, Why: why})
			}
		}
	})
	return answer, nil
}

// unmoved is why a deadline is not the one that somebody wants; "": it is.
func unmoved(u *View, d control.Deadline) string {
	if u == nil {
		return "there is no such service"
	}
	switch is := u.State.Lease; {
	case is.At == d.AtNS && is.Fence == d.Fence && is.At > u.At:
		return ""
	case d.Fence == "" || is.Fence != d.Fence:
		return "it does not run under that fence"
	case is.At <= u.At:
		return "its deadline has passed"
	}
	return "its deadline is later already"
}
