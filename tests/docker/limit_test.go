package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
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
	return sends(c, method, path, "{}", v)
}

// sends is asks with a body of the request's own.
func sends(c *http.Client, method, path, body string, v any) (int, error) {
	r, err := http.NewRequest(method, "http://rlminit"+path, strings.NewReader(body))
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

// tier2 is the supervisor's process, by the host's numbers.
func (p *Place) tier2(t *testing.T) (pid int) {
	t.Helper()
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

// running are the processes of the services that run, by an outsider's client.
func running(c *http.Client) (map[string]int, error) {
	var services []struct {
		Name, State string
		PID         int
	}
	if code, err := asks(c, "GET", "/v1/services", &services); err != nil || code != 200 {
		return nil, fmt.Errorf("status %d, %w", code, err)
	}
	pids := map[string]int{}
	for _, s := range services {
		if s.State == "running" {
			pids[s.Name] = s.PID
		}
	}
	return pids, nil
}

// TestLowestPidsLimit: with the lowest limit on processes there is room for services,
// and whatever is asked of both tiers takes none of it.
func TestLowestPidsLimit(t *testing.T) {
	t.Parallel()
	const lowest = 64
	var services []string
	for i := range fewestForServices {
		services = append(services, fmt.Sprintf(`s%d: {command: [sh, -c, "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done; exec sleep infinity"]}`, i))
	}
	b := startImage(t, built.based, box.Spec{Config: contract.Services(services...), Docker: []string{"--tmpfs", "/run", "--no-healthcheck", "--pids-limit", fmt.Sprint(lowest)}})
	p := b.Place.(*Place)
	client := outside(t, p)
	all := func(other map[string]int) (now map[string]int) {
		t.Helper()
		box.Eventually(b, answerTimeout, "every service runs", func() (bool, any) {
			var err error
			now, err = running(client)
			same := false
			for name, pid := range now {
				same = same || other[name] == pid
			}
			return len(now) == len(services) && !same, fmt.Sprint(now, err)
		})
		return now
	}
	pids := all(nil)
	before := p.tier2(t)
	for range 5 {
		var group sync.WaitGroup
		for i := range services {
			group.Go(func() {
				if code, err := asks(client, "POST", fmt.Sprintf("/v1/services/s%d/restart", i), nil); err != nil || code >= 300 {
					t.Errorf("restart s%d: %d, %v", i, code, err)
				}
			})
			for range 5 {
				group.Go(func() {
					if _, err := running(client); err != nil {
						t.Error(err)
					}
				})
			}
		}
		group.Wait()
		pids = all(pids)
	}
	if now := p.tier2(t); now != before {
		t.Errorf("the supervisor was %d and is %d", before, now)
	}
	first, err := p.inspect("{{.State.Pid}}")
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, pid := range []string{first, fmt.Sprint(before)} {
		threads, err := os.ReadDir("/proc/" + pid + "/task")
		if err != nil {
			t.Fatal(err)
		}
		taken += len(threads)
	}
	if taken > lowest-fewestForServices {
		t.Errorf("both tiers have %d threads of %d", taken, lowest)
	}
	if out := b.Printed(); crashed(out) {
		t.Errorf("a tier crashed: %s", out)
	}
}

// TestProfilesFillPidsLimit: whatever the limit, profiles are made until one finds no
// process, and that one's request says so at once, in place of waiting for room that
// may never come. It runs when another one has made room, and a killed supervisor's
// successor answers. So it is with walls around them, without which none ever runs.
func TestProfilesFillPidsLimit(t *testing.T) {
	t.Parallel()
	const waits = `{"wait":{"timeout_ms":60000}` // far longer than the client would wait
	for _, c := range []struct {
		limit  int
		walled bool
	}{
		{64, false},
		{70, false},
		{64, true},
		{66, true},
		{80, true},
	} {
		limit, name, gateway := c.limit, fmt.Sprint(c.limit), "command: [sleep, infinity]"
		if c.walled { // one that can read what Landlock hides is found out, and forks for nothing
			name = name + " walled"
			gateway = `user: auto, isolation: strict, command: [sh, -c, "read user </run/rlminit/user && exec sleep 1; exec sleep infinity"]`
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startImage(t, built.based, box.Spec{
				Config: "version: 1\nuser: app\ngateway: {restart: {limit: 100000}, " + gateway + "}\n",
				Docker: []string{"--tmpfs", "/run", "--no-healthcheck", "--pids-limit", fmt.Sprint(limit)},
			})
			p := b.Place.(*Place)
			client := outside(t, p)
			box.Eventually(b, answerTimeout, "rlminit answers", func() (bool, any) {
				_, err := running(client)
				return err == nil, err
			})
			refused := ""
			made := 0
			for ; refused == "" && made < limit; made++ {
				var answer struct {
					Problem *struct{ Detail string }
				}
				code, err := sends(client, "POST", "/v1/profiles", fmt.Sprintf(`%s,"name":"p%02d"}`, waits, made), &answer)
				if err != nil || code >= 300 {
					t.Fatalf("create p%02d: %d, %v", made, code, err)
				}
				if answer.Problem != nil {
					refused = answer.Problem.Detail
				}
			}
			last := fmt.Sprintf("p%02d", made-1)
			if !strings.HasPrefix(refused, last+" ") || !strings.Contains(refused, "cannot start a process: the container's limit on processes (--pids-limit) is reached") || !strings.Contains(refused, "it is tried again") {
				t.Fatalf("%s: refused with %q", last, refused)
			}
			if made <= fewestForServices-forOthers {
				t.Errorf("%d services ran", made-1)
			}
			if code, err := asks(client, "POST", "/v1/services/p00/stop", nil); err != nil || code >= 300 {
				t.Errorf("stop: %d, %v", code, err)
			}
			box.Eventually(b, answerTimeout, "the one that was refused runs", func() (bool, any) {
				now, err := running(client)
				return err == nil && now["gateway-"+last] != 0 && len(now) == made-1, fmt.Sprint(now, err)
			})
			if err := unix.Kill(p.tier2(t), unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			box.Eventually(b, answerTimeout, "a successor answers", func() (bool, any) {
				now, err := running(client)
				return err == nil && len(now) == made-1, fmt.Sprint(now, err)
			})
			out := b.Printed()
			if c.walled { // a process that changes an owner may find no thread: it says so, and another one does it
				out = strings.ReplaceAll(out, "rlminit: cannot go on: ", "")
			}
			if crashed(out) {
				t.Errorf("a tier crashed: %s", out)
			}
			if c.walled {
				behindWalls(t, p, made-1, limit >= enoughForUsers)
			}
		})
	}
}

// enoughForUsers is the lowest limit with which profiles have users of their own.
const enoughForUsers = 60

// behindWalls: each of n services has its filter and its ruleset, and perhaps a uid that
// no other has.
func behindWalls(t *testing.T, p *Place, n int, users bool) {
	t.Helper()
	r, err := docker(nil, "top", p.name, "-eo", "pid,uid,args")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range strings.Lines(r.Out) {
		f := strings.Fields(line)
		if len(f) < 4 || f[2] != "sleep" {
			continue
		}
		if f[3] != "infinity" {
			t.Errorf("%s: it could read what is hidden", strings.TrimSpace(line))
		}
		status, err := os.ReadFile("/proc/" + f[0] + "/status") // the engine's host is ours
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n", "Seccomp_filters:\t2\n"} { // the engine's filter, and the level's
			if !strings.Contains(string(status), want) {
				t.Errorf("%s: no %q in %s", strings.TrimSpace(line), want, status)
			}
		}
		seen[f[1]]++
	}
	uids, services := len(seen), 0
	for _, of := range seen {
		services += of
	}
	if services != n || users && uids != n || !users && seen["1000"] != n {
		t.Errorf("%d services: by uid %v", n, seen)
	}
}

// TestPidsLimit: a service that takes every process there is keeps nobody from
// commanding, and ends no supervisor. One that is killed then has a successor: PID 1 ends who took the
// room, and says so.
func TestPidsLimit(t *testing.T) {
	t.Parallel()
	const most = 64 // of which both tiers have about half
	quoted, err := json.Marshal(hoard)
	if err != nil {
		t.Fatal(err)
	}
	services := []string{`hoard: {command: ` + string(quoted) + `, enabled: false, restart: {policy: always, delay: 100ms, limit: 1000}}`}
	const many = 10
	for i := range many {
		services = append(services, fmt.Sprintf(`s%02d: {command: [sleep, infinity], enabled: false}`, i))
	}
	b := startImage(t, built.based, box.Spec{Config: contract.Services(services...), Docker: []string{"--tmpfs", "/run", "--pids-limit", fmt.Sprint(most)}})
	p := b.Place.(*Place)
	awaitAnswer(b)
	b.Must("profile", "create", "alice")
	alice := *b.Await("gateway-alice", "running").PID
	client := outside(t, p)
	before := p.tier2(t)
	b.Must("start", "--no-wait", "hoard")
	rages(b, most)

	var all sync.WaitGroup
	for i := range 2 * many {
		all.Go(func() {
			box.Eventually(b, answerTimeout, fmt.Sprintf("start s%02d is accepted", i/2), func() (bool, any) {
				code, err := asks(client, "POST", fmt.Sprintf("/v1/services/s%02d/start", i/2), nil)
				return err == nil && code < 300, fmt.Sprint(code, err)
			})
		})
	}
	all.Wait()
	if now := p.tier2(t); now != before {
		t.Errorf("the supervisor was %d and is %d: %s", before, now, box.Tail(b.Printed()))
	}
	if err := unix.Kill(before, unix.SIGKILL); err != nil { // docker top has the host's pids
		t.Fatal(err)
	}
	box.Eventually(b, answerTimeout, "a successor answers", func() (bool, any) {
		now, err := running(client)
		return err == nil && now["gateway-alice"] == alice, fmt.Sprint(now, err)
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
	box.Eventually(b, answerTimeout, "what was started runs, and alice as before", func() (bool, any) {
		now, err := running(client)
		return err == nil && len(now) == many+1 && now["gateway-alice"] == alice, fmt.Sprint(now, err)
	})
}

// TestFewDescriptors: where PID 1 may hold no more descriptors, a service more is refused
// at once, with the figure and what to do. However many are refused, they keep nothing
// open, and one that is stopped makes room for another.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	b := startImage(t, built.based, box.Spec{Config: contract.Config(), Docker: []string{"--tmpfs", "/run", "--ulimit", "nofile=256:256", "-v", volume(t) + ":/data"}})
	awaitAnswer(b)
	open := func() int { // from the host, for nobody in the container may look
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.Place.(*Place).tier2(t)))
		if err != nil || len(entries) == 0 {
			t.Fatal("cannot look at the supervisor's descriptors: ", err)
		}
		return len(entries)
	}
	refused, full := 0, 0
	for i := range 60 {
		r := b.Run("profile", "create", fmt.Sprintf("a%02d", i))
		switch {
		case r.Code == 0 && refused > 0:
			t.Errorf("a%02d runs after another was refused", i)
		case r.Code == 0:
		case r.Code != 1 || !strings.Contains(r.Err, "PID 1 cannot hold more descriptors (") || !strings.Contains(r.Err, "raise --ulimit nofile"):
			t.Fatalf("a%02d: %s", i, r)
		default:
			if refused++; refused == 3 {
				full = open()
			}
		}
	}
	if refused < 20 {
		t.Fatalf("only %d of 60 were refused: the test shows nothing", refused)
	}
	box.Eventually(b, answerTimeout, "those that were refused keep nothing open", func() (bool, any) {
		n := open()
		return n <= full+3, fmt.Sprintf("%d, and %d when the first had been refused", n, full)
	})
	b.Must("stop", "a00")
	b.Must("start", "a59")
	b.Await("gateway-a59", "running")
}

