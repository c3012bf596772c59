// Package api is the control socket: who is at the other end, what they may ask
// for, and every request with its answer, as docs/control.md has them. It owns
// connections and nothing else: what is asked for is done by the interfaces that
// it declares, and a package with requests of its own adds them to the Server.
package api
