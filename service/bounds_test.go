package service

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// many are so many items that f makes.
func many(n int, f func(i int) string) string {
	var items []string
	for i := range n {
		items = append(items, f(i))
	}
	return strings.Join(items, ", ")
}

// One past each bound of a definition is a fault that names the bound; the bound itself is
// none.
func TestBoundsOfADefinition(t *testing.T) {
	schedule := func(i int) string { return fmt.Sprintf(`s%d: {cron: '0 0 1 1 *', command: [a]}`, i) }
	socket := func(i int) string { return fmt.Sprintf(`{name: s%d, listen: 'tcp:127.0.0.1:%d'}`, i, 2000+i) }
	secret := func(i int) string { return fmt.Sprintf("S%d: {file: /s}", i) }
	for _, c := range []struct {
		text  func(n int) string
		most  int
		fault string
	}{
		{func(n int) string { return "schedules: {" + many(n, schedule) + "}" }, maxSchedules, "a service can have 64"},
		{func(n int) string { return "sockets: [" + many(n, socket) + "]" }, maxSockets, "64 are the most"},
		{func(n int) string { return "secrets: {" + many(n, secret) + "}" }, MaxSecrets, "a service can have 256"},
		{func(n int) string {
			return fmt.Sprintf("type: oneshot\nschedule: {cron: '0 0 1 1 *', timeout: %ds}", n)
		}, int(maxScheduleTimeout.Seconds()), "is above 168h0m0s"},
		{func(n int) string { return "sockets: [{name: a, listen: 'unix:/" + strings.Repeat("p", n-1) + "'}]" }, maxUnixPath, "at most 107"},
	} {
		for past := range 2 {
			_, faults := Decode("f", "web", []byte("command: [a]\n"+c.text(c.most+past)+"\n"), nil)
			said := fmt.Sprint(faults)
			if past == 0 && len(faults) > 0 {
				t.Errorf("with %d: %.300s", c.most, said)
			}
			if past == 1 && !strings.Contains(said, c.fault) {
				t.Errorf("with %d: %.300s; want %q", c.most+1, said, c.fault)
			}
		}
	}
	for past := range 2 {
		if fault := CheckProfileForm(strings.Repeat("n", maxProfileName+past)); (fault != "") != (past == 1) {
			t.Errorf("a name of %d bytes: %q", maxProfileName+past, fault)
		}
	}
}

// A definition that is longer than its bound is refused.
func TestOnePastADefinition(t *testing.T) {
	if _, faults := Decode("f", "web", append([]byte("command: [a]\n#"), bytes.Repeat([]byte("x"), MaxSize)...), nil); len(faults) == 0 {
		t.Errorf("more than %d bytes are no fault", MaxSize)
	}
}
