// Package agent is what a test and the agent in its virtual machine say to
// each other over a serial line: one JSON object a line. The agent begins, with
// an answer to request 0.
package agent

// Request asks to run a command.
type Request struct {
	ID   int // of this request, 1 or more; its answer bears it
	UID  int
	GID  int
	Argv []string
	In   string
}

// Answer tells what came of it.
type Answer struct {
	ID       int
	Code     int // 128+n for signal n
	Out, Err string
}
