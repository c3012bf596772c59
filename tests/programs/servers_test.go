package programs

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/contract"
	"rlminit/tests/ns"
)

// levels runs a test of a server on each level of isolation: what the server is
// given is what docs/isolation.md says: the directory that it writes to, its ports.
func levels(t *testing.T, test func(t *testing.T, isolation string)) {
	for _, level := range []string{"none", "profile", "strict"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			isolation := "isolation: none"
			switch level {
			case "profile":
				isolation = `isolation: {level: profile, write: ["${RLMINIT_HOME}/server"]}`
			case "strict":
				isolation = `isolation: {level: strict, write: ["${RLMINIT_HOME}/server"], bind: [6390, 8081, 8082], connect: [8082]}`
			}
			test(t, isolation)
		})
	}
}

// server starts a box with a server and a directory for it.
func server(t *testing.T, line string) *box.Box {
	t.Helper()
	return ns.Start(t, box.Spec{Config: "dirs: [server]\n" + contract.Services(line)})
}

// Redis says READY=1 and STATUS=, and wipes its environment.
func TestRedis(t *testing.T) { levels(t, redis) }

func redis(t *testing.T, isolation string) {
	need(t, "redis-server", "redis-server")
	need(t, "redis-cli", "redis-tools")
	b := server(t, `redis: {`+isolation+`, command: [redis-server, --supervised, systemd, --port, "6390", --bind, 127.0.0.1, --save, "", --dir, "${RLMINIT_HOME}/server"], ready: {notify: true}, stop: {timeout: 5s}}`)
	s := b.Await("redis", "running")
	if s.Ready == nil || !*s.Ready || s.StatusText == nil || !strings.Contains(*s.StatusText, "Ready to accept connections") {
		t.Errorf("ready as %s", box.Describe(s))
	}
	if out := b.Must("status", "redis"); !strings.Contains(out, "Ready to accept connections") {
		t.Errorf("STATUS= is not shown: %s", out)
	}
	cli := func(args ...string) string {
		return b.As(box.Service, append([]string{"redis-cli", "-p", "6390"}, args...)...).Out
	}
	if cli("set", "k", "v"); cli("get", "k") != "v\n" {
		t.Error("redis does not keep what it is told")
	}
	// It stops by itself, with code 0: no crash, but it is wanted all the same.
	b.As(box.Service, "redis-cli", "-p", "6390", "shutdown", "nosave")
	if s = another(b, "redis", *s.PID); s.LastExit == nil || s.LastExit.Code == nil || *s.LastExit.Code != 0 {
		t.Errorf("after SHUTDOWN: %s", box.Describe(s))
	}
	b.As(box.Service, "kill", "-SEGV", fmt.Sprint(*s.PID))
	if s = another(b, "redis", *s.PID); s.Restarts != 2 {
		t.Errorf("after a crash: %s", box.Describe(s))
	}
	supervisorKilled(b)
	if now := b.Status()["redis"]; now.PID == nil || *now.PID != *s.PID || now.State != "running" {
		t.Errorf("with a new supervisor: %s", box.Describe(now))
	}
	b.Must("stop", "redis")
	if s = b.Status()["redis"]; s.State != "stopped" || s.LastExit == nil || s.LastExit.Code == nil || *s.LastExit.Code != 0 {
		t.Errorf("after stop: %s", box.Describe(s))
	}
	logged(b, "redis", "bye bye")
	gone(b, "redis-server")
}

// HAProxy's master says READY=1, and on USR2 RELOADING=1, executes itself anew
// and says READY=1 again: the same process, no restart, no connection refused.
func TestHAProxy(t *testing.T) { levels(t, haproxy) }

