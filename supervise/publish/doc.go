// Package publish is the driver of what is told of services to whoever looks: status files
// in their slots, and events. All of it are copies: nothing is decided by them, and nobody
// waits for one but who asks to, by Flush.
package publish
