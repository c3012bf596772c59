package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
)

// watch has the page note when an expression becomes true, in milliseconds of its clock,
// which is the machine's.
func (b *tab) watch(expression string) {
	b.Helper()
	b.run(`window.trueAt = 0; window.watching = new MutationObserver(() => { if (!window.trueAt && (` + expression + `)) window.trueAt = Date.now(); });
		window.watching.observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true })`)
}

// stateOf is the state of a service in the overview, as an expression.
func stateOf(service string) string {
	return fmt.Sprintf(`document.getElementById("s-%s")?.dataset.word`, service)
}

// An event is on the page within 200 ms of when it is in the journal. On a loaded machine
// it may be later: the figure is logged, and the bound is a loose one.
func TestEventIsVisibleSoon(t *testing.T) {
	s := house(t, "read")
	b := s.enter(t)
	b.run(`window.stays = true`)
	var took []time.Duration
	for i := range 5 {
		verb, state := "stop", "stopped"
		if i%2 == 1 {
			verb, state = "start", "running"
		}
		b.watch(stateOf("gateway-alice") + ` === "` + state + `"`)
		s.Must(verb, "alice")
		b.awaitTrue("window.trueAt")
		var at time.Time
		for _, e := range s.events("alice") {
			if e.To == state {
				at = e.At
			}
		}
		var ms int64
		if _, err := fmt.Sscan(b.text("window.trueAt"), &ms); err != nil {
			t.Fatal(err)
		}
		took = append(took, max(0, time.UnixMilli(ms).Sub(at))) // who asks may see a state before its record is written
	}
	t.Logf("figure: an event is on the page after %v", took)
	for _, d := range took {
		if d > 5*time.Second {
			t.Errorf("an event was on the page after %s", d)
		}
	}
	b.awaitTrue("window.stays") // the page was not loaded anew
	b.quiet()
}

