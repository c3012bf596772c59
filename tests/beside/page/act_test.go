package page

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"rlminit/control"
)

// press follows a link or presses a button by its text.
func (b *tab) press(text string) {
	b.Helper()
	found := `[...document.querySelectorAll("a, button")].find((e) => e.textContent.trim() === "` + text + `" && e.getClientRects().length)`
	b.awaitTrue(found)
	b.run(found + `.click()`)
}

// Each command is asked once more, is an operation, and does what it says.
func TestActions(t *testing.T) {
	t.Parallel()
	s := house(t, "operate", "  slow: {command: [bash, -c, \"trap '' TERM; sleep infinity\"], stop: {timeout: 60s}}\n")
	b := s.enter(t)
	b.to("/service/gateway-alice")
	pid := s.Await("gateway-alice", "running").PID
	b.press("restart…")
	b.awaitTrue(`document.querySelector("main").textContent.includes("This ends 1 process that runs now.")`)
	b.press("Restart alice")
	b.awaitTrue(inSession + `.startsWith("/operations/") && document.querySelector("#operation .state").textContent.includes("done")`)
	if now := s.Await("gateway-alice", "running").PID; *now == *pid {
		t.Errorf("alice still has pid %d", *now)
	}
	b.to("/service/gateway-alice")
	b.press("stop…")
	b.press("Stop alice")
	b.awaitTrue(inSession + `.startsWith("/operations/")`)
	s.AwaitThat("gateway-alice", "is stopped for good", func(s control.Service) bool { return s.State == "stopped" && s.Desired == "stopped" })
	b.to("/service/gateway-alice")
	b.press("start…")
	b.press("Start alice")
	b.awaitTrue(inSession + `.startsWith("/operations/")`)
	s.Await("gateway-alice", "running")

	b.to("/service/slow")
	b.press("stop…")
	b.press("Stop slow")
	b.awaitTrue(`document.querySelector("#operation .state").textContent.includes("running")`)
	b.press("cancel…")
	b.awaitTrue(`document.querySelector("main").textContent.includes("It goes no further")`)
	b.do(chromedp.Click("form button[autofocus]", chromedp.NodeVisible))
	b.awaitTrue(`document.querySelector("#operation .state")?.textContent.includes("cancelled")`)

	job := strings.TrimSpace(s.Must("run", "--detach", "--timeout", "60s", "--", "sleep", "50"))
	b.to("/jobs")
	b.press("cancel…")
	b.press("Cancel job " + job)
	b.awaitTrue(inSession + ` === "/jobs" && document.querySelector("#jobs").textContent.includes("cancelled")`)

	b.to("/")
	b.press("Restart all that failed")
	b.awaitTrue(`document.querySelector("h1").textContent === "Restart broken?"`)
	b.press("Restart broken")
	b.awaitTrue(inSession + `.startsWith("/operations/") && document.querySelector("#operation").textContent.includes("broken")`)
	for _, line := range []string{"anne began operation 1: restart of gateway-alice", "anne cancelled operation 4", "anne cancelled job " + job} {
		if out := s.Must("logs", "page"); !strings.Contains(out, line) {
			t.Errorf("the log of the page does not say %q: %s", line, out)
		}
	}
	b.quiet()
}

// A plan is approved by its hash, under the name of the token; one that is old is refused
// with the reason; a revision is rolled back.
func TestPlanIsApproved(t *testing.T) {
	t.Parallel()
	s := house(t, "approve")
	hash := s.propose("large")
	b := s.enter(t)
	b.awaitTrue(`document.querySelector("#underway").textContent.includes("1 plan waits for approval")`)
	b.press("1 plan waits for approval")
	b.awaitTrue(inSession + ` === "/plans"`)
	b.press(hash[:19] + "…")
	b.awaitTrue(`document.querySelector("table.diff").textContent.includes("environment.MODEL") && document.querySelector("main").textContent.includes("It is recorded that anne has approved them")`)
	b.run(`document.querySelector("#steady").value = 1`)
	b.press("Approve and apply " + hash[:19] + "…")
	b.awaitTrue(inSession + ` === "/revisions/1" && document.querySelector("#revision .state").textContent.includes("applied")`)
	if out := s.Must("revisions", "--json"); !strings.Contains(out, `anne"`) || !strings.Contains(out, hash) {
		t.Errorf("the revision does not say who has approved what: %s", out)
	}
	if out := s.Must("profile", "show", "alice"); !strings.Contains(out, "large") {
		t.Errorf("alice is as before: %s", out)
	}

	// While somebody reads the next plan, what it starts from changes.
	b.to("/plans/" + s.propose("huge"))
	s.Must("profile", "set", "alice", "MODEL=small", "--restart")
	b.run(`document.querySelector("form[action$=approve] button").click()`)
	b.awaitTrue(`document.querySelector("[role=alert]")?.textContent.includes("It was not applied")`)
	t.Log(b.text(`document.querySelector("[role=alert]").textContent`))
	b.press("Withdraw it: it is not applied, and no longer waits")
	b.awaitTrue(inSession + ` === "/plans" && document.querySelector("main").textContent.includes("No plan waits")`)

	b.press("roll the last revision back…")
	b.awaitTrue(inSession + ` === "/rollback"`)
	b.awaitTrue(`document.querySelector("table.diff")?.textContent.includes("environment.MODEL")`)
	b.run(`document.querySelector("#steady").value = 1`)
	b.press("Roll back")
	b.awaitTrue(inSession + ` === "/revisions/3" && document.querySelector("#revision .state").textContent.includes("applied")`)
	if out := s.Must("profile", "show", "alice"); strings.Contains(out, "MODEL") {
		t.Errorf("alice was not put back: %s", out)
	}
	b.quiet()
}

// What page.allow does not permit has no button, is refused by the page, and by the control
// socket.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := house(t, "read")
	hash := s.propose("large")
	b := s.enter(t)
	for _, path := range []string{"/", "/service/gateway-alice", "/operations", "/plans", "/plans/" + hash} {
		b.to(path)
		if there := b.text(`[...document.querySelectorAll("main form[method=post], main a[href^='do?'], main a[href='rollback']")].map((e) => e.outerHTML).join()`); there != "" {
			t.Errorf("%s has %s", path, there)
		}
	}
	c := s.loggedIn(t, annesToken)
	csrf := s.send(t, c, "GET", "/", "").csrf(t)
	for path, form := range map[string]string{
		"/do": "verb=stop&name=web", "/operations/1/cancel": "", "/jobs/1/cancel": "", "/plans/" + hash + "/approve": "", "/plans/" + hash + "/withdraw": "", "/rollback": "",
	} {
		if a := s.send(t, c, "POST", path, form+"&csrf="+csrf); a.StatusCode != 403 || !strings.Contains(a.text, "page: {allow:") {
			t.Errorf("%s is answered with %s: %s", path, a.Status, a.text)
		}
	}
	for _, path := range []string{"/do?verb=stop&name=web", "/rollback"} {
		if a := s.send(t, c, "GET", path, ""); a.StatusCode != 403 {
			t.Errorf("%s is answered with %s", path, a.Status)
		}
	}
	if now := s.Status()["web"]; now.State != "running" {
		t.Errorf("web is %s", now.State)
	}
}
