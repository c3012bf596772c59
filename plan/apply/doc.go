// Package apply decides how an approved plan is carried out, gated, and rolled
// back. It is pure: events in, actions out; APPLY.md is its specification.
//
// A revision is one plan being carried out, and what became of it. Its steps
// are done in waves; each is begun, which is durable before anything is touched,
// then acted, then gated. The first that fails turns the whole around: what was
// begun is undone, in the reverse order, and gated again.
//
// What a successor needs is in the records alone, and Fold makes the state of
// them. Whoever runs this package keeps one rule: a record is durable before
// the actions that follow it begin.
package apply
