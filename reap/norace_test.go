//go:build !race

package reap

const slower, heavier = 1, 1
