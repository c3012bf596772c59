package docker

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// svc is what status says of a service.
type svc = control.Service

// TestDemo is what `make demo` tells people to try, on the image that it
// makes: no shell, no base, its own configuration.
func TestDemo(t *testing.T) {
	t.Parallel()
	b := startImage(t, built.demo, box.Spec{Docker: []string{"-v", volume(t) + ":/data", "--health-interval", "1s"}})
	b.AwaitReady()
	p := b.Place.(*Place)
	if r := b.As(box.Root, "rlminit", "profile", "create", "alice"); r.Code != 0 {
		t.Fatalf("create: %s", r)
	}
	s := b.Await("gateway-alice", "running")
	if answer := b.Call(*s.Port, "/chat", "hello"); !strings.Contains(answer, "hello") {
		t.Errorf("the gateway answered %s", answer)
	}
	if out := b.Must("status"); !strings.Contains(out, "alice") || !strings.Contains(out, "running") {
		t.Errorf("status: %s", out)
	}
	if out := b.Must("logs", "alice"); !strings.Contains(out, "hello") {
		t.Errorf("logs: %s", out)
	}
	if r := b.As(box.Root, "rlminit", "exec", "--profile", "alice", "--", "gateway", "sleep", "0s"); r.Code != 0 {
		t.Errorf("exec: %s", r)
	}
	b.Must("profile", "create", "bob")
	b.Must("stop", "bob")
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	b.AwaitReady()
	b.Await("gateway-alice", "running")
	b.Await("gateway-bob", "stopped")
	box.Eventually(b, 30*time.Second, "the health check passes", func() (bool, any) {
		health, err := p.inspect("{{.State.Health.Status}}")
		return err == nil && health == "healthy", health
	})
}

// TestTwoContainersOneVolume: the second starts no profile, says who has them,
// and takes over when the first is gone.
func TestTwoContainersOneVolume(t *testing.T) {
	t.Parallel()
	mount := []string{"-v", volume(t) + ":/data"}
	first := startImage(t, built.based, box.Spec{Config: contract.Config(), Docker: mount})
	awaitAnswer(first)
	first.Must("profile", "create", "alice")
	first.Await("gateway-alice", "running")
	id, err := first.Place.(*Place).inspect("{{.Config.Hostname}}")
	if err != nil {
		t.Fatal(err)
	}

	second := startImage(t, built.based, box.Spec{Config: contract.Config(), Docker: mount})
	awaitAnswer(second)
	box.Eventually(second, answerTimeout, "it says whose the volume is", func() (bool, any) {
		out := second.Printed()
		return strings.Contains(out, "is held by") && strings.Contains(out, id[:4]), out
	})
	for name, s := range second.Status() {
		if s.State == "running" {
			t.Errorf("the second runs %s: %s", name, box.Describe(s))
		}
		if s.Profile != nil && s.Verdict != "" {
			t.Errorf("the second judges %s, which is another container's: %s", name, box.Describe(s))
		}
	}
	second.Fails(17, "held by", "profile", "create", "bob")

	asked := startImage(t, built.based, box.Spec{Config: contract.Config(), Docker: mount, Env: []string{"RLMINIT_PROFILES=off"}})
	awaitAnswer(asked)
	if n := len(asked.Status()); n != 0 {
		t.Errorf("RLMINIT_PROFILES=off has %d services", n)
	}
	first.Await("gateway-alice", "running")
}

// TestVolumeThatCannotBeWritten: one line says whose it is and what to do.
func TestVolumeThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	b := startImage(t, built.based, box.Spec{Config: contract.Config(), Docker: []string{"--tmpfs", "/data:uid=4242,gid=4242,mode=0755"}})
	box.Eventually(b, answerTimeout, "it says so", func() (bool, any) {
		out := b.Printed()
		return strings.Contains(out, "cannot write /data: owned by uid 4242, services run as 1000"), out
	})
}

// TestOverriddenEntrypoint: a client in a container without rlminit says so.
func TestOverriddenEntrypoint(t *testing.T) {
	t.Parallel()
	b := startImage(t, built.based, box.Spec{Docker: []string{"--entrypoint", "sleep"}, Main: []string{"infinity"}})
	b.Fails(6, `PID 1 is "sleep"`, "status")
}

// TestServicesDirectory: services.d beside the configuration, one file each.
func TestServicesDirectory(t *testing.T) {
	t.Parallel()
	b := startImage(t, built.based, box.Spec{Config: contract.Config(), Files: map[string]string{
		"/etc/rlminit/services.d/web.yaml": "command: [gateway, --profile, web, --port, \"8088\"]\nready: {http: \"http://127.0.0.1:8088/healthz\"}\n",
	}})
	awaitAnswer(b)
	b.Await("web", "running")
}

// TestJSONIsAnArray: also where there is nothing to list.
func TestJSONIsAnArray(t *testing.T) {
	t.Parallel()
	b := start(t, box.Spec{Config: contract.Config()})
	var list []svc
	if out := b.Must("status", "--json"); json.Unmarshal([]byte(out), &list) != nil || list == nil {
		t.Errorf("status --json: %q", out)
	}
}
