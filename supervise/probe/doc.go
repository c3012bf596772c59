// Package probe is the driver that asks services how they are: whether they accept a TCP
// connection, answer an HTTP request, or whether a program says so that somebody else
// runs. The answer is nil, or an error whose text is a short reason for status:
// "connection refused", "status 503".
//
// Of a service it keeps what it has counted, and nothing between two questions: no
// connection, no cookie.
package probe
