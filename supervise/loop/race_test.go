//go:build race

package loop

// With the race detector a simulation takes three times as long. A few run with it, and
// all without it.
func init() { raced = true }
