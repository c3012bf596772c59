// Package local is the box of a member: it starts, stops and asks about gateways by the
// control socket of the rlminit that runs there.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"rlminit/control"
	"rlminit/fleet/agent"
	"rlminit/service"
)

// Box is the rlminit of this container.
type Box struct {
	Client *control.Client
	// Deadlines moves deadlines on. It has a connection of its own, so that nothing else that
	// the box is asked is in the way.
	Deadlines *control.Client
}

// Open is the box of this container.
func Open() *Box {
	client := control.Open()
	return &Box{Client: client, Deadlines: client.Kept()}
}

// Survey is all gateways with a deadline, or that need one, of which anything is left.
func (b *Box) Survey(ctx context.Context) ([]agent.Run, error) {
	all, err := b.Client.Services(ctx)
	if err != nil {
		return nil, err
	}
	var out []agent.Run
	for _, s := range all {
		if s.Profile == nil || s.Deadline == nil && clear(s) {
			continue
		}
		if s.Deadline == nil {
			needs, err := b.needs(ctx, s.Name)
			if err != nil {
				return nil, err
			}
			if !needs {
				continue
			}
		}
		out = append(out, run(s))
	}
	return out, nil
}

// needs tells whether a service is run under a deadline only.
func (b *Box) needs(ctx context.Context, name string) (bool, error) {
	d, err := b.Client.Definition(ctx, name)
	if err != nil {
		return false, err
	}
	for _, f := range d.Fields {
		if f.Field == "deadline" {
			return f.Value == "required", nil
		}
	}
	return false, nil
}

// Seen is how the gateways are, and which names something else has. It is answered only if
// the box can still move deadlines on.
func (b *Box) Seen(ctx context.Context) ([]agent.Run, error) {
	if _, err := control.Prolong(ctx, b.Deadlines, nil); err != nil {
		return nil, err
	}
	all, err := b.Client.Services(ctx)
	if err != nil {
		return nil, err
	}
	var out []agent.Run
	for _, s := range all {
		switch name := strings.TrimPrefix(s.Name, service.GatewayPrefix); {
		case s.Profile == nil:
			out = append(out, agent.Run{Name: name, Foreign: true})
		case s.Deadline == nil && s.State == "running": // for a second, one whose deadline has passed too
			out = append(out, agent.Run{Name: *s.Profile, Foreign: true})
		default:
			out = append(out, run(s))
		}
	}
	return out, nil
}

func run(s control.Service) agent.Run {
	r := agent.Run{Name: *s.Profile, Text: "it is " + s.State}
	if s.Reason != nil {
		r.Text += ": " + *s.Reason
	} else if s.State == "stopped" && s.Desired == "stopped" {
		r.Text = "somebody stopped it there; to stop it, declare state: stopped"
	}
	if s.Deadline != nil {
		r.Fence, _ = strconv.ParseInt(s.Deadline.Fence, 10, 64) // of another's, which is 0
	}
	r.Ended = s.State == "failed" || s.State == "stopped" || s.State == "exited"
	return r
}

// clear tells whether nothing is left of a service, and nothing of it comes back by itself
// but under a deadline.
func clear(s control.Service) bool {
	switch s.State {
	case "stopped", "failed", "exited", "backoff":
		return s.PID == nil
	}
	return false
}

