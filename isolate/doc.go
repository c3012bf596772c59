// Package isolate makes the walls that stand around a service: Landlock
// rulesets, and the seccomp filter of the level strict.
//
// It opens paths, for a ruleset is made of them, and owns the descriptors of the
// rulesets that it returns until they are closed. It restricts nobody: tier 1
// hands ruleset and filter to the child, which restricts itself between fork and
// exec. What the kernel of this place can do is told by Capable, and a ruleset
// asks for just that.
//
// Landlock only knows what is allowed beneath a path, so what is to be hidden
// must not lie beneath anything that is allowed. The root directory is therefore
// walked, and allowed piece by piece: see image.go.
package isolate
