package page

import (
	"net/http"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// shows waits until a page has all of these texts and none of those after "not:".
func (b *tab) shows(path string, texts ...string) {
	b.Helper()
	box.Eventually(b, long, path+" shows "+strings.Join(texts, ", "), func() (bool, any) {
		b.to(path)
		text := b.text(`document.querySelector("main").innerText`)
		for _, want := range texts {
			unwanted, no := strings.CutPrefix(want, "not:")
			if strings.Contains(text, unwanted) == no {
				return false, text
			}
		}
		return true, text
	})
}

// A page says who has asked for what, why a service is as it is, and when that changes.
func TestWhy(t *testing.T) {
	t.Parallel()
	s := house(t, "approve", "  flappy: {command: [bash, -c, \"echo no luck >&2; sleep 2; exit 1\"], restart: {delay: 10ms, factor: 1, max_delay: 10ms, limit: 1000, window: 60s}}\n"+
		"  unready: {command: [bash, -c, \"exit 3\"], ready: {notify: true}, restart: {delay: 1s, limit: 1000, window: 60s}, enabled: false}\n")
	c := s.loggedIn(t, annesToken)
	csrf := s.send(t, c, "GET", "/", "").csrf(t)
	for _, deed := range []string{"verb=restart&name=broken", "verb=stop&name=gateway-bob"} {
		if a := s.send(t, c, "POST", "/do", deed+"&csrf="+csrf); a.StatusCode != http.StatusSeeOther {
			t.Fatalf("%s is answered with %s: %s", deed, a.Status, a.text)
		}
	}
	s.Await("gateway-bob", "stopped")
	s.Await("broken", "failed")
	s.Fails(1, "it is tried again in ", "start", "unready")
	s.AwaitThat("flappy", "was restarted several times", func(s control.Service) bool { return s.Restarts > 2 })
	b := s.enter(t)
	b.shows("/events?type=operation", "(anne on this page)", "operation 1, restart, broken", "operation 2, stop, gateway-bob", "not:(root)")
	b.shows("/operations", "anne on this page", "uid 1000", "unready is not up: exit 3; it was to be started again; see its log", "not:rlminit logs", "not:tried again in")
	b.shows("/service/gateway-bob", "stopped by anne on this page; last exit: exit code 0", "Port of its profile", "Memory and CPU are not measured", "for ")
	b.shows("/service/broken", "last exit 3 cannot open /etc/agent.yaml", "after retry_failed (10 min)", "not:since ")
	b.shows("/service/flappy", "restarted", "times between", "no luck")
	b.shows("/", "restarted", "last exit: exit code 0", "Restart all that failed")
	b.open()
	if first := b.text(`document.querySelector("#rows").children[1].id`); !strings.HasPrefix(first, "s-") || b.text(`document.querySelector("#s-flappy .again")?.textContent.includes("restarted") || ["backoff", "starting"].includes(document.querySelector("#s-flappy").dataset.word)`) != "true" {
		t.Errorf("flappy is not pointed out: %s", b.text(`document.querySelector("#rows").innerText`))
	}
	s.Must("stop", "broken")
	b.awaitTrue(`document.querySelector("#deeds").hidden`)
	b.shows("/do?verb=restart&state=failed", "Nothing to restart", "There is no such service now.")
	b.quiet()
}

// A plan that cannot be applied any more has no button that would apply it; a number that is
// none is refused, and the plan still waits.
func TestPlanThatCannotBeApproved(t *testing.T) {
	t.Parallel()
	s := house(t, "approve")
	hash := s.propose("large")
	c := s.loggedIn(t, annesToken)
	csrf := s.send(t, c, "GET", "/", "").csrf(t)
	for path, form := range map[string]string{
		"/plans/" + hash + "/approve": "steady=-5", "/plans/" + hash + "/approve?": "steady=soon", "/rollback": "steady=-5", "/rollback?": "steady=1&to=last",
	} {
		if a := s.send(t, c, "POST", path, form+"&csrf="+csrf); a.StatusCode != http.StatusBadRequest || !strings.Contains(a.text, "and not &#34;") {
			t.Errorf("%s with %s is answered with %s: %s", path, form, a.Status, a.text)
		}
	}
	b := s.enter(t)
	b.shows("/plans/"+hash, "Approve and apply", "Withdraw it")
	s.Must("profile", "set", "alice", "MODEL=other", "--restart")
	b.shows("/plans/"+hash, "It cannot be approved", "Withdraw it", "not:Approve and apply")
	b.quiet()
}
