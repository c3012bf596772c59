// Package move is what all sources of `rlminit import` have in common: the plan that a
// source is read into, the list of what could not be taken over, reading files of a tree
// that nobody vouches for, and writing an rlminit.yaml.
//
// It owns the text of that file: what a source puts into a plan is held against the rules
// of package config, and what these refuse is taken out again and named, so that
// `rlminit check` accepts the file whatever the source was. The packages below it know one
// source each.
//
// It starts no process, opens no socket, reads nothing outside of the trees that it was
// given, and changes no file but the one that it is told to write.
package move
