//go:build race

package reap

// What the race detector costs: large messages take so many times longer, so
// there are that many fewer, and memory is so many times as much.
const slower, heavier = 10, 4
