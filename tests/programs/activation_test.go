package programs

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// asked is what `nasty ask` prints.
type asked struct {
	Answered, Refused, Broken int
	Last                      string
}

// asking has a URL asked over and over, until the function that it returns is
// called.
func asking(b *box.Box, url string) (ended func() asked) {
	b.Helper()
	in, end := io.Pipe()
	var result asked
	done := make(chan error, 1)
	go func() {
		r, err := b.Exec(box.Service, in, []string{"nasty", "ask", url})
		if err == nil {
			err = json.Unmarshal([]byte(r.Out), &result)
		}
		if err != nil {
			err = fmt.Errorf("%w in %s", err, r)
		}
		done <- err
	}()
	return func() asked {
		b.Helper()
		end.Close()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		b.Logf("asked %s: %+v", url, result)
		return result
	}
}

// A listener that rlminit opened is there whatever becomes of the service or of
// tier 2: nobody is refused.
func TestNoConnectionIsRefused(t *testing.T) {
	t.Parallel()
	b := services(t, `web: {command: [gateway, --profile, web], ready: {notify: true}, restart: {delay: 1ms, max_delay: 10ms, limit: 0}, sockets: [{listen: "tcp:127.0.0.1:8099", name: http}]}`)
	s := b.Await("web", "running")
	ended := asking(b, "http://127.0.0.1:8099/healthz")
	for range 3 {
		b.Must("restart", "web", "--timeout", "20s")
	}
	for range 3 {
		s = b.Await("web", "running")
		b.As(box.Service, "kill", "-9", fmt.Sprint(*s.PID))
		another(b, "web", *s.PID)
	}
	s = b.Await("web", "running")
	for range 3 {
		supervisorKilled(b)
	}
	if now := b.Status()["web"]; now.PID == nil || *now.PID != *s.PID {
		t.Errorf("was pid %d, with a new supervisor %s", *s.PID, box.Describe(now))
	}
	// The newest supervisor passes on what its predecessors opened.
	b.Must("restart", "web", "--timeout", "20s")
	result := ended()
	if result.Refused > 0 || result.Answered < 100 {
		t.Errorf("%+v; nobody may be refused", result)
	}
	// What a process had accepted ends with it, and no more: there were 7.
	if result.Broken > 7 {
		t.Errorf("%+v; 7 processes ended", result)
	}
	// A stop closes it.
	b.Must("stop", "web")
	if r := b.As(box.Service, "gateway", "call", "http://127.0.0.1:8099/healthz"); r.Code == 0 || !strings.Contains(r.Err, "refused") {
		t.Errorf("after stop: %s", r)
	}
}

// FDSTORE=1: what a service stores is passed to its next run, whoever killed
// it, until it is stopped or takes it out of the store.
func TestDescriptorStore(t *testing.T) {
	t.Parallel()
	b := services(t,
		`keeper: {command: [nasty, keep], ready: {notify: true}, restart: {delay: 1ms, limit: 0}, sockets: [{listen: "tcp:127.0.0.1:8098", name: web}]}`,
		`forgetful: {command: [nasty, keep, forget], ready: {notify: true}, restart: {delay: 1ms, limit: 0}}`)
	s := b.Await("keeper", "running")
	logged(b, "keeper", `count 1, passed "web", listen pid is ours: true`)
	b.As(box.Service, "kill", "-9", fmt.Sprint(*s.PID))
	s = another(b, "keeper", *s.PID)
	logged(b, "keeper", `count 2, passed "web:count", listen pid is ours: true`)
	supervisorKilled(b)
	b.As(box.Service, "kill", "-9", fmt.Sprint(*s.PID))
	another(b, "keeper", *s.PID)
	logged(b, "keeper", `count 3, passed "web:count"`)
	b.Must("restart", "keeper")
	logged(b, "keeper", `count 4, passed "web:count"`)
	b.Must("stop", "keeper")
	b.Must("start", "keeper")
	if out := b.Must("logs", "keeper"); strings.Count(out, `count 1, passed "web"`) != 2 {
		t.Errorf("after stop and start:\n%s", out)
	}
	b.Await("forgetful", "running")
	b.Must("restart", "forgetful")
	if out := b.Must("logs", "forgetful"); strings.Count(out, "count 1, ") != 2 {
		t.Errorf("FDSTOREREMOVE=1 was not heeded:\n%s", out)
	}
}
