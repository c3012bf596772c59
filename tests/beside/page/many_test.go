package page

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"rlminit/tests/box"
)

// crowd is so many services, each a process.
func crowd(n int) string {
	var b strings.Builder
	b.WriteString("services:\n")
	for i := range n {
		fmt.Fprintf(&b, "  s%04d: {command: [sleep, infinity]}\n", i)
	}
	return b.String()
}

// cpu is how much processor time a process of the box has used.
func (s *site) cpu(pid int) time.Duration {
	s.Helper()
	var user, system int64
	text := s.Shell(box.Root, fmt.Sprintf("awk '{print $14, $15}' /proc/%d/stat", pid))
	if _, err := fmt.Sscan(text, &user, &system); err != nil {
		s.Fatalf("%q: %v", text, err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// switches is how often the threads of a process have gone to sleep.
func (s *site) switches(pid int) (n int) {
	s.Helper()
	text := s.Shell(box.Root, fmt.Sprintf("cat /proc/%d/task/*/status | awk '/^voluntary/ {n += $2} END {print n}'", pid))
	if _, err := fmt.Sscan(text, &n); err != nil {
		s.Fatalf("%q: %v", text, err)
	}
	return n
}

// supervisor is its pid.
func (s *site) supervisor() (pid int) {
	s.Helper()
	r := s.As(box.Root, "rlminit", "health", "--json")
	_, rest, _ := strings.Cut(r.Out, `"pid":`)
	if _, err := fmt.Sscan(rest, &pid); err != nil {
		s.Fatalf("%s: %v", r, err)
	}
	return pid
}

// connections is how many clients have a connection to the control socket.
func (s *site) connections() (n int) {
	s.Helper()
	text := s.Shell(box.Root, `awk '$6 == "03" && $8 ~ /control.sock$/ {n++} END {print n + 0}' /proc/net/unix`)
	if _, err := fmt.Sscan(text, &n); err != nil {
		s.Fatalf("%q: %v", text, err)
	}
	return n
}

// A thousand services are shown soon, and cost little while they are shown. The figures are
// logged; the bounds are loose, for machines are loaded.
func TestThousandServices(t *testing.T) {
	s := start(t, "read", crowd(1000))
	s.Await("s0999", "running")
	b := s.enter(t)
	var answered, painted, complete []string
	for range 3 {
		b.to("/")
		b.awaitTrue(`performance.getEntriesByName("first-contentful-paint").length && performance.getEntriesByType("navigation")[0].loadEventEnd > 0`)
		answered = append(answered, b.text(`Math.round(performance.getEntriesByType("navigation")[0].responseStart)`))
		painted = append(painted, b.text(`Math.round(performance.getEntriesByName("first-contentful-paint")[0].startTime)`))
		complete = append(complete, b.text(`Math.round(performance.getEntriesByType("navigation")[0].loadEventEnd)`))
		if rows := b.text(`document.querySelectorAll("#rows tr").length`); rows != "1001" {
			t.Fatalf("there are %s rows", rows)
		}
	}
	t.Logf("figure: 1,000 services: answered after %v ms, first paint after %v ms, everything after %v ms", answered, painted, complete)
	b.open()
	page, supervisor := *s.Await("page", "running").PID, s.supervisor()
	const while = 6 * time.Second
	before, beforeSupervisor, began := s.cpu(page), s.cpu(supervisor), time.Now()
	box.Eventually(t, 2*while, "some time has passed", func() (bool, any) { return time.Since(began) > while, nil })
	used, usedSupervisor, took := s.cpu(page)-before, s.cpu(supervisor)-beforeSupervisor, time.Since(began)
	t.Logf("figure: 1,000 services, one tab: the page uses %.1f %% of a core, the supervisor %.1f %%", 100*float64(used)/float64(took), 100*float64(usedSupervisor)/float64(took))
	if used > took/4 {
		t.Errorf("the page has used %s in %s", used, took)
	}
	b.watch(stateOf("s0500") + ` === "stopped"`)
	s.Must("stop", "s0500")
	b.awaitTrue("window.trueAt")
	var ms int64
	fmt.Sscan(b.text("window.trueAt"), &ms)
	events := s.events("s0500")
	t.Logf("figure: 1,000 services: an event is on the page after %s", time.UnixMilli(ms).Sub(events[len(events)-1].At))
	b.do(chromedp.SendKeys("#q", "s099"))
	b.awaitTrue(`document.querySelector("#fits").textContent === "10 services fit"`)
	if last := b.text(`document.querySelector("#rows").lastElementChild.id`); last != "s-s0500" {
		t.Errorf("the last row is %s, and not the service that is stopped", last)
	}
	b.quiet()
}

// stream is one open tab, as the server sees it.
func (s *site) stream(ctx context.Context, c *client, query string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(c.session+"/live?"+query), nil)
	if err != nil {
		return nil, err
	}
	return c.Do(r)
}

// Five hundred tabs cost the supervisor one stream, and hear of everything; those beyond the
// limit are told so; and when the last is closed, nobody wakes anybody.
func TestFiveHundredTabs(t *testing.T) {
	s := house(t, "read")
	c := s.loggedIn(t, annesToken)
	c.Timeout = 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const tabs = 500
	var heard, opened, ended atomic.Int64
	var wait sync.WaitGroup
	for range tabs {
		wait.Go(func() {
			response, err := s.stream(ctx, c, "view=overview")
			if err != nil || response.StatusCode != http.StatusOK {
				t.Errorf("a tab is not opened: %v %v", response, err)
				return
			}
			defer response.Body.Close()
			lines := bufio.NewReader(response.Body)
			for first := true; ; {
				line, err := lines.ReadString('\n')
				if err != nil {
					ended.Add(1)
					return
				}
				if first && strings.HasPrefix(line, "data: ") {
					first = false
					opened.Add(1)
				}
				if strings.Contains(line, `id="s-gateway-bob"`) && strings.Contains(line, `data-word="stopped"`) {
					heard.Add(1)
				}
			}
		})
	}
	box.Eventually(t, long, "every tab has heard something", func() (bool, any) { return opened.Load() == tabs, opened.Load() })
	box.Eventually(t, long, "there is one stream", func() (bool, any) { n := s.connections(); return n == 1, n })
	page := *s.Await("page", "running").PID
	t.Logf("figure: %d tabs: the page has %s", tabs, strings.TrimSpace(s.Shell(box.Root, fmt.Sprintf("grep VmRSS /proc/%d/status", page))))
	began := time.Now()
	s.Must("stop", "bob")
	box.Eventually(t, long, "every tab has heard it", func() (bool, any) { return heard.Load() >= tabs, heard.Load() })
	t.Logf("figure: %d tabs have all heard it %s after the command", tabs, time.Since(began))
	if n := ended.Load(); n > 0 {
		t.Errorf("%d tabs were let go", n)
	}
	cancel()
	wait.Wait()

	box.Eventually(t, long, "there is no stream", func() (bool, any) { n := s.connections(); return n == 0, n })
	supervisor := s.supervisor()
	box.Eventually(t, 2*long, "nobody wakes the page", func() (bool, any) {
		before, beforePage, began := s.switches(supervisor), s.switches(page), time.Now()
		time.Sleep(2 * time.Second) // in which nothing is to happen
		woken, wokenPage := s.switches(supervisor)-before, s.switches(page)-beforePage
		said := fmt.Sprintf("no tab: in %s the supervisor's threads slept %d times, the page's %d times", time.Since(began).Round(time.Millisecond), woken, wokenPage)
		if wokenPage <= 5 {
			t.Log("figure:", said)
		}
		return wokenPage <= 5, said
	})
}

// There is a limit to tabs, and to connections, and whoever stays below it is served.
func TestTooManyTabs(t *testing.T) {
	t.Parallel()
	s := house(t, "read")
	c := s.loggedIn(t, annesToken)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.Timeout = 0
	var refused *http.Response
	for n := range 800 {
		response, err := s.stream(ctx, c, "view=overview")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			refused = response
			t.Logf("figure: tab %d is refused", n+1)
			break
		}
	}
	if refused == nil || refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
		t.Fatalf("none of 800 tabs was refused: %v", refused)
	}
	if a := s.send(t, s.loggedIn(t, bareToken), "GET", "/", ""); a.StatusCode != http.StatusOK {
		t.Errorf("beside so many tabs a page is answered with %s", a.Status)
	}
}

