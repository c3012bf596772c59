package jobs

import (
	"testing"

	"rlminit/config"
)

// A hook names a gateway as commands do, by its profile, or as the service.
func TestHookConcerns(t *testing.T) {
	for _, c := range []struct {
		services []string
		name     string
		want     bool
	}{
		{nil, "web", true},
		{[]string{"web"}, "web", true},
		{[]string{"alice"}, "gateway-alice", true},
		{[]string{"gateway-alice"}, "gateway-alice", true},
		{[]string{"alice"}, "alice-two", false},
		{[]string{"gateway-web"}, "web", false},
	} {
		if got := concerns(config.Hook{Services: c.services}, c.name); got != c.want {
			t.Errorf("a hook on %v and %s: %v, want %v", c.services, c.name, got, c.want)
		}
	}
}
