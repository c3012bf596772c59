package supervise

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rlminit/internal/document"
	"rlminit/service"
	"rlminit/supervise/serve"
)

// What anybody puts into the service directory never takes more memory than
// there is: the next supervisor would need as much. What is configured has its
// place all the same, with this supervisor and the next.
func TestDefinitionsOfStrangersAreBounded(t *testing.T) {
	p := newPlace(t, gateways)
	p.open()
	created(p, "alice", "")
	put := func(name string, size int) {
		text := "command: [true]\nenabled: false\n# " + strings.Repeat("x", size)
		if _, err := p.now.slots.Publish(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		p.now.Registry.Notice(name)
	}
	put("huge", document.MaxSize)
	const sourcesMax = 8 << 20 // the registry's
	const crowd = 2 * sourcesMax / (document.MaxSize / 2)
	for i := range crowd {
		put(fmt.Sprintf("a%02d", i), document.MaxSize/2)
	}
	check := func(when string) {
		t.Helper()
		p.now.loop.Commands.Read(func(now serve.Services) {
			refused := 0
			for u := range now.All() {
				if strings.Contains(u.Fault, "by hand") {
					refused++
				}
			}
			if refused < crowd/2 || refused > crowd/2+3 {
				t.Errorf("%s: %d refused of %d", when, refused, crowd)
			}
			if u := now.Named("huge"); u == nil || !strings.Contains(u.Fault, "by hand") {
				t.Errorf("%s: a huge definition is in force", when)
			}
			if u := now.Named("gateway-alice"); u == nil || u.Fault != "" {
				t.Errorf("%s: alice has no place", when)
			}
		})
	}
	check("put there")
	created(p, "bob", "")
	before := p.spawned("gateway-alice")
	p.copied(10 * time.Second)
	p.kill()
	p.supervise()
	p.open()
	check("with the next supervisor")
	p.now.loop.Commands.Read(func(now serve.Services) {
		if u := now.Named("gateway-bob"); u == nil || u.Fault != "" || u.Definition.Name != service.GatewayPrefix+"bob" {
			t.Error("bob has no place")
		}
	})
	if now := p.spawned("gateway-alice"); now != before {
		t.Errorf("alice was started %d times, then %d", before, now)
	}
}
