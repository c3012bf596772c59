package service

import (
	"slices"

	"rlminit/internal/document"
)

// Control is a service's permission at the control socket, each more than the one before.
type Control string

// The levels of Control.
const (
	ControlNone    Control = ""        // its own status
	ControlRead    Control = "read"    // what shows no secret, and changes nothing
	ControlOperate Control = "operate" // and start, stop and restart services
	ControlApprove Control = "approve" // and apply plans
	ControlAll     Control = "true"    // anything, as the service user
)

var controls = []Control{ControlNone, ControlRead, ControlOperate, ControlApprove, ControlAll}

// Allows tells whether a caller of the level c may do an act that needs another one.
func (c Control) Allows(needs Control) bool {
	return slices.Index(controls, c) >= slices.Index(controls, needs)
}

// control reads a boolean, or one of the levels between.
func control(p *Control) document.Setter {
	return func(n document.Node) {
		if n.Describes() {
			document.Bool(new(bool))(n)
			document.OneOf(p, controls[1:len(controls)-1]...)(n)
			return
		}
		s, ok := n.Text()
		if !ok {
			return
		}
		switch all, is := document.ParseBool(s); {
		case !is:
			document.OneOf(p, controls[1:]...)(n)
		case all:
			*p = ControlAll
		default:
			*p = ControlNone
		}
	}
}
