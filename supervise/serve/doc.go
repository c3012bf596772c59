// Package serve answers clients: over the control socket, through package api, and scrapes of
// the metrics. It finds the services that a name means, gives commands and waits for what
// becomes of them, says how services are, hosts jobs, and carries out revisions.
//
// It owns nothing of a service. What it tells of one is a View, a copy; what it wants of one
// is a command or an input of supervise/core, which Loop takes to it. Anybody may call it
// but the loop, unless a function says otherwise. It knows no driver: what it needs of one is
// an interface or a function here.
package serve
