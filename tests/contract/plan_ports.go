package contract

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// PlanCountsPorts: a set whose new profiles find no port in the range of their kind is refused
// when it is planned, and nothing is touched.
func PlanCountsPorts(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config(`gateways:
  web:
    command: [gateway, --profile, "${PROFILE}", --port, "${PORT}"]
    ready: {notify: true, timeout: 20s}
    ports: 9701-9703
`)})
	webs := func(n int) string {
		text := "version: 1\nprofiles:\n"
		for i := range n {
			text += fmt.Sprintf("  w%d: {kind: web}\n", i+1)
		}
		return text
	}
	before := b.Must("status", "--json") + b.Must("revisions", "--json")
	b.Write(box.Service, b.Home()+"/agents.yaml", webs(6))
	b.Fails(8, "profile w4 and 2 more find no port: all of 9701-9703 are taken", "plan", "-f", b.Home()+"/agents.yaml")
	if after := b.Must("status", "--json") + b.Must("revisions", "--json"); after != before {
		t.Errorf("something was touched:\n%s", after)
	}
	path, hash := planned(b, webs(3))
	exits(b, 9, "apply", path, "--approve", hash, "--steady", "0", "--allow-delete")
	for i := range 3 {
		if s := b.Await(fmt.Sprintf("gateway-w%d", i+1), "running"); s.Port == nil || *s.Port < 9701 || *s.Port > 9703 {
			t.Errorf("%s", box.Describe(s))
		}
	}
	b.Write(box.Service, b.Home()+"/agents.yaml", webs(4))
	if r := b.Run("plan", "-f", b.Home()+"/agents.yaml"); r.Code != 8 || !strings.Contains(r.Err, "profile w4 finds no port") || !strings.Contains(r.Err, "gateways.web.ports") {
		t.Errorf("one more than there is room for: %v", r)
	}
}
