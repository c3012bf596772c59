package contract

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
)

// SupervisorCannotBeTraced: a service does not get at the memory of a supervisor,
// however often that is replaced, not even in its first moments; nor can it kill
// one that has a uid of its own. Nobody else notices.
func SupervisorCannotBeTraced(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`tracer: {command: [nasty, trace, "12"], type: oneshot, enabled: false, stop: {timeout: 200ms}}`)})
	pids := several(b, 1)
	own := b.Supervisor().UID[0] != 1000
	b.Run("start", "--no-wait", "tracer")
	box.Eventually(b, 2*long, "the tracer is through", func() (bool, any) {
		if own {
			if old := b.Supervisor(); old.PID != 0 {
				kill(b, "KILL", old.PID)
				replaced(b, old.PID)
			}
		}
		r := b.Run("logs", "tracer")
		return strings.Contains(r.Out, "traced "), r
	})
	if out := b.Must("logs", "tracer"); !strings.Contains(out, "not traced in ") || strings.Contains(out, "not traced in 0") ||
		own != strings.Contains(out, "may not be killed") {
		t.Errorf("the tracer says %q", out)
	}
	b.AwaitReady()
	unharmed(b, pids)
}

// SlotIsSpoilt: whatever is put in place of what is written in the service
// directory, the others are served.
func SlotIsSpoilt(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	b.Must("profile", "create", "bob")
	before := b.Await("gateway-bob", "running")
	b.Shell(box.Supervisor, `cd /run/rlminit/services/gateway-bob
		rm -f status.json; mkfifo status.json .status.json .service.yaml
		mkdir -p /tmp/attacker && echo precious >/tmp/attacker/elsewhere`)
	b.As(box.Service, "kill", "-9", fmt.Sprint(*before.PID))
	restarted(b, "gateway-bob", *before.PID)
	b.Must("restart", "alice")
	b.Shell(box.Supervisor, `cd /run/rlminit/services/gateway-bob
		rm -f status.json .status.json; ln -s /tmp/attacker/elsewhere status.json; ln -s /tmp/attacker/elsewhere .status.json`)
	b.Must("restart", "bob")
	b.Shell(box.Supervisor, `cd /run/rlminit/services/gateway-bob
		rm -f status.json .status.json; mkdir -p status.json/x .status.json/x notify.d; rm -f notify; mkdir notify`)
	b.Must("restart", "bob")
	b.Must("restart", "alice")
	if out := b.Shell(box.Supervisor, `cat /tmp/attacker/elsewhere; rm -r /tmp/attacker`); out != "precious\n" {
		t.Errorf("a file elsewhere holds %q", out)
	}
	// What is published of the other is current, and outlives a supervisor.
	now := b.Await("gateway-alice", "running")
	if *now.PID == *s.PID {
		t.Error("alice was not restarted")
	}
	old := b.Supervisor()
	kill(b, "KILL", old.PID)
	replaced(b, old.PID)
	if again := b.Await("gateway-alice", "running"); *again.PID != *now.PID || again.Restarts != now.Restarts {
		t.Errorf("after another supervisor: %s", box.Describe(again))
	}
}

// SlotIsNoWayToSecrets: what is put into the service directory by hand sees no
// more of the container's variables than a service does.
func SlotIsNoWayToSecrets(t *testing.T, start New) {
	b := start(t, box.Spec{
		Config: Config("inherit_env: [\"*\", \"!SECRET_*\"]\n"),
		Env:    []string{"SECRET_TOKEN=hidden", "OPEN=seen"},
	})
	b.Shell(box.Supervisor, "mkdir /run/rlminit/services/.thief")
	b.Write(box.Supervisor, "/run/rlminit/services/.thief/service.yaml",
		"command: [bash, -c, \"echo got ${SECRET_TOKEN:-nothing} and ${OPEN}; exec sleep 1000\"]\n")
	b.Shell(box.Supervisor, "cd /run/rlminit/services; mv .thief thief")
	b.Await("thief", "running")
	logged(b, "thief", "got ")
	if out := b.Must("logs", "thief"); !strings.Contains(out, "got nothing and seen") {
		t.Errorf("the thief says %q", out)
	}
}

// PrivilegedSlotIsSpoilt: what is written over the definition of a service with
// another user has no effect, nor if the supervisor reads it anew.
func PrivilegedSlotIsSpoilt(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`other: {` + bash("echo uid $(id -u) sockets $LISTEN_FDNAMES.; exec nasty sleep") + `, user: "2000:2000", restart: {delay: 50ms}}`)})
	s := b.Await("other", "running")
	b.Write(box.Supervisor, "/run/rlminit/services/other/.forged",
		"command: [nasty, sleep]\nsockets: [{listen: \"tcp:127.0.0.1:0\", name: trojan}]\n")
	spoil := func() {
		b.Shell(box.Supervisor, "cd /run/rlminit/services/other; cp .forged .copy; mv .copy service.yaml")
	}
	runs := 1
	confined := func() {
		t.Helper()
		b.As(box.Root, "kill", "-9", fmt.Sprint(*s.PID))
		s = restarted(b, "other", *s.PID)
		runs++
		box.Eventually(b, long, "it runs as the configuration has it", func() (bool, any) {
			out := b.Must("logs", "other")
			return strings.Count(out, "uid 2000 sockets .\n") == runs, out
		})
	}
	spoil()
	b.AwaitThat("other", "is not as its slot says", func(s control.Service) bool {
		return s.Reason != nil && strings.Contains(*s.Reason, "as the configuration has it")
	})
	confined()
	old := b.Supervisor()
	kill(b, "KILL", old.PID)
	replaced(b, old.PID)
	confined()
}

