//go:build !race

package order_test

const raced = false
