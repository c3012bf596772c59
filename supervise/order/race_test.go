//go:build race

package order_test

// raced says that the race detector is on: one goroutine has no races, and the
// searches take ten times as long, so that they are fewer.
const raced = true
