package view

import (
	"cmp"
	"context"
	"regexp"
	"slices"

	"rlminit/beside/page/live"
	"rlminit/control"
)

// membersShown is how many members of an operation are shown, those that did not go well
// before the others.
const membersShown = 500

// operationBody is an operation as it is shown.
type operationBody struct {
	control.Operation
	By     string // who has asked for it
	Why    reason
	Done   int // members it is done with
	All    int
	Shown  []memberBody
	More   int // members that are not shown
	CanAct bool
}

// memberBody is a member as it is shown.
type memberBody struct {
	control.OperationMember
	Why reason
}

// reason is one of the supervisor's, which is for a terminal, as it is shown on a page.
type reason struct {
	Text string
	Log  string // whose log tells more; "": nobody's
}

// forTerminal is the end of a reason that says what to do in a terminal, and when
// something was to happen, as it was when the reason was written.
var forTerminal = regexp.MustCompile(`(; it is (?:tried again in \S+|started again))?[;,] see rlminit logs (\S+?)(?:, then rlminit start \S+)?$`)

func reasonOf(text string) reason {
	at := forTerminal.FindStringSubmatchIndex(text)
	if at == nil {
		return reason{Text: clean(text)}
	}
	r := reason{Text: clean(text[:at[0]]), Log: text[at[4]:at[5]]}
	if at[2] >= 0 {
		r.Text += "; it was to be started again"
	}
	return r
}

// Names are its members in few words.
func (o operationBody) Names() string {
	switch len(o.Members) {
	case 0:
		return "nothing"
	case 1:
		if o.Omitted == 0 {
			return o.Members[0].Name
		}
	}
	return count(o.All, "service", "services")
}

func (p *base) operationOf(o control.Operation) operationBody {
	b := operationBody{Operation: o, By: clean(p.askers.of(o.ID, o.Actor.UID)), Why: reasonOf(o.Reason), All: len(o.Members) + o.Omitted, Done: o.Omitted, CanAct: p.allow >= Operate}
	for _, m := range o.Members {
		if m.State != "pending" && m.State != "running" {
			b.Done++
		}
		b.Shown = append(b.Shown, memberBody{m, reasonOf(m.Reason)})
	}
	rank := func(m memberBody) int {
		return cmp.Or(slices.Index([]string{"failed", "running", "interrupted", "cancelled", "superseded", "pending"}, m.State)+1, 9)
	}
	slices.SortStableFunc(b.Shown, func(a, c memberBody) int { return rank(a) - rank(c) })
	b.Shown = b.Shown[:min(len(b.Shown), membersShown)]
	b.More = b.All - len(b.Shown)
	return b
}

// askOperations asks for all that are remembered, the latest first.
func (p *base) askOperations(ctx context.Context) ([]operationBody, error) {
	all, err := live.Ask(ctx, p.ask, func(ctx context.Context, c *control.Client) ([]control.Operation, error) { return c.Operations(ctx) })
	if err != nil {
		return nil, err
	}
	var bodies []operationBody
	for _, o := range all {
		bodies = append(bodies, p.operationOf(o))
	}
	slices.SortStableFunc(bodies, func(a, b operationBody) int { return b.At.Compare(a.At) })
	return bodies, nil
}

func (p *base) askOperation(ctx context.Context, id uint64) (operationBody, error) {
	o, err := live.Ask(ctx, p.ask, func(ctx context.Context, c *control.Client) (control.Operation, error) {
		return c.Operation(ctx, id, false)
	})
	return p.operationOf(o), err
}