// Try says why the box would refuse a declaration of a profile; nil: it would not, or
// nobody knows.
func (b *Box) Try(ctx context.Context, name string, p agent.Profile) error {
	declared := map[string]any{}
	if err := json.Unmarshal([]byte(p.Text), &declared); err != nil {
		return fmt.Errorf("cannot read the declaration: %w", err)
	}
	delete(declared, "labels")
	set, err := json.Marshal(map[string]any{"version": 1, "profiles": map[string]any{name: declared}})
	if err != nil {
		return err
	}
	// A plan changes nothing, and is thrown away; its salt hides nothing, since no secret is declared.
	_, err = b.Client.Plan(ctx, control.PlanRequest{Text: string(set), Scope: "profile/" + name, Salt: "0123456789abcdef"})
	if Is(err, control.KindUsage) || Is(err, control.KindRefused) {
		return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// Prepare sees that the box has the profile with its definition, stopped. made: it had none.
func (b *Box) Prepare(ctx context.Context, name string, p agent.Profile) (made bool, err error) {
	kind, text, err := definition(p.Text)
	if err != nil {
		return false, fmt.Errorf("cannot read its declaration: %w", err)
	}
	if made, err = b.make(ctx, name, kind); err != nil {
		return false, err
	}
	have, err := b.Client.ProfileText(ctx, name)
	if err != nil || have.Text == text {
		return made, err
	}
	_, err = b.Client.ReplaceProfile(ctx, name, control.ReplaceProfile{Text: text, Claimed: true, Restart: true})
	return made, err
}

// make sees that the box has the profile, and that it is the fleet's. made: it had none.
func (b *Box) make(ctx context.Context, name, kind string) (made bool, err error) {
	switch _, err := b.Client.Profile(ctx, name); {
	case Is(err, control.KindNoSuchName):
		o, err := b.Client.CreateProfile(ctx, control.CreateProfile{Name: name, Kind: kind, Stopped: true, Claimed: true})
		if err == nil && o.Problem != nil {
			err = o.Problem
		}
		return err == nil, err
	case err != nil:
		return false, err
	}
	needs, err := b.needs(ctx, service.GatewayPrefix+name)
	if err == nil && !needs {
		err = fmt.Errorf("the profile %s of this box does not belong to the fleet, since its kind does not have `deadline: required`", name)
	}
	return false, err
}

// definition is the profile.yaml of a declaration: what is the fleet's alone is left out.
func definition(declared string) (kind, text string, err error) {
	all := map[string]any{}
	if declared != "" {
		if err := json.Unmarshal([]byte(declared), &all); err != nil {
			return "", "", err
		}
	}
	kind, _ = all["kind"].(string)
	delete(all, "state")
	delete(all, "labels")
	if len(all) == 0 {
		return kind, "", nil
	}
	out, err := yaml.Marshal(all)
	return kind, string(out), err
}

// startWait is how long a start is waited for. One that takes longer goes on.
const startWait = 5 * time.Second

// Start starts a gateway under a fence until at. It returns once it runs, or may be about to.
func (b *Box) Start(ctx context.Context, name string, fence, at int64) error {
	outcomes, err := b.Client.Start(ctx, name, control.Operate{
		Claimed:  true,
		Deadline: &control.Deadline{AtNS: at + stretch, Fence: strconv.FormatInt(fence, 10)},
		Wait:     &control.Wait{TimeoutMS: startWait.Milliseconds()},
	})
	if err = problem(outcomes, err); Is(err, control.KindTimedOut) {
		return nil
	}
	return err
}

// Extend moves deadlines on, and returns the names of those that were not moved.
func (b *Box) Extend(ctx context.Context, all []agent.Deadline) (refused []string, err error) {
	ask := make([]control.Deadline, len(all))
	for i, d := range all {
		ask[i] = control.Deadline{Name: service.GatewayPrefix + d.Name, Fence: strconv.FormatInt(d.Fence, 10), AtNS: d.At + stretch}
	}
	answer, err := control.Prolong(ctx, b.Deadlines, ask)
	if err != nil {
		return nil, err
	}
	for _, r := range answer.Refused {
		i := slices.IndexFunc(ask, func(d control.Deadline) bool { return d.Name == r.Name })
		if i < 0 || !b.lasts(ctx, ask[i]) {
			refused = append(refused, strings.TrimPrefix(r.Name, service.GatewayPrefix))
		}
	}
	return refused, nil
}

// lasts tells whether a gateway may run until a deadline or longer. The box refuses one
// that is earlier than what it has, as it is when the next request has overtaken this one.
func (b *Box) lasts(ctx context.Context, d control.Deadline) bool {
	s, err := b.Client.Service(ctx, d.Name)
	return err == nil && s.Deadline != nil && s.Deadline.Fence == d.Fence && s.Deadline.AtNS >= d.AtNS
}

// stopWait is how long a stop is waited for. It is asked for again.
const stopWait = 30 * time.Second

// Stop returns nil once nothing of a gateway is left: also if the name is that of something
// that belongs to no fleet, which is left alone. A box whose container is stopping refuses
// it: it ends everything by itself, and starts nothing any more.
func (b *Box) Stop(ctx context.Context, name string) error {
	outcomes, err := b.Client.Stop(ctx, name, control.Operate{Claimed: true, Wait: &control.Wait{TimeoutMS: stopWait.Milliseconds()}})
	err = problem(outcomes, err)
	for late := time.Now().Add(stopWait); Is(err, control.KindConflict) && time.Now().Before(late); time.Sleep(50 * time.Millisecond) {
		if s, err := b.Client.Service(ctx, service.GatewayPrefix+name); err != nil || s.State != "backoff" && clear(s) {
			return err
		}
	}
	if Is(err, control.KindNoSuchName) || Is(err, control.KindRefused) {
		return nil
	}
	for _, o := range outcomes {
		if err == nil && !clear(o.Service) {
			err = fmt.Errorf("%s is %s", o.Service.Name, o.Service.State)
		}
	}
	return err
}

// problem is why what was asked for is not done.
func problem(outcomes []control.Outcome, err error) error {
	for _, o := range outcomes {
		if err == nil && o.Problem != nil {
			err = o.Problem
		}
	}
	return err
}

// Answered tells whether an error is what the box has answered: then what was asked for is
// not done. Otherwise nobody knows.
func Answered(err error) bool {
	var p *control.Problem
	return errors.As(err, &p) && p.Type != "urn:rlminit:"+control.KindNoAnswer && p.Type != "urn:rlminit:"+control.KindTimedOut
}

// Refused tells whether an error is the box's answer that it has begun nothing.
func Refused(err error) bool {
	return Answered(err) && !Is(err, control.KindFailed) && !Is(err, control.KindUnhealthy)
}

// Is tells whether an error is an answer of the box of that kind.
func Is(err error, kind string) bool {
	var p *control.Problem
	return errors.As(err, &p) && p.Type == "urn:rlminit:"+kind
}