// Clients that never read, or that send their request one letter at a time, are let go, and
// are in nobody's way.
func TestIdleClients(t *testing.T) {
	t.Parallel()
	s := start(t, "read", crowd(1000))
	s.Await("s0999", "running")
	c := s.loggedIn(t, annesToken)
	cookie := s.cookie(c)
	closed := make(chan string, 2)
	await := func(name string, conn net.Conn) {
		_ = conn.SetReadDeadline(time.Now().Add(2 * long))
		_, err := io.Copy(io.Discard, conn)
		closed <- fmt.Sprint(name, " ", err)
	}
	deaf, err := s.dials.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if err := deaf.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(deaf, "GET %s/live?view=overview HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: %s=%s\r\n\r\n", c.session, cookie.Name, cookie.Value)
	slow, err := s.dials.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprint(slow, "GET / HTTP/1.1\r\nHost: ")
	go await("slow", slow)
	page := *s.Await("page", "running").PID
	// The deaf one is sent half a megabyte, which no buffer takes: the page's descriptor of it
	// is gone after its time.
	descriptors := func() string {
		return strings.TrimSpace(s.Shell(box.Root, fmt.Sprintf("ss -tnH state established '( sport = :9118 )' | awk '$2 > 0' | wc -l; ls /proc/%d/fd | wc -l", page)))
	}
	box.Eventually(t, long, "the deaf one is sent something", func() (bool, any) {
		got := descriptors()
		return !strings.HasPrefix(got, "0\n"), got
	})
	if a := s.send(t, c, "GET", "/operations", ""); a.StatusCode != http.StatusOK {
		t.Errorf("beside the deaf one a page is answered with %s", a.Status)
	}
	select {
	case what := <-closed:
		t.Log(what)
	case <-time.After(long):
		t.Error("who sends no request is not let go")
	}
	box.Eventually(t, 2*long, "the deaf one is let go", func() (bool, any) {
		got := s.connections()
		return got == 0, got // its tab was the only one, so the stream is over too
	})
}