// TestFewDescriptorsWithoutFiles: where logs have no files, what is stopped or was refused
// keeps the newest lines of a few of them, and neither tier comes to the end of its
// descriptors: services are created and stopped without end, and no start is refused
// because of those that rest.
func TestFewDescriptorsWithoutFiles(t *testing.T) {
	t.Parallel()
	config := strings.Replace(contract.Config(), "gateway:\n", "gateway:\n  log: {file: false}\n", 1)
	b := startImage(t, built.based, box.Spec{Config: config, Docker: []string{"--tmpfs", "/run", "--ulimit", "nofile=256:256", "-v", volume(t) + ":/data"}})
	awaitAnswer(b)
	for i := range 30 {
		b.Must("profile", "create", fmt.Sprintf("b%02d", i))
		b.Must("stop", fmt.Sprintf("b%02d", i))
	}
	if out := b.Must("logs", "b29"); out == "" {
		t.Error("the newest lines of the one that was stopped last are lost")
	}
	ran := 0
	for i := range 60 {
		switch r := b.Run("profile", "create", fmt.Sprintf("a%02d", i)); {
		case r.Code == 0:
			ran++
		case r.Code != 1 || !strings.Contains(r.Err, "; raise --ulimit nofile") || strings.Contains(r.Err, "tried again"):
			t.Fatalf("a%02d: %s", i, r)
		}
	}
	if ran < 12 {
		t.Errorf("only %d ran beside what rests", ran)
	}
	if out := b.Printed(); strings.Contains(out, "too many open files") {
		t.Errorf("a tier came to the end of its descriptors: %s", box.Tail(out))
	}
}

