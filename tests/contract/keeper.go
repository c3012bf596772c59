package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// outOfReach is what a gateway may try against the supervisor and the others. Each
// is a command of a shell that has succeeded where the attempt has.
var outOfReach = []struct{ what, script string }{
	{"signal the supervisor", `kill -0 $SUPERVISOR || kill -STOP $SUPERVISOR`},
	{"lower its limits", `prlimit --pid $SUPERVISOR --nofile=3:3`},
	{"renice it", `renice -n 5 -p $SUPERVISOR`},
	{"move it to one processor", `taskset -p 1 $SUPERVISOR`},
	{"signal who touches its files", `kill -STOP $FILES`},
	{"lower the limits of that", `prlimit --pid $FILES --nofile=3:3`},
	{"renice that", `renice -n 5 -p $FILES`},
	{"read its memory", `head -c 1 /proc/$FILES/mem || ls /proc/$FILES/fd || ls /proc/$SUPERVISOR/fd`},
	{"write the lock", `echo '{"container":"other","boot_id":"x","heartbeat":"2099-01-01T00:00:00Z"}' >"$RLMINIT_HOME/.rlminit.lock"`},
	{"remove the lock", `rm -f "$RLMINIT_HOME/.rlminit.lock" && [ ! -e "$RLMINIT_HOME/.rlminit.lock" ]`},
	{"move the lock", `mv "$RLMINIT_HOME/.rlminit.lock" "$RLMINIT_HOME/lock"`},
	{"move the records", `mv "$RLMINIT_HOME/.rlminit" "$RLMINIT_HOME/mine"`},
	{"read the records", `ls "$RLMINIT_HOME/.rlminit"`},
	{"write a log", `echo forged >>"$RLMINIT_HOME/logs/gateways/bob/current"`},
	{"move the logs", `mv "$RLMINIT_HOME/logs" "$RLMINIT_HOME/mine"`},
	{"remove a log", `rm -rf "$RLMINIT_HOME/logs/gateways/bob" && [ ! -e "$RLMINIT_HOME/logs/gateways/bob" ]`},
	{"move the volume's directory to be its own", `chmod 0777 "$RLMINIT_HOME" || chown $(id -u) "$RLMINIT_HOME"`},
	{"take a slot away", `mv $SLOTS/gateway-bob /tmp/`},
	{"make a slot", `mkdir $SLOTS/intruder`},
	{"write a status", `echo '{"machine":{"phase":"running","last_id":18446744073709551615}}' >$SLOTS/gateway-bob/status.json`},
	{"replace a status", `cd $SLOTS/gateway-bob && touch mine && mv mine status.json`},
	{"write its own status", `echo x >$SLOTS/gateway-alice/status.json`},
}

// SupervisorIsOutOfReach: a gateway can neither stop, limit, read nor slow the
// supervisor and who touches files for it, nor change, move or forge what their
// decisions rest on. Where there is one uid for all it can; there only the
// decisions are looked at.
func SupervisorIsOutOfReach(t *testing.T, start New) {
	b := start(t, box.Spec{Config: `version: 1
user: "1000:1000"
gateway:
  command: [bash, -c, 'exec nasty sleep']
`})
	b.Must("profile", "create", "alice")
	b.Must("profile", "create", "bob")
	b.Must("profile", "create", "carol")
	b.Await("gateway-alice", "running")
	bob := b.Await("gateway-bob", "running")
	b.Must("logs", "bob") // which writes what waits: there is a log that could be removed
	supervisor := b.Supervisor()
	if supervisor.UID[0] == 1000 {
		t.Log("one uid for all: nothing is out of reach here")
		return
	}
	files := 0
	for _, p := range b.Processes() {
		if len(p.Args) > 1 && p.Args[1] == "rights" {
			files = p.PID
		}
	}
	slots := strings.TrimSpace(b.Shell(box.Root, `ls -d "${RLMINIT_RUNTIME_DIR:-/run/rlminit}/services"`))
	environment := fmt.Sprintf("export RLMINIT_HOME='%s' SLOTS='%s' SUPERVISOR=%d FILES=%d; ", b.Home(), slots, supervisor.PID, files)
	if r := b.As(box.Service, "bash", "-c", environment+`for p in prlimit renice taskset; do command -v $p || exit 1; done; prlimit --pid $$ --nofile=64:64`); r.Code != 0 {
		t.Fatalf("the attempts cannot be made: %s", r)
	}
	for _, a := range outOfReach {
		// As a gateway of one profile is: its user, and its tag.
		if r := b.Run("run", "--profile", "alice", "--timeout", "20s", "--", "bash", "-c", environment+a.script); r.Code == 0 {
			t.Errorf("a gateway can %s: %s", a.what, r)
		}
	}
	if r := b.As(box.Supervisor, "rlminit", "stop", "bob"); r.Code != 5 {
		t.Errorf("the supervisor's own uid can command: %s", r)
	}
	if now := b.Supervisor(); now.PID != supervisor.PID {
		t.Errorf("the supervisor was %d and is %d", supervisor.PID, now.PID)
	}
	if now := b.Await("gateway-bob", "running"); *now.PID != *bob.PID {
		t.Errorf("bob: %s", box.Describe(now))
	}
	// What is wanted of another is not what its file says.
	b.Must("stop", "carol")
	b.Write(box.Service, b.Home()+"/profiles/carol/gateway_state.json", `{"version":1,"profile":"carol","desired_state":"running"}`)
	b.Write(box.Service, b.Home()+"/profiles/bob/gateway_state.json", `{"version":1,"profile":"bob","desired_state":"stopped"}`)
	// And a link in place of the trash keeps nobody from deleting.
	b.Shell(box.Service, `rm -rf "`+b.Home()+`/trash"; ln -s /etc "`+b.Home()+`/trash"`)
	b.Must("profile", "create", "dave")
	b.Must("profile", "delete", "dave")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.Await("gateway-bob", "running")
	if s := b.Status()["gateway-carol"]; s.State != "stopped" {
		t.Errorf("carol: %s", box.Describe(s))
	}
	var list []struct{ Entry string }
	if out := b.Must("profile", "list", "--trash", "--json"); json.Unmarshal([]byte(out), &list) != nil || len(list) != 1 {
		t.Errorf("the trash: %s", out)
	}
}

// OperatorsChownIsPutRight: what the supervisor keeps is its own again after an
// operator gave the whole volume to the services, and theirs stays theirs; so is a
// volume of a container in which all had one uid.
func OperatorsChownIsPutRight(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	if b.Supervisor().UID[0] == 1000 {
		t.Log("one uid for all: nothing has to be put right here")
		return
	}
	b.Must("stop", "alice")
	look := func() string {
		return b.Shell(box.Root, `cd "`+b.Home()+`" && find . .rlminit/lock -maxdepth 3 -not -path './profiles/*/*' -printf '%p %U:%G %m\n' | grep -v '/journal/\|container-boot.log' | sort -u`)
	}
	before := look()
	for _, chown := range []string{"chown -R 1000:1000 .", "chown -R 0:0 .rlminit logs .rlminit.lock; chmod 0755 . .rlminit"} {
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		// A box that has ended has no processes: its files are reached by one that begins.
		b.Again()
		b.Shell(box.Root, `cd "`+b.Home()+`"; `+chown)
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		b.Again()
		if after := look(); after != before {
			t.Errorf("after %s:\n%s\nbefore:\n%s", chown, after, before)
		}
		if s := b.Status()["gateway-alice"]; s.State != "stopped" {
			t.Errorf("alice: %s", box.Describe(s))
		}
	}
}
