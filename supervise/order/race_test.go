//go:build race

package order_test

// raced says that the race detector is on: one goroutine has no races, and the
// searches take ten times as long.
const raced = true
