// Package volume is the driver of the volume: its lock, which tier 1 holds too, the journal
// on it, and the revisions that the journal has. It records what is asked for while the
// volume is ours, and says when it comes to be so and when it is another container's. It
// decides nothing about services.
package volume
