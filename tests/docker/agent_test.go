package docker

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
)

// agentImage builds the example of an agent's image, on the base and with the
// programs of the other tests.
func agentImage(t *testing.T) string {
	t.Helper()
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	name := imageName(runName) + ":agent"
	err = run(root, "docker", "build", "-q", "--build-arg", "BASE="+built.based, "--build-arg", "RLMINIT="+built.demo,
		"-t", name, filepath.Join("examples", "agent-image"))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

var agent = box.User{UID: 10000, GID: 10000}

// TestAgentImage: an agent application as people build it with s6-overlay,
// expressed in one rlminit.yaml, does what its users expect.
func TestAgentImage(t *testing.T) {
	t.Parallel()
	image := agentImage(t)

	t.Run("arguments", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			want string
			code int
		}{
			{[]string{"--version"}, "agent 1.0", 0},
			{[]string{"chat", "two  words"}, "you said: two  words", 0},
			{[]string{"doctor"}, "home /opt/data, user agent, uid 10000", 0},
			{[]string{"id", "-un"}, "agent", 0},
			{[]string{"nonsense"}, "agent: unknown command nonsense", 2},
		} {
			b := startImage(t, image, box.Spec{Main: c.args})
			code, err := b.Ended(answerTimeout)
			if err != nil || code != c.code || !strings.Contains(b.Printed(), c.want+"\n") {
				t.Errorf("%q: exit code %d, %v, printed %q", c.args, code, err, b.Printed())
			}
		}
	})

	t.Run("terminal", func(t *testing.T) {
		b := startImage(t, image, box.Spec{Docker: []string{"-i", "-t"}})
		tty := attach(t, b)
		tty.typed("hello\r")
		tty.reads("you said: hello")
		tty.typed("exit\r")
		if code, err := b.Ended(answerTimeout); err != nil || code != 0 {
			t.Errorf("exit code %d, %v", code, err)
		}
	})

	t.Run("gateways", func(t *testing.T) {
		v := prepared(t, "mkdir -p /data/profiles/old; touch /data/profiles/old/SOUL.md /data/profiles/old/gateway.pid; "+
			`echo '{"gateway_state":"running","pid":7}' >/data/profiles/old/gateway_state.json; chown -R 0:0 /data`)
		v = strings.TrimSuffix(v, "/data") + "/opt/data"
		b := startImage(t, image, box.Spec{
			Main: []string{"gateway", "run"}, Env: []string{"AGENT_DASHBOARD=yes"}, Docker: []string{"--volume", v},
		})
		up := func(names ...string) {
			t.Helper()
			healthy(b, agent)
			for _, name := range names {
				if r := b.As(agent, "rlminit", "wait", name, "--for", "running", "--timeout", "20s"); r.Code != 0 {
					t.Fatalf("%s: %s", name, r)
				}
			}
		}
		up("default", "dashboard", "old") // the agent's own state file says that it ran
		if r := b.As(agent, "rlminit", "profile", "create", "alice"); r.Code != 0 {
			t.Fatalf("create: %s", r)
		}
		if r := b.As(agent, "rlminit", "stop", "old"); r.Code != 0 {
			t.Fatalf("stop: %s", r)
		}
		none(b, "not the agent's on the volume", among("/opt/data", `-not -path '/opt/data/profiles/*' \( -not -uid 10000 -o -not -gid 10000 \)`))
		owners := map[string]string{}
		for _, name := range []string{"old", "alice"} {
			dir := "/opt/data/profiles/" + name
			owners[name] = strings.TrimSpace(b.Shell(box.Root, "stat -c %u "+dir))
			none(b, "not "+name+"'s in its directory", among(dir, fmt.Sprintf(`-not -uid %s -o -not -gid %[1]s`, owners[name])))
		}
		if owners["old"] == owners["alice"] || !strings.HasPrefix(owners["old"], "400") {
			t.Errorf("profiles are %v's", owners)
		}
		got := b.Shell(box.Root, "cd /opt/data; stat -c '%n %a' auth config.yaml .env; cat version profiles/alice/SOUL.md; ls profiles/old")
		want := "auth 700\nconfig.yaml 640\n.env 600\n1\nBe brief.\n"
		if !strings.HasPrefix(got, want) || strings.Contains(got, "gateway.pid") {
			t.Errorf("%q, want %q", got, want)
		}
		if err := b.Place.(*Place).Restart(); err != nil {
			t.Fatal(err)
		}
		up("default", "dashboard", "alice")
		if r := b.As(agent, "rlminit", "status", "-q", "old"); r.Code != 3 {
			t.Errorf("old was stopped, and is %s", r)
		}
		began := time.Now()
		if err := b.Signal(int(unix.SIGTERM)); err != nil {
			t.Fatal(err)
		}
		if code, err := b.Ended(12 * time.Second); err != nil || code != 0 || time.Since(began) > 9500*time.Millisecond {
			t.Errorf("exit code %d, %v, after %s", code, err, time.Since(began))
		}
	})

	t.Run("remap", func(t *testing.T) {
		b := startImage(t, image, box.Spec{Main: []string{"gateway", "run"}, Env: []string{"AGENT_UID=1234", "AGENT_GID=2345"}})
		healthy(b, box.User{UID: 1234, GID: 2345})
		name := b.Place.(*Place).name
		out, err := must(nil, "exec", "--user", "agent", name, "bash", "-c", "rlminit wait default --for running --timeout 20s; id -u; id -g")
		if err != nil || !strings.HasSuffix(out, "1234\n2345") {
			t.Errorf("%q, %v", out, err)
		}
		none(b, "not the agent's on the volume", among("/opt/data", `-not -uid 1234 -o -not -gid 2345`))
	})

	t.Run("unsupervised", func(t *testing.T) {
		b := startImage(t, image, box.Spec{Main: []string{"gateway", "run", "--no-supervise", "--profile", "own"}})
		healthy(b, agent)
		r := b.As(agent, "rlminit", "status", "-q", "default")
		if out := b.Shell(agent, "ps -o args= -C gateway"); r.Code != 3 || out != "gateway --profile own\n" {
			t.Errorf("default: %s; gateways: %q", r, out)
		}
	})
}
