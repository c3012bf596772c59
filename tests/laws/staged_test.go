package laws

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"rlminit/control"
	"rlminit/supervise/operation"
	"rlminit/tests/box"
)

// stages are the steps that are more than one verb: each returns false where there is
// nothing that it could be done to.
var stages = map[string]func(*world) bool{
	"kill": (*world).killed, "boot": (*world).booted, "refused boot": (*world).refusedBoot,
	"crowd": (*world).crowd, "cancel": (*world).cancelled,
}

// killed is a part of the supervisor that ends while nothing is done.
func (w *world) killed() bool {
	role := rapid.SampledFrom(roles).Draw(w.T, "role")
	w.kill(role, 0)
	w.script = append(w.script, "# "+role+" was killed")
	w.agree(w.model, role+" was killed")
	return true
}

func (w *world) booted() bool {
	w.boot(w.model.copy())
	return true
}

// boot stops or kills the container and starts it again.
func (w *world) boot(after model) {
	end, how := w.Stop, "stopped"
	if rapid.Bool().Draw(w.T, "crash") {
		end, how = func() error { return w.Signal(int(unix.SIGKILL)) }, "killed"
	}
	w.script = append(w.script, "# the container is "+how+" and started again")
	if err := end(); err != nil {
		w.fail("%v", err)
	}
	if _, err := w.Ended(time.Minute); err != nil {
		w.fail("%v", err)
	}
	if err := w.Start(); err != nil {
		w.fail("%v", err)
	}
	clear(w.pids) // a new namespace may give the same numbers
	after.each(func(_ string, p *profile) {
		if p.paused = false; p.refused {
			p.started = nil
		}
		p.restart()
	})
	after.settle()
	w.agree(after, "the container was restarted")
}

// refusedBoot is a boot that finds a profile.yaml which is refused, and its mending.
func (w *world) refusedBoot() bool {
	if len(w.model.profiles) == 0 {
		return false
	}
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(w.model.profiles))).Draw(w.T, "name")
	file, saved := w.Home()+"/profiles/"+name+"/profile.yaml", w.Home()+"/profiles/"+name+"/saved"
	w.root(fmt.Sprintf("[ ! -e %[1]s ] || cp -p %[1]s %[2]s; echo 'nonsense: 1' >>%[1]s", file, saved))
	after := w.model.copy()
	after.change(name, func(p *profile) { p.refused = true })
	w.boot(after)
	if chance(w.T) {
		w.killed()
	}
	w.root(fmt.Sprintf("if [ -e %[2]s ]; then mv %[2]s %[1]s; else rm %[1]s; fi", file, saved))
	after = w.model.copy()
	after.change(name, func(p *profile) { p.refused = false })
	after.settle()
	r := w.rlminit("", "reload")
	if r.Code != 0 {
		w.fail("reload: %s", r)
	}
	w.agree(after, "reload of what was mended: "+r.String())
	return true
}

func (w *world) root(script string) {
	if r := w.shell(box.Root, script); r.Code != 0 {
		w.fail("%s: %s", script, r)
	}
}

// crowded is how many services a box of many has: more than there are operations that are
// remembered for nobody.
const crowded = 150

// callers asks the control socket over as many connections at once, none of which reads
// before the last has asked, each for a start or a stop of another service, and counts the
// answers of success.
const callers = `use IO::Socket::UNIX; $SIG{ALRM} = sub { print "$good\n"; exit }; alarm 30;
for (0..%[1]d - 1) {
	my $s = IO::Socket::UNIX->new(Peer => "/run/rlminit/control.sock") or die "connect: $!"; push @all, $s;
	my $body = $_ %% 2 ? q({"wait":{"timeout_ms":20000}}) : "{}";
	printf $s "POST /v1/services/s%%03d/%[2]s HTTP/1.1\r\nHost: rlminit\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %%d\r\n\r\n%%s", $_, length $body, $body; $s->flush;
}
for my $s (@all) { my $line = <$s>; $good++ if $line =~ m{^HTTP/1.1 200 } }
print "$good\n";`

// crowd has many callers command at once, each another service.
func (w *world) crowd() bool {
	if len(w.model.services) < crowded {
		return false
	}
	verb := rapid.SampledFrom([]string{"start", "stop"}).Draw(w.T, "of")
	after := w.model.copy()
	for i := range crowded {
		p := after.services[inCrowd(i)]
		p.desired, p.paused = verb == "start", false
		after.services[inCrowd(i)] = p
	}
	after.settle()
	if r := w.shell(box.Root, "perl -e '"+fmt.Sprintf(callers, crowded, verb)+"'"); r.Out != fmt.Sprintln(crowded) {
		w.fail("of %d callers at once are answered %s", crowded, r)
	}
	w.agree(after, fmt.Sprintf("%s by %d callers at once", verb, crowded))
	return true
}

func inCrowd(i int) string { return fmt.Sprintf("s%03d", i) }

// cancelled is a rolling operation that is cancelled: what it has not come to stays as it
// was recorded.
func (w *world) cancelled() bool {
	verb := rapid.SampledFrom([]string{"start", "stop"}).Draw(w.T, "of")
	argv := []string{verb, "--all", "--rolling", "--no-wait", "--json"}
	if verb == "start" {
		argv = append(argv, "--steady", "1h") // it comes to no second one that is down
	}
	o := w.operation(argv...)
	if o.ID == 0 {
		w.fail("%v begins no operation", argv)
	}
	id := fmt.Sprint(o.ID)
	if r := w.rlminit("", "cancel", id); r.Code != 0 && r.Code != control.ExitExists { // it is over
		w.fail("cancel: %s", r)
	}
	after := w.model.copy()
	for _, m := range w.operation("operations", id, "--json").Members {
		if m.State == string(operation.StateCancelled) && m.Reason == "it had not begun" {
			continue
		}
		after.each(func(name string, p *profile) {
			if name == m.Name {
				p.desired, p.paused = verb == "start", false
			}
		})
	}
	after.settle()
	w.agree(after, verb+" was cancelled")
	return true
}

// operation is what a verb writes, which is an operation.
func (w *world) operation(argv ...string) (o control.Operation) {
	r := w.rlminit("", argv...)
	if err := json.Unmarshal([]byte(r.Out), &o); r.Code != 0 || err != nil {
		w.fail("%v: %v %s", argv, err, r)
	}
	return o
}
