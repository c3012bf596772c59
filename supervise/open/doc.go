// Package open is the driver of what services have open beyond their stdio: the sockets
// that they listen on, the one that they notify the supervisor by, and descriptors that
// they have stored with it. Each of them tier 1 holds too, under a key of the service's
// name, so that it outlives the supervisor.
//
// What a service says by sd_notify(3) it hands to the core as an input, if it is the
// service itself that says so; what that means the core decides.
package open
