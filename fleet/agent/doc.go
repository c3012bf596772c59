// Package agent decides for one member of a fleet: it is one deterministic function,
// (*Agent).Step, from an input to the effects that follow from it.
//
// It is for the driver, which tells it what etcd, the box and the clock say, carries out
// the effects, and comes back with what came of them. It owns:
//
//   - the view: what etcd has said of the fleet, as far as the member has heard it;
//   - the session: the lease, and when the last keep-alive that was confirmed was sent;
//   - what the member holds: a claim for each profile, and how far its gateway is;
//   - which profiles have no owner, and when this member may claim each.
//
// It has no clock, no goroutine and no I/O. Effects may be carried out late, twice or
// never, and their answers may be lost: what is safe then is in SAFETY.md, whose rules
// are named here as (R1) to (R8). Only the order of the inputs is taken for granted.
//
// All times are nanoseconds of CLOCK_BOOTTIME of this machine.
package agent
