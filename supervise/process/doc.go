// Package process is what a service's process needs around it: its program and
// working directory found, its sockets, its notify socket and what it stored
// there, its probes, and a failed spawn put into words. Nothing here has a state
// machine or speaks to tier 1: whoever owns the service does.
package process