// NotificationIsForged: nobody but the service itself can write to its notify
// socket: neither for one that has another user or a capability, nor for one of its
// own user.
func NotificationIsForged(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`other: {command: [nasty, hoard, "1"], user: "2000:2000", ready: {notify: true, timeout: 20s}}`,
		`capable: {command: [nasty, hoard, "1"], sandbox: {capabilities: [NET_BIND_SERVICE]}, ready: {notify: true, timeout: 20s}}`,
		`plain: {command: [nasty, hoard, "1"], ready: {notify: true, timeout: 20s}}`,
		`forger: {command: [bash, -c, "for s in other capable plain; do NOTIFY_SOCKET=/run/rlminit/services/$$s/notify nasty hoard 3 || echo refused $$s; done; exec sleep infinity"], enabled: false}`)})
	names := []string{"other", "capable"}
	if b.Supervisor().UID[0] != box.Service.UID {
		names = append(names, "plain") // where it is not the supervisor's user too
	}
	for _, name := range names {
		b.Await(name, "running")
	}
	b.Must("start", "forger")
	for _, name := range names {
		logged(b, "forger", "refused "+name)
		s := b.Await(name, "running")
		b.As(box.Root, "kill", "-9", fmt.Sprint(*s.PID))
		s = restarted(b, name, *s.PID)
		box.Eventually(b, long, "it is passed what it stored itself", func() (bool, any) {
			out := b.Must("logs", name)
			return strings.Count(out, "passed:\n") == 1 && strings.Count(out, "passed: hoard\n") == 1, out
		})
	}
}

// StoredDescriptorsFlood: a service that stores more descriptors than can be
// passed to it loses the rest, and is restarted all the same. What it may store is
// shown, and given back when it stops.
func StoredDescriptorsFlood(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`hoarder: {command: [nasty, hoard, "200"], ready: {notify: true}, restart: {delay: 50ms}}`)})
	b.Await("hoarder", "running")
	b.Must("stop", "hoarder")
	open := func() (tier1, tier2 int) {
		out := b.Shell(box.Root, fmt.Sprintf("ls /proc/1/fd | wc -l; ls /proc/%d/fd | wc -l", b.Supervisor().PID))
		if _, err := fmt.Sscan(out, &tier1, &tier2); err != nil {
			t.Fatal(out, err)
		}
		return tier1, tier2
	}
	one, two := open()
	b.Must("start", "hoarder")
	s := b.Await("hoarder", "running")
	for range 2 {
		box.Eventually(b, long, "it stores as many as it may", func() (bool, any) {
			out := b.Must("show", "hoarder")
			return strings.Contains(out, "58 of at most 58 descriptors"), out
		})
		if nowOne, nowTwo := open(); nowOne < one+58 || nowTwo < two+58 {
			t.Errorf("PID 1 had %d open and has %d, the supervisor %d and %d: what is stored is not there", one, nowOne, two, nowTwo)
		}
		b.As(box.Service, "kill", "-9", fmt.Sprint(*s.PID))
		s = restarted(b, "hoarder", *s.PID)
	}
	b.Must("stop", "hoarder")
	box.Eventually(b, long, "nothing more is open than before", func() (bool, any) {
		nowOne, nowTwo := open()
		return nowOne <= one+3 && nowTwo <= two+3, fmt.Sprintf("PID 1 %d → %d, supervisor %d → %d", one, nowOne, two, nowTwo)
	})
}

// busy is the CPU time of a process, in seconds.
func busy(b *box.Box, pid int) (seconds float64) {
	b.Helper()
	var user, system float64
	stat := b.Shell(box.Root, fmt.Sprintf("sed 's/.*) //' /proc/%d/stat | cut -d' ' -f12,13; getconf CLK_TCK", pid))
	var ticks float64
	if _, err := fmt.Sscan(stat, &user, &system, &ticks); err != nil {
		b.Fatal(stat, err)
	}
	return (user + system) / ticks
}

