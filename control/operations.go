package control

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// OperationHeader carries the id of the operation that a command began.
const OperationHeader = "Rlminit-Operation"

// Actor is the requester of a command, as the kernel told.
type Actor struct {
	UID uint32 `json:"uid"`
	PID int32  `json:"pid,omitempty"` // 0: a process that we do not see
}

// Operation is a command on one or more services, and what became of it.
type Operation struct {
	ID      uint64            `json:"id"`
	Verb    string            `json:"verb"` // start, stop, restart
	Actor   Actor             `json:"actor"`
	At      time.Time         `json:"at"`
	State   string            `json:"state"` // running, done, failed, cancelled, superseded, interrupted
	Members []OperationMember `json:"members"`
	Reason  string            `json:"reason"`
	Omitted int               `json:"omitted,omitempty"` // members that are not kept any more: of many, those that went well
	Left    []Left            `json:"left,omitempty"`    // in the answer that begins it: services of the set that it leaves as they are
}

// OperationMember is one service of an operation.
type OperationMember struct {
	Name   string `json:"name"`
	State  string `json:"state"`  // pending, running, done, failed, cancelled, superseded, interrupted
	Reason string `json:"reason"` // its blocker, or why it is as it is
	OldPID int    `json:"old_pid"`
	PID    int    `json:"pid"`
}

// Over tells whether the operation has ended.
func (o Operation) Over() bool { return o.State != "running" }

// Problem is the error of a command that waited for the operation; nil: none.
func (o Operation) Problem() *Problem {
	switch o.State {
	case "running", "done":
		return nil
	case "failed":
		if o.Gated() {
			return NewProblem(KindUnhealthy, o.Reason)
		}
		return Failed("%s", o.Reason)
	}
	return Conflict("operation %d is %s: %s", o.ID, o.State, o.Reason)
}

// Gated tells whether it stopped at a member that was not ready.
func (o Operation) Gated() bool {
	return strings.HasPrefix(o.Reason, GateReason)
}

// GateReason begins the reason of one that stopped at its gate.
const GateReason = "stopped at "

// Operations returns those under way and the latest that are over.
func (c *Client) Operations(ctx context.Context) ([]Operation, error) {
	return list[Operation](ctx, c, "/v1/operations", "the operations")
}

// Operation returns one. With wait it answers when the operation is over, or has
// changed, or after a while.
func (c *Client) Operation(ctx context.Context, id uint64, wait bool) (Operation, error) {
	r := get("/v1/operations/"+strconv.FormatUint(id, 10), "the operation")
	if wait {
		r.query = url.Values{"wait": {"true"}}
	}
	return ask[Operation](ctx, c, r)
}

// Cancel has an operation go no further.
func (c *Client) Cancel(ctx context.Context, id uint64) (Operation, error) {
	return ask[Operation](ctx, c, post("/v1/operations/"+strconv.FormatUint(id, 10)+"/cancel", nil, "the cancellation"))
}

// Operate begins one operation on the services that names and o say, and returns
// it as it is then.
func (c *Client) Operate(ctx context.Context, o BeginOperation) (Operation, error) {
	return ask[Operation](ctx, c, post("/v1/operations", o, "the "+o.Verb))
}

// BeginOperation is the body of POST /v1/operations. Names are those of services or
// profiles, and patterns of them as path.Match(3) has it; none: all.
type BeginOperation struct {
	Verb     string   `json:"verb"`
	Names    []string `json:"names,omitempty"`
	State    string   `json:"state,omitempty"`   // only those that are in this state now
	Kind     string   `json:"kind,omitempty"`    // only gateways of this kind
	Rolling  int      `json:"rolling,omitempty"` // at most so many out of service at once; 0: in one go
	SteadyMS int64    `json:"steady_ms,omitempty"`
	Runtime  bool     `json:"runtime,omitempty"` // stop: leave the intent as it is
}
