package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/service"
	"rlminit/tests/box"
)

// callers asks the control socket over 280 connections at once, each for a start of another
// service, and counts answers of success.
const callers = `use IO::Socket::UNIX; $SIG{ALRM} = sub { print "$good of 280\n"; exit }; alarm 120;
for (0..279) {
	my $s = IO::Socket::UNIX->new(Peer => "/run/rlminit/control.sock") or die "connect: $!"; push @all, $s;
	my $body = $_ % 2 ? q({"wait":{"timeout_ms":60000}}) : "{}";
	printf $s "POST /v1/services/s%03d/start HTTP/1.1\r\nHost: rlminit\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", $_, length $body, $body; $s->flush;
}
for my $s (@all) { my $line = <$s>; $good++ if $line =~ m{^HTTP/1.1 200 } }
print "$good of 280\n";`

// EveryCallerIsAnswered: 280 that command at once, over as many connections, are answered.
func EveryCallerIsAnswered(t *testing.T, start New) {
	var lines []string
	for i := range 300 {
		lines = append(lines, fmt.Sprintf(`s%03d: {command: [sleep, infinity]}`, i))
	}
	b := start(t, box.Spec{Config: Services(lines...)})
	b.Await("s299", "running")
	if out := b.Shell(box.Root, "perl -e '"+callers+"'"); out != "280 of 280\n" {
		t.Errorf("answered are %s", out)
	}
	list := []control.Operation{}
	if err := json.Unmarshal([]byte(b.Must("operations", "--json")), &list); err != nil || len(list) == 0 || len(list) > 100 {
		t.Errorf("%d operations are remembered: %v", len(list), err)
	}
}

// RollingStopLeavesTheRest: a rolling stop records that a service is to be stopped when it
// comes to it. Cancelled, or if its supervisor is killed in the midst of it, the others run
// on, and are to run.
func RollingStopLeavesTheRest(t *testing.T, start New) {
	var lines []string
	for i := range 20 {
		lines = append(lines, fmt.Sprintf(`s%02d: {command: [sleep, infinity], stop: {signal: WINCH, timeout: 5s}}`, i)) // it is deaf for it
	}
	b := start(t, box.Spec{Config: Services(lines...)})
	b.Await("s19", "running")
	pids := map[string]int{}
	for name, s := range b.Status() {
		pids[name] = *s.PID
	}
	begin := func() {
		b.Must("stop", "--all", "--rolling=1", "--no-wait")
		box.Eventually(b, long, "a service that is being stopped", func() (bool, any) {
			s := b.Status()
			for _, is := range s {
				if is.State == "stopping" {
					return true, nil
				}
			}
			return false, s
		})
	}
	check := func(how string) {
		t.Helper()
		stopped := 0
		for name, s := range b.Status() {
			switch {
			case s.Desired == string(service.Stopped):
				stopped++
			case s.State != "running" || s.PID == nil || *s.PID != pids[name] || s.Desired != string(service.Running):
				t.Errorf("%s: %s is %s", how, name, box.Describe(s))
			}
		}
		if stopped == 0 || stopped > 6 {
			t.Errorf("%s: %d of 20 are to be stopped", how, stopped)
		}
	}

	begin()
	var o control.Operation
	var list []control.Operation
	if err := json.Unmarshal([]byte(b.Must("operations", "--json")), &list); err != nil || len(list) == 0 {
		t.Fatal(err)
	}
	id := fmt.Sprint(list[len(list)-1].ID)
	if err := json.Unmarshal([]byte(b.Must("cancel", id, "--json")), &o); err != nil || o.State != "cancelled" {
		t.Errorf("%+v, %v", o, err)
	}
	left := 0
	for _, m := range o.Members {
		if m.State == "cancelled" && m.Reason == "it had not begun" {
			left++
		}
	}
	if left < 14 {
		t.Errorf("%d members had not begun: %+v", left, o.Members)
	}
	check("cancelled")

	b.Must("start", "--all")
	for name := range pids {
		pids[name] = *b.Await(name, "running").PID
	}
	begin()
	old := b.Supervisor()
	b.Shell(box.Root, fmt.Sprintf("kill -9 %d", old.PID))
	replaced(b, old.PID)
	check("its supervisor was killed")
	if out := b.Must("operations"); !strings.Contains(out, "interrupted") {
		t.Errorf("the operations are %s", out)
	}
}
