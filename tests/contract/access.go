package contract

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// AccessIsDecidedByUid: root and the service user do anything, another uid
// nothing, and is told what would help.
func AccessIsDecidedByUid(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	b.FailsAs(box.Stranger, 5, "you are uid 10000, services run as 1000", "stop", "alice")
	b.FailsAs(box.Stranger, 5, "permission denied", "status")
	b.FailsAs(box.Stranger, 5, "permission denied", "profile", "create", "mallory")
	if now := b.Status(); len(now) != 1 || *now["gateway-alice"].PID != *s.PID {
		t.Error("a stranger changed something")
	}
	if r := b.As(box.Root, "rlminit", "restart", "alice"); r.Code != 0 {
		t.Errorf("root: %s", r)
	}

	readable, _ := alice(t, start, Config("access: {read: all}\n"))
	if r := readable.As(box.Stranger, "rlminit", "status"); r.Code != 0 || !strings.Contains(r.Out, "alice") {
		t.Errorf("status with access.read: %s", r)
	}
	readable.FailsAs(box.Stranger, 5, "permission denied", "stop", "alice")
}

// GatewayCannotControl: a service may not command rlminit though it has the
// service user's uid, not from a double-forked child either, unless its
// definition says so.
func GatewayCannotControl(t *testing.T, start New) {
	try := `rlminit stop victim; echo "stop: $?"; exec sleep infinity`
	b := start(t, box.Spec{Config: Services(
		`victim: {command: [sleep, infinity]}`,
		`thief: {after: [victim], `+bash(try)+`}`,
		`escaped: {after: [victim], `+bash(`(setsid env -i PATH="$PATH" bash -c 'rlminit stop victim; echo "stop: $?"' &); exec sleep infinity`)+`}`,
	)})
	b.Await("victim", "running")
	for _, name := range []string{"thief", "escaped"} {
		logged(b, name, "stop: ")
		if out := b.Must("logs", name); !strings.Contains(out, "stop: 5") || !strings.Contains(out, "rlminit: ") {
			t.Errorf("%s: %s", name, out)
		}
	}
	if s := b.Status()["victim"]; s.State != "running" {
		t.Errorf("the victim is %s", box.Describe(s))
	}

	allowed := start(t, box.Spec{Config: Services(
		`victim: {command: [sleep, infinity]}`,
		`operator: {control: true, after: [victim], `+bash(try)+`}`,
	)})
	allowed.Await("victim", "stopped")
}

// ExecIsTheService: for root, `rlminit exec` runs a command as the service
// user, with a profile's environment, and passes its exit code.
func ExecIsTheService(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	r := b.As(box.Root, "rlminit", "exec", "--profile", "alice", "--", "bash", "-c", `echo "$(id -u) $(id -G) $PROFILE $PORT"; exit 9`)
	s := b.Status()["gateway-alice"]
	fields := strings.Fields(r.Out)
	if r.Code != 9 || len(fields) < 4 || fields[0] != "1000" || fields[len(fields)-2] != "alice" || fields[len(fields)-1] != fmt.Sprint(*s.Port) {
		t.Errorf("exec: %s", r)
	}
	if strings.Contains(" "+strings.Join(fields[1:len(fields)-2], " ")+" ", " 0 ") {
		t.Errorf("exec kept root's group: %s", r)
	}
	b.FailsAs(box.Stranger, 5, "you are uid 10000, services run as 1000", "exec", "--", "id")
	if r := b.Run("exec", "--", "id", "-u"); r.Code != 0 || r.Out != "1000\n" {
		t.Errorf("exec as the service user: %s", r)
	}
}
