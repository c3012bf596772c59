// Package config holds rlminit.yaml and services.d: how they are read from disk
// and whether they may be trusted, what they say, and what of it tier 1 is given
// (Compile).
//
// It starts no process and writes no file. A Config is a value that never
// changes; a reload makes another.
package config
