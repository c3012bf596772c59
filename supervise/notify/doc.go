// Package notify is the receiving end of sd_notify(3) for one service: a datagram
// socket of its own, which identifies the service, and the messages that come in
// by it.
//
// Whatever a service sends is checked and bounded here: what is malformed is
// dropped and named in Message.Faults, and no descriptor that came with a message
// outlives it unless the handler took it. What a message means to the service's
// life is decided by supervise/machine, and whether its sender may say so by the
// owner: a Message carries the credentials that the kernel vouches for.
package notify
