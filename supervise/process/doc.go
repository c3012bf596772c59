// Package process is what a service's process needs around it: its program and
// working directory found, its port looked at, descriptors that may be held for it, and
// a failed spawn put into words. Nothing here has a state
// machine or speaks to tier 1: whoever owns the service does.
package process