func haproxy(t *testing.T, isolation string) {
	need(t, "haproxy", "haproxy")
	b := server(t, `haproxy: {`+isolation+`, command: [haproxy, -Ws, -f, "${RLMINIT_HOME}/server/haproxy.cfg"], enabled: false, ready: {notify: true}, stop: {timeout: 5s}}`)
	config := func(says string) {
		b.Write(box.Service, b.Home()+"/server/haproxy.cfg", `global
  stats socket `+b.Home()+`/server/admin.sock level admin expose-fd listeners
defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 5s
frontend web
  bind 127.0.0.1:8081
  http-request return status 200 content-type text/plain string `+says+"\n")
	}
	config("one")
	b.Must("start", "haproxy", "--timeout", "20s")
	s := b.Await("haproxy", "running")
	if answer := get(b, "http://127.0.0.1:8081/"); answer != "one" {
		t.Errorf("answered %q", answer)
	}

	ended := asking(b, "http://127.0.0.1:8081/")
	config("two")
	b.Must("signal", "USR2", "haproxy")
	box.Eventually(b, long, "the new configuration", func() (bool, any) {
		answer := get(b, "http://127.0.0.1:8081/")
		return answer == "two", answer
	})
	if asked := ended(); asked.Refused > 0 || asked.Answered == 0 {
		t.Errorf("during the reload: %+v", asked)
	}
	if now := b.Await("haproxy", "running"); now.PID == nil || *now.PID != *s.PID || now.Restarts != 0 || now.Ready == nil || !*now.Ready {
		t.Errorf("after a reload: %s, was pid %d", box.Describe(now), *s.PID)
	}

	// A crash of the master leaves its worker, which holds the port.
	b.As(box.Service, "kill", "-9", fmt.Sprint(*s.PID))
	s = another(b, "haproxy", *s.PID)
	if answer := get(b, "http://127.0.0.1:8081/"); answer != "two" {
		t.Errorf("answered %q", answer)
	}
	b.Must("stop", "haproxy")
	if s = b.Status()["haproxy"]; s.State != "stopped" || s.Desired != "stopped" {
		t.Errorf("after stop: %s", box.Describe(s))
	}
	gone(b, "haproxy")
}

// nginx is the configuration of an nginx that lives in the volume alone.
func nginx(b *box.Box, says string) {
	b.Helper()
	home := b.Home() + "/server"
	b.Write(box.Service, home+"/nginx.conf", fmt.Sprintf(`pid %[1]s/nginx.pid;
error_log stderr notice;
worker_processes 2;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path %[1]s/t1; proxy_temp_path %[1]s/t2; fastcgi_temp_path %[1]s/t3; uwsgi_temp_path %[1]s/t4; scgi_temp_path %[1]s/t5;
  server { listen 127.0.0.1:8082; location / { return 200 "%[2]s"; } }
}
`, home, says))
}

// nginx in the foreground, ready by a probe, reloaded by HUP, stopped by QUIT.
func TestNginx(t *testing.T) { levels(t, nginxServes) }

func nginxServes(t *testing.T, isolation string) {
	need(t, "nginx", "nginx")
	b := server(t, `nginx: {`+isolation+`, command: [nginx, -e, stderr, -c, "${RLMINIT_HOME}/server/nginx.conf", -g, "daemon off;"], enabled: false, ready: {http: "http://127.0.0.1:8082/"}, health: {tcp: "127.0.0.1:8082", interval: 100ms}, stop: {signal: QUIT, timeout: 5s}}`)
	nginx(b, "one")
	b.Must("start", "nginx", "--timeout", "20s")
	s := b.AwaitThat("nginx", "is healthy", func(s control.Service) bool { return s.Healthy != nil && *s.Healthy })
	if answer := get(b, "http://127.0.0.1:8082/"); answer != "one" {
		t.Errorf("answered %q", answer)
	}
	nginx(b, "two")
	b.Must("signal", "HUP", "nginx")
	box.Eventually(b, long, "the new configuration", func() (bool, any) {
		answer := get(b, "http://127.0.0.1:8082/")
		return answer == "two", answer
	})
	// The workers of a master that is killed go on serving, with the service's
	// tag: the next master finds its port free all the same.
	b.As(box.Service, "kill", "-9", fmt.Sprint(*s.PID))
	s = another(b, "nginx", *s.PID)
	if s.Restarts != 1 {
		t.Errorf("after a crash: %s", box.Describe(s))
	}
	b.Must("stop", "nginx")
	if s = b.Status()["nginx"]; s.State != "stopped" || s.LastExit == nil || s.LastExit.Code == nil || *s.LastExit.Code != 0 {
		t.Errorf("after stop: %s", box.Describe(s))
	}
	gone(b, "nginx")
}

// nginx as it comes: its process forks twice and exits with 0. That is the end
// of the service, and nothing of it is left, whatever it forked.
func TestDaemonThatForks(t *testing.T) { levels(t, nginxForks) }

func nginxForks(t *testing.T, isolation string) {
	if !ns.Privileged() {
		t.Skip("needs root: without tags another session is not found")
	}
	need(t, "nginx", "nginx")
	b := server(t, `nginx: {`+isolation+`, command: [nginx, -e, stderr, -c, "${RLMINIT_HOME}/server/nginx.conf"], enabled: false, restart: on-failure, stop: {timeout: 2s}}`)
	nginx(b, "one")
	b.Run("start", "nginx", "--timeout", "20s")
	s := b.Await("nginx", "exited")
	if s.LastExit == nil || s.LastExit.Code == nil || *s.LastExit.Code != 0 || !strings.Contains(reason(s), "background") {
		t.Errorf("after it forked: %s; want a reason that says what is wrong", box.Describe(s))
	}
	gone(b, "nginx")
}