// events are those of a service.
func (s *site) events(name string) (all []control.Event) {
	s.Helper()
	for line := range strings.Lines(s.Must("events", name, "--json")) {
		var e control.Event
		if err := e.UnmarshalJSON([]byte(line)); err != nil {
			s.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// The supervisor is killed while pages are open: they show what happens after that, and
// are not loaded anew.
func TestSupervisorIsKilled(t *testing.T) {
	t.Parallel()
	s := house(t, "read")
	overview, service, events := s.enter(t), s.enter(t), s.enter(t)
	service.to("/service/gateway-bob")
	events.to("/events")
	for _, b := range []*tab{overview, service, events} {
		b.open()
		b.run(`window.stays = true`)
	}
	for i := range 2 {
		s.killSupervisor()
		s.Must("stop", "bob")
		overview.awaitTrue(stateOf("gateway-bob") + ` === "stopped"`)
		service.awaitTrue(`document.querySelector("#about .state").textContent.includes("stopped")`)
		events.awaitTrue(`document.querySelectorAll("#events li").length > 0 && [...document.querySelectorAll("#events li")].filter((l) => l.textContent.includes("gateway-bob stopping → stopped")).length === ` + fmt.Sprint(i+1))
		s.Must("start", "bob")
		overview.awaitTrue(stateOf("gateway-bob") + ` === "running"`)
		service.awaitTrue(`document.querySelector("#about .state").textContent.includes("running") && document.querySelector("#log").textContent.includes("listens")`)
	}
	for _, b := range []*tab{overview, service, events} {
		b.awaitTrue(`window.stays && document.querySelector("#link").hidden`)
		b.quiet()
	}
	// Nothing is there twice, and nothing is missing.
	if twice := events.text(`(() => { const ids = [...document.querySelectorAll("#events li")].map((l) => +l.id.slice(2)); return ids.some((id, i) => i && ids[i - 1] !== id + 1) ? ids.join() : ""; })()`); twice != "" {
		t.Errorf("the events on the page are %s", twice)
	}
}

// killSupervisor kills it, and waits for the next one.
func (s *site) killSupervisor() {
	s.Helper()
	pid := func() int {
		r := s.As(box.Root, "rlminit", "health", "--json")
		_, rest, _ := strings.Cut(r.Out, `"pid":`)
		n := 0
		fmt.Sscan(rest, &n) // 0: nobody answers
		return n
	}
	was := pid()
	s.Shell(box.Root, fmt.Sprintf("kill -KILL %d", was))
	box.Eventually(s, long, "there is another supervisor", func() (bool, any) {
		now := pid()
		return now != 0 && now != was, now
	})
}

// What happens while a page is away is on it when it is back: its connection was cut, or
// nobody has looked at it.
func TestWhatWasMissed(t *testing.T) {
	t.Parallel()
	s := house(t, "read")
	b := s.enter(t)
	b.to("/events")
	b.open()
	b.run(`window.stays = true; Object.defineProperty(document, "hidden", { configurable: true, get: () => window.away === true });`)
	before := b.text("document.body.dataset.after")
	b.run(`window.away = true; dispatchEvent(new Event("pagehide"))`)
	b.awaitTrue(`document.body.dataset.open !== "yes"`)
	s.Must("restart", "carol")
	if after := b.text("document.body.dataset.after"); after != before {
		t.Errorf("a page that is closed has heard something: %s after %s", after, before)
	}
	b.run(`window.away = false; document.dispatchEvent(new Event("visibilitychange"))`)
	b.awaitTrue(`document.querySelector("#events").textContent.includes("gateway-carol running → stopping") && document.querySelector("#events li").textContent.includes("operation ended")`)
	b.awaitTrue("window.stays")
	b.quiet()
}

// A log is on the page as it is written, whatever is in it: the page shows it as text.
func TestHostileLog(t *testing.T) {
	t.Parallel()
	s := start(t, "read", `services:
  rude: {command: [bash, -c, "while read -r line; do eval \"$line\"; done < <(tail -n +1 -F /tmp/say 2>/dev/null)"]}
`)
	b := s.enter(t)
	b.to("/service/rude")
	b.open()
	say := func(script string) {
		s.Shell(box.Root, "printf '%s\\n' "+"'"+script+"' >>/tmp/say; chmod 644 /tmp/say")
	}
	say(`echo "<script>window.hacked = 1</script><img src=x onerror=window.hacked=1>"`)
	b.awaitTrue(`document.querySelector("#log").textContent.includes("<script>window.hacked = 1</script>")`)
	say(`printf "\033]0;title\007 \033[31mred\033[0m back\bspace \342\200\256turned\n"`)
	b.awaitTrue(`document.querySelector("#log").textContent.includes("␛]0;title␇ red back␈space \\u202eturned")`)
	say(`head -c 1000000 /dev/zero | tr "\0" x; echo; echo "after it"`)
	b.awaitTrue(`document.querySelector("#log").textContent.includes("after it")`)
	if most := b.text(`Math.max(...[...document.querySelectorAll("#log li")].map((l) => l.textContent.length))`); len(most) > 4 {
		t.Errorf("a line has %s characters on the page", most)
	}
	say(`for i in {1..3000}; do echo "line $i"; done`)
	b.awaitTrue(`document.querySelector("#log").textContent.includes("line 3000")`)
	if n := b.text(`document.querySelectorAll("#log li").length`); len(n) > 4 || n > "1001" && len(n) == 4 {
		t.Errorf("the page keeps %s lines", n)
	}
	b.to("/service/rude?q=" + "%3Cscript")
	b.awaitTrue(`document.querySelectorAll("#log li").length > 0 && !window.hacked`)
	b.to("/service/rude")
	b.open()
	say(`seq 400000; echo "after the flood"`)
	b.awaitTrue(`document.querySelector("#log").textContent.includes("after the flood")`)
	b.quiet()
}
