// Package hooks holds programs to be run as hooks, and the test of them.
package hooks
