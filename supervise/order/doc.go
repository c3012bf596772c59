// Package order decides the order between services: which may start, which must
// stop, and which waits for which other, and why. ORDER.md is its specification.
//
// Decide is a pure function of the graph of dependencies and of a Fact for each
// service. It has no clock, starts nothing, and knows services by number only, so
// that no name can change a decision. A Set keeps the facts. After each change it
// says what follows, and looks only at the neighbours of what changed. Its caller,
// supervise/core, tells it the facts and carries out its decisions.
package order
