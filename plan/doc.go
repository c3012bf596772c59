// Package plan compares a set of profiles that somebody has declared with what
// is recorded and alive, and writes down what would bring the one about from
// the other, so that somebody can read it, approve exactly that, and have it
// carried out.
//
//	declared file ─ Parse ─┐
//	                       ├─ New ─ Plan ─ Encode ─ a file, and its hash
//	current state ─────────┘                          └─ Verify, by apply
//
// reconcile.Diff decides, as at boot and at a reload;
// this package turns profiles into its input, and its operations into
// changes with fields that a person can read.
//
// It is pure: it opens no file, knows no clock and draws no random numbers; it
// is given all of that. It never holds a secret longer than it takes to make a
// digest of it: no Plan has one in it.
package plan
