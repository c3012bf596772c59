// Package probe asks a service over the network how it is: does it accept a TCP
// connection, does it answer an HTTP request. The answer is nil, or an error
// whose text is a short reason for status: "connection refused", "status 503".
//
// It keeps nothing between two calls: no connection, no cookie, no goroutine.
// When and how often to ask is the owner's affair, and so are probes that run a
// program.
package probe
