// Package pure is rlminit without a configuration: an init that starts one
// command, forwards every signal to it, reaps, and exits with its code. The
// command keeps user, capabilities, signal mask and working directory, and the
// terminal.
//
// It runs from its own init function, before the packages of the supervisor
// are initialised, and does not return: those cost more than all it does. It
// therefore imports package sys alone. There is no goroutine but the main one,
// nothing is allocated once the command runs, and so nothing is ever collected.
package pure
