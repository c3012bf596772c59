package page

import (
	"fmt"
	"os"
	"testing"

	"rlminit/tests/box"
)

// office is a box as one may find it in the morning.
const office = `services:
  redis: {command: [nasty, sleep]}
  mail: {command: [bash, -c, "echo connecting to smtp.example.org; sleep 0.2; echo 'cannot log in: 535 authentication failed' >&2; exit 1"], restart: {policy: on-failure, delay: 100ms, limit: 3, window: 600s}}
  search: {command: [bash, -c, "while :; do echo \"indexed $((RANDOM % 90 + 10)) documents\"; sleep 2; done"], requires: [redis]}
  report: {command: [echo, done], type: oneshot, schedule: {cron: "0 6 * * *"}}
`

// TestScreenshots makes the pictures of the documents: make screenshots.
func TestScreenshots(t *testing.T) {
	if os.Getenv("RLMINIT_SCREENSHOTS") == "" {
		t.Skip("it makes pictures for the documents: make screenshots")
	}
	s := start(t, "approve", office)
	for _, name := range []string{"alice", "bob", "carol", "dave", "erin", "frank"} {
		s.Must("profile", "create", name)
	}
	s.Must("stop", "frank")
	s.Await("mail", "failed")
	port := *s.Await("gateway-carol", "running").Port
	s.Write(box.Service, "/tmp/agents.yaml", "version: 1\nprofiles:\n  alice: {environment: {MODEL: large}}\n")
	s.Must("plan", "-f", "/tmp/agents.yaml", "--scope", "profile/alice", "--propose", "--by", "bob", "--source", "4f0c2d1")
	b := s.enter(t)
	b.awaitTrue(`document.querySelector("#s-redis [data-memory]").textContent !== "–"`)
	b.as(1100, 640, "light")
	b.picture("page-overview.png")
	b.as(1100, 640, "dark")
	b.picture("page-overview-dark.png")

	b.to("/service/gateway-carol")
	b.open()
	b.as(1100, 800, "light")
	b.awaitTrue(`document.querySelectorAll("polyline").length === 2`)
	s.Shell(box.Service, fmt.Sprintf(`for i in {1..40}; do gateway call -d "question $i" http://127.0.0.1:%d/chat >/dev/null; done`, port))
	b.awaitTrue(`document.querySelectorAll("polyline")[1].getAttribute("points").trim().split(" ").length > 4`)
	b.picture("page-profile.png")

	b.to("/plans")
	b.run(`document.querySelector("#plans th a").click()`)
	b.awaitTrue(`document.querySelector("table.diff")`)
	b.as(1100, 760, "light")
	b.picture("page-plan.png")
	b.quiet()
}
