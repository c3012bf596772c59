// Package prepare is what happens in a container before anything of it runs, in
// a short-lived child of PID 1: AsRoot gives the service user the uid that was
// asked for and the volume to that user, and what needs no root is AsUser's:
// directories, seeds, and the boot steps.
//
// It owns nothing and runs once. Nothing on the volume is ever written as root:
// what root changes there is the owner of files, by descriptor.
package prepare
