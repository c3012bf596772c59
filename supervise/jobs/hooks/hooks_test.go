package hooks

import (
	"fmt"
	"testing"
	"time"

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

// A service that fails again and again keeps no hook from being told of another.
func TestAMinuteIsCountedByService(t *testing.T) {
	var b bounds
	now := time.Unix(1e9, 0)
	for i := range 3 * perMinute {
		if allowed := b.allow("mail", "gateway-hog", now); allowed != (i < perMinute) {
			t.Fatalf("the hog's event %d: %v", i, allowed)
		}
	}
	if !b.allow("mail", "gateway-neighbour", now) || !b.allow("chat", "gateway-hog", now) || !b.allow("mail", "", now) {
		t.Error("another service, or another hook, is left out")
	}
	if !b.allow("mail", "gateway-hog", now.Add(time.Minute)) {
		t.Error("the next minute does not count anew")
	}
}

// A hook that makes what triggers it, under new names each time, has an end too, and another
// hook is told as before.
func TestAMinuteOfAHookHasAnEnd(t *testing.T) {
	var b bounds
	now := time.Unix(1e9, 0)
	for i := range 2 * perMinuteInAll {
		if allowed := b.allow("make", fmt.Sprintf("gateway-new-%d", i), now); allowed != (i < perMinuteInAll) {
			t.Fatalf("event %d: %v", i, allowed)
		}
	}
	if b.allow("make", "", now) || !b.allow("mail", "gateway-new-1", now) || !b.allow("make", "", now.Add(time.Minute)) {
		t.Error("the bound is not that of the hook and its minute")
	}
}
