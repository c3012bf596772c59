// Package config holds rlminit.yaml and services.d: their reading from disk,
// their trust, their content, and the part of it that tier 1 is given
// (Compile).
//
// It starts no process and writes no file. A Config is a value that never
// changes; a reload makes another.
package config
