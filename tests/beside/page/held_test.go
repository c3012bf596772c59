package page

import (
	"net/http"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// held fails the test if a service could listen on an address of the page.
func (s *site) held(when, address string) {
	s.Helper()
	r := s.As(box.Service, "timeout", "20", "nasty", "receive", "tcp:"+address, "/dev/null")
	if r.Code == 0 || !strings.Contains(r.Err+r.Out, "address already in use") {
		s.Errorf("%s a service listens on %s: %s", when, address, r)
	}
}

// Nobody can listen on the page's address while the page is down: killed, stopped, or about
// to come with another address. Whoever connects meanwhile is answered when it is back.
func TestAddressIsHeld(t *testing.T) {
	t.Parallel()
	s := start(t, "operate", "services: {web: {command: [nasty, sleep]}}\n")
	s.held("beside the page", "127.0.0.1:9118")
	pid := *s.Await("page", "running").PID
	s.Must("stop", "page")
	s.Await("page", "stopped")
	s.held("while the page is stopped", "127.0.0.1:9118")
	s.killSupervisor()
	s.held("after the supervisor was replaced", "127.0.0.1:9118")
	answered := make(chan error, 1)
	c := s.client(t)
	go func() {
		response, err := c.Get(s.url("/login"))
		if err == nil {
			response.Body.Close()
		}
		answered <- err
	}()
	s.Must("start", "page")
	s.AwaitThat("page", "runs again", func(s control.Service) bool { return s.State == "running" && s.PID != nil && *s.PID != pid })
	if err := <-answered; err != nil {
		t.Errorf("who has connected while the page was down: %v", err)
	}
	if a := s.send(t, s.loggedIn(t, annesToken), http.MethodGet, "/", ""); a.StatusCode != http.StatusOK {
		t.Errorf("after its start the page answers %s", a.Status)
	}
}
