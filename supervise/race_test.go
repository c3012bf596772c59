//go:build race

package supervise

// With the race detector a simulation takes three times as long. A few run with it, and
// all without it.
func init() { raced = true }
