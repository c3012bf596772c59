// Package core decides about all services of one supervisor: it is one deterministic
// function, (*Set).Step, from an input to the effects that follow from it.
//
// It is for its drivers: they tell it the events, carry out the effects
// one after the other, and come back with what came of them. It is composed of two
// pure packages that know nothing of each other's work: machine has the life of one
// service, order has what lies between services. Core owns what joins them:
//
//   - the life of each service, its policy, and its one deadline in a heap;
//   - names: which service a definition means, and the edges between services;
//   - commands on sets, which each member is given in its turn;
//   - which life a spawn belongs to, and how many processes may exist;
//   - whether the boot's set is known, and whether the container is ending.
//
// It has no clock, no goroutine, no lock, no descriptor and no I/O. Time, chance and
// the next spawn id come in with the input. The same inputs give the same effects.
//
// The effects of one Step are in the order of their execution. For
// each transition of a life these are: Remember, if a successor must know of it; what
// the machine asks for; Changed. Everything that follows from the input is decided when
// Step returns, so who is told of a change is told what has become of it.
//
// The cost of an input is that of its subject: the service, its neighbours, and those that follow.
// Only a command on a set, time that was lost and the end of the container touch all of
// their members; a change of edges that may close a ring looks at every service.
package core