// TestJobsLeaveDescriptors: of users' jobs no more wait than an eighth of the descriptors.
// Then they are refused with the figure, and a service, a hook and a schedule have theirs.
func TestJobsLeaveDescriptors(t *testing.T) {
	t.Parallel()
	b := startImage(t, built.based, box.Spec{
		Config: contract.Config(
			`services: {once: {type: oneshot, command: [sh, -c, "echo x >>/tmp/once"], schedule: {cron: "0 0 1 1 *"}}}` + "\n" +
				`hooks: [{on: [stopped], services: [gateway-alice], command: [sh, -c, "cat >/tmp/told"]}]` + "\n"),
		Docker: []string{"--tmpfs", "/run", "--ulimit", "nofile=256:256", "-v", volume(t) + ":/data"},
	})
	awaitAnswer(b)
	out := b.Shell(box.Root, "i=0; while [ $i -lt 300 ] && rlminit run --detach -- sleep 600 2>&1; do i=$((i+1)); done; echo after $i")
	if !strings.Contains(out, "the queue is full: 32 jobs wait already") {
		t.Fatalf("no job was refused: %s", box.Tail(out))
	}
	b.Must("profile", "create", "alice")
	b.Must("start", "once")
	b.Shell(box.Root, "grep x /tmp/once")
	b.Must("stop", "alice")
	box.Eventually(b, answerTimeout, "the hook has run", func() (bool, any) {
		r := b.As(box.Root, "cat", "/tmp/told")
		return strings.Contains(r.Out, `"to":"stopped"`), r.String() + b.Printed()
	})
}
