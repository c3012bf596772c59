package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"

	"rlminit/control"
)

// net/http answers what it cannot read by itself, in plain text and past every
// handler, and its ServeMux redirects paths that are not clean. Here these
// become problem documents like all others.

// answering is the handler for every request: from here on the connection has
// what our own handlers say.
func answering(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*counted); ok {
			c.ours.Store(true)
			if c.turned {
				w.Header().Set("Retry-After", "1")
				w.Header().Set("Connection", "close")
				answerProblem(w, control.Busy("too many requests at once: %d are answered at a time of a service without control: true; try again", connectionsEach))
				return
			}
		}
		if at := r.URL.Path; path.Clean("/"+at) != at {
			answerProblem(w, noSuchPath(at)) // no path of ours ends with a slash
			return
		}
		h.ServeHTTP(w, r)
	})
}

// answered is called when an answer has been sent and the next request is
// waited for.
func answered(conn net.Conn, state http.ConnState) {
	if c, ok := conn.(*counted); ok && state == http.StateIdle {
		c.ours.Store(false)
	}
}

// Write passes on what handlers write, and makes a problem of a refusal of
// net/http's own, which it writes in one piece.
func (c *counted) Write(b []byte) (int, error) {
	if c.ours.Load() {
		return c.UnixConn.Write(b)
	}
	if _, err := c.UnixConn.Write(asProblem(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// asProblem makes a problem document of an answer that is an error.
func asProblem(answer []byte) []byte {
	r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil || r.StatusCode < http.StatusBadRequest {
		return answer
	}
	text, err := io.ReadAll(r.Body)
	if err != nil || len(text) == 0 {
		text = []byte(r.Status)
	}
	problem := control.BadRequest("cannot understand the request: %s", text)
	problem.Status = r.StatusCode
	content, err := json.Marshal(problem)
	if err != nil {
		return answer
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		r.StatusCode, http.StatusText(r.StatusCode), len(content)+1, content)
}
