package hooks

import (
	"testing"

	"rlminit/config"
)

// A hook names a gateway as commands do, by its profile, or as the service.
func TestConcerns(t *testing.T) {
	for _, c := range []struct {
		services []string
		of       event
		want     bool
	}{
		{nil, event{Service: "web"}, true},
		{nil, event{}, true},
		{[]string{"web"}, event{Service: "web"}, true},
		{[]string{"alice"}, event{Service: "gateway-alice"}, true},
		{[]string{"gateway-alice"}, event{Service: "gateway-alice"}, true},
		{[]string{"alice"}, event{Service: "alice-two"}, false},
		{[]string{"gateway-web"}, event{Service: "web"}, false},
		{[]string{"gateway-*"}, event{Service: "gateway-alice"}, true},
		{[]string{"al*"}, event{Service: "gateway-alice"}, true},
		{[]string{"*"}, event{}, false},
		// Of a job.
		{[]string{"alice"}, event{Profile: "alice"}, true},
		{[]string{"gateway-alice"}, event{Profile: "alice"}, true},
		{[]string{"alice"}, event{Profile: "bob"}, false},
		{[]string{"alice"}, event{}, false},
	} {
		if got := concerns(&config.Hook{Services: c.services}, c.of); got != c.want {
			t.Errorf("a hook on %v and %+v: %v, want %v", c.services, c.of, got, c.want)
		}
	}
}
