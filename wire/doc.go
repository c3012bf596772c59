// Package wire is the protocol of the two tiers: the messages, how they
// are laid out in bytes, and how they and the descriptors that go with them
// cross an AF_UNIX SOCK_SEQPACKET pair, unix(7).
//
// PROTOCOL.md beside this file is the specification. The package holds no
// state, starts no goroutine and never blocks: a full socket is ErrFull, an
// empty one ErrEmpty. PID 1 links it, so it imports nothing that formats,
// reflects or parses.
package wire
