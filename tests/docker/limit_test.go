package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// hoard is a service that takes every process that it can have, keeps them, and
// tries for more: what a build with too many jobs does, or a bug.
var hoard = []string{"perl", "-e", `$SIG{CHLD} = "IGNORE"; while (1) { my $p = fork; if (!defined $p) { select undef, undef, undef, .001 } elsif (!$p) { sleep 1000; exit } }`}

// outside is a client of a container's control socket that takes no process of
// the container: it comes in by way of the host's /proc.
func outside(t *testing.T, p *Place) *http.Client {
	t.Helper()
	pid, err := p.inspect("{{.State.Pid}}")
	if err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("/proc/%s/root/run/rlminit/control.sock", pid)
	return &http.Client{
		Timeout: answerTimeout,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", at)
		}},
	}
}

// asks sends a request and returns the answer's status, and its body in v.
func asks(c *http.Client, method, path string, v any) (int, error) {
	r, err := http.NewRequest(method, "http://rlminit"+path, strings.NewReader("{}"))
	if err != nil {
		return 0, err
	}
	answer, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if v == nil {
		return answer.StatusCode, nil
	}
	return answer.StatusCode, json.NewDecoder(answer.Body).Decode(v)
}

// TestPidsLimit: a service that takes every process there is keeps nobody from
// commanding. A supervisor that ends then has a successor: PID 1 ends who took the
// room, and says so.
func TestPidsLimit(t *testing.T) {
	t.Parallel()
	const most = 100
	quoted, err := json.Marshal(hoard)
	if err != nil {
		t.Fatal(err)
	}
	services := []string{`hoard: {command: ` + string(quoted) + `, enabled: false, restart: {policy: always, delay: 100ms, limit: 1000}}`}
	const many = 20
	for i := range many {
		services = append(services, fmt.Sprintf(`s%02d: {command: [sleep, infinity], enabled: false}`, i))
	}
	b := startImage(t, built.based, box.Spec{Config: contract.Services(services...), Docker: []string{"--tmpfs", "/run", "--pids-limit", fmt.Sprint(most)}})
	p := b.Place.(*Place)
	awaitAnswer(b)
	b.Must("profile", "create", "alice")
	alice := *b.Await("gateway-alice", "running").PID
	client := outside(t, p)
	b.Must("start", "--no-wait", "hoard")
	rages(b, most)

	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			box.Eventually(b, answerTimeout, fmt.Sprintf("start s%02d is accepted", i), func() (bool, any) {
				code, err := asks(client, "POST", fmt.Sprintf("/v1/services/s%02d/start", i), nil)
				return err == nil && code < 300, fmt.Sprint(code, err)
			})
		})
	}
	all.Wait()
	tier2 := func() (pid int) {
		r, err := docker(nil, "top", p.name, "-eo", "pid,args")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(r.Out) {
			if strings.Contains(line, "rlminit supervise") {
				fmt.Sscan(line, &pid)
			}
		}
		return pid
	}
	rages(b, most) // again, where it was ended for the room of a successor
	before := tier2()
	if err := unix.Kill(before, unix.SIGKILL); err != nil { // docker top has the host's pids
		t.Fatal(err)
	}
	box.Eventually(b, answerTimeout, "a successor answers", func() (bool, any) {
		var services []struct {
			Name, State string
			PID         int
		}
		code, err := asks(client, "GET", "/v1/services", &services)
		return err == nil && code == 200 && len(services) > many, fmt.Sprint(code, err, services)
	})
	if out := b.Printed(); !strings.Contains(out, "the pids limit") || !strings.Contains(out, "hoard") {
		t.Errorf("nobody said whom PID 1 ended: %s", box.Tail(out))
	}
	if code, err := asks(client, "POST", "/v1/services/hoard/stop", nil); err != nil || code >= 300 {
		t.Errorf("stop hoard: %d, %v", code, err)
	}
	box.Eventually(b, answerTimeout, "the room is free", func() (bool, any) {
		r, err := docker(nil, "top", p.name, "-eo", "pid,args")
		return err == nil && !strings.Contains(r.Out, "perl"), fmt.Sprint(r, err)
	})
	for i := range many {
		b.Await(fmt.Sprintf("s%02d", i), "running")
	}
	if now := b.Status()["gateway-alice"]; now.PID == nil || *now.PID != alice {
		t.Errorf("alice: %s", box.Describe(now))
	}
}