// NotificationFlood: a service that notifies without end slows down itself, to as
// many messages a second as docs/configuration.md says, and others are heard.
func NotificationFlood(t *testing.T, start New) {
	const most = 100 // messages a second
	b := start(t, box.Spec{Config: Services(`shout: {command: [nasty, shout], ready: {notify: true}, log: {tee: off}}`)})
	b.Await("shout", "running")
	tier2 := b.Supervisor().PID
	sent := func() (messages int) { // the service counts its own
		text := b.Status()["shout"].StatusText
		if text != nil {
			if _, err := fmt.Sscanf(*text, "shout %d", &messages); err != nil {
				t.Fatal(*text, err)
			}
		}
		return messages
	}
	box.Eventually(b, long, "what it may say at once is said", func() (bool, any) { return sent() > 0, nil })
	settled := time.Now()
	box.Eventually(b, long, "two seconds have passed", func() (bool, any) { return time.Since(settled) > 2*time.Second, nil })
	began, before := time.Now(), sent()
	cpu := [2]float64{busy(b, 1), busy(b, tier2)}
	box.Eventually(b, long, "four seconds have passed", func() (bool, any) { return time.Since(began) > 4*time.Second, nil })
	handled := sent() - before
	seconds := time.Since(began).Seconds()
	t.Logf("figure: notification flood: %.0f messages a second, PID 1 spends %.1f %% of a processor, the supervisor %.1f %%",
		float64(handled)/seconds, 100*(busy(b, 1)-cpu[0])/seconds, 100*(busy(b, tier2)-cpu[1])/seconds)
	if handled == 0 || float64(handled) > most*seconds {
		t.Errorf("%d messages were taken in %.1f s; at most %d a second are promised", handled, seconds, most)
	}
	if now := b.Supervisor().PID; now != tier2 {
		t.Error("the supervisor was replaced")
	}
	b.Must("profile", "create", "alice")
	b.Await("gateway-alice", "running")
	b.Must("stop", "shout")
}

// VolumeIsSpoilt: links and pipes in place of what rlminit reads and writes on
// the volume lead nowhere outside of it, hold up nobody, and spare the others.
func VolumeIsSpoilt(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	elsewhere := strings.TrimSpace(b.Shell(box.Service, `mktemp -dp /var/tmp`))
	b.Must("profile", "create", "bob")
	b.Must("profile", "create", "carol")
	b.Must("profile", "create", "dave")
	for _, name := range []string{"bob", "carol", "dave"} {
		b.Await("gateway-"+name, "running")
	}
	b.Shell(box.Service, `cd "`+b.Home()+`"
		echo precious >`+elsewhere+`/file; mkdir `+elsewhere+`/dir
		for f in gateway_state.json profile.yaml; do
			rm -f profiles/bob/$f; mkfifo profiles/bob/$f
			rm -f profiles/carol/$f; ln -s `+elsewhere+`/file profiles/carol/$f
		done
		mv profiles/dave profiles/.dave; ln -s `+elsewhere+`/dir profiles/dave
		rm -rf trash .trash; ln -s `+elsewhere+`/dir trash; ln -s `+elsewhere+`/dir .trash`)
	b.Shell(box.Root, `cd "`+b.Home()+`"
		for n in bob carol; do rm -rf logs/gateways/$n; ln -s `+elsewhere+`/dir logs/gateways/$n; done
		rm -f logs/container-boot.log; ln -s `+elsewhere+`/file logs/container-boot.log
		rm -f .rlminit.lock; ln -s `+elsewhere+`/file .rlminit.lock`)
	for _, name := range []string{"bob", "carol", "dave"} {
		for _, verb := range []string{"restart", "stop", "start"} {
			if r := b.Run(verb, "--timeout", "5s", name); r.Code != 0 && strings.Count(r.Err, "\n") != 1 {
				t.Errorf("%s %s: %s", verb, name, r)
			}
		}
		if r := b.Run("profile", "set", name, "A=b"); r.Code != 0 && strings.Count(r.Err, "\n") != 1 {
			t.Errorf("set %s: %s", name, r)
		}
	}
	old := b.Supervisor()
	kill(b, "KILL", old.PID)
	replaced(b, old.PID)
	b.Run("profile", "delete", "bob")
	b.Run("profile", "delete", "dave", "--purge")
	unharmed(b, map[string]int{"gateway-alice": *s.PID})
	b.Must("profile", "create", "eve")
	b.Await("gateway-eve", "running")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.Await("gateway-alice", "running")
	if out := b.Shell(box.Service, `cat `+elsewhere+`/file; ls -A `+elsewhere+`/dir; rm -r `+elsewhere); out != "precious\n" {
		t.Errorf("outside of the volume there is %q", out)
	}
}

// ControlSocketIsCrowded: strangers and services that keep hundreds of
// connections busy keep nobody out who may command.
func ControlSocketIsCrowded(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`crowd: {command: [nasty, crowd, /run/rlminit/control.sock, "400"], enabled: false}`)})
	pids := several(b, 1)
	b.Must("start", "crowd")
	b.Shell(box.Stranger, `nasty crowd /run/rlminit/control.sock 400 >/dev/null 2>&1 &`)
	logged(b, "crowd", "crowded")
	for range 10 {
		began := time.Now()
		b.Must("status")
		if r := b.As(box.Root, "rlminit", "health"); r.Code != 0 {
			t.Errorf("health: %s", r)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("two commands took %s", took)
		}
	}
	b.Must("profile", "create", "late")
	unharmed(b, pids)
	b.Must("stop", "crowd")
}
