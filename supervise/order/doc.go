// Package order decides what lies between services: who may start, who must
// stop, and who waits for whom, and why. ORDER.md is its specification.
//
// Decide is a pure function of a graph and of what is known of each service; it
// has no clock, starts nothing, and knows services by number alone, so that no
// name can change a decision. A Set keeps the facts, and says after each change
// what follows from it, at the cost of the neighbours alone. The owner of the
// services, the loop, tells it what it sees and carries out what it says.
package order
