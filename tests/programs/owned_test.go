package programs

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/tests/box"
	"rlminit/tests/ns"
)

// Servers that are gateways, each with a user of its profile's own, without
// isolation and with it: they run as they are, with their files in their directory,
// over a kill and a start of the container.
func TestServersOfProfiles(t *testing.T) {
	need(t, "redis-server", "redis-server")
	need(t, "redis-cli", "redis-tools")
	need(t, "nginx", "nginx")
	for _, level := range []string{"none", "profile"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			b := ns.Start(t, box.Spec{Config: `version: 1
user: "1000:1000"
gateway:
  user: auto
  isolation: ` + level + `
  ports: 6400-6499
  command: [bash, "${PROFILE_DIR}/run"]
  ready: {tcp: "127.0.0.1:${PORT}", timeout: 20s}
  restart: {delay: 50ms, limit: 100, window: 60s}
  initial_state: stopped
  stop: {timeout: 5s}
`})
			for name, run := range map[string]string{
				"redis": `exec redis-server --port "$PORT" --bind 127.0.0.1 --dir "$PROFILE_DIR" --appendonly yes --appendfsync always`,
				"nginx": `cd "$PROFILE_DIR" && mkdir -p t && echo "pid $PWD/nginx.pid; error_log stderr notice; worker_processes 1; events { worker_connections 64; }
http { access_log off; client_body_temp_path t/1; proxy_temp_path t/2; fastcgi_temp_path t/3; uwsgi_temp_path t/4; scgi_temp_path t/5;
server { listen 127.0.0.1:$PORT; location / { return 200 \"from $PROFILE\"; } } }" >nginx.conf
exec nginx -e stderr -p "$PWD" -c "$PWD/nginx.conf" -g "daemon off;"`,
			} {
				b.Must("profile", "create", name)
				r, err := b.Exec(box.Service, strings.NewReader(run+"\n"), []string{"rlminit", "file", "write", "--profile", name, "run"})
				if err != nil || r.Code != 0 {
					t.Fatalf("%v %s", err, r)
				}
				b.Must("start", name, "--timeout", "30s")
			}
			port := func(name string) int { return *b.Await("gateway-"+name, "running").Port }
			cli := func(args ...string) string {
				return b.As(box.Service, append([]string{"redis-cli", "-p", fmt.Sprint(port("redis"))}, args...)...).Out
			}
			cli("set", "k", "v")
			serves := func() {
				t.Helper()
				if got := cli("get", "k"); got != "v\n" {
					t.Errorf("redis has %q", got)
				}
				if answer := get(b, fmt.Sprintf("http://127.0.0.1:%d/", port("nginx"))); answer != "from nginx" {
					t.Errorf("nginx answers %q", answer)
				}
			}
			serves()
			for _, name := range []string{"redis", "nginx"} {
				s := b.Status()["gateway-"+name]
				b.Shell(box.Root, fmt.Sprintf("kill -9 %d", *s.PID))
				another(b, "gateway-"+name, *s.PID)
			}
			serves()
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
			b.Again()
			serves()
			services := b.Status()
			one, other := services["gateway-redis"].UID, services["gateway-nginx"].UID
			if one == nil || other == nil || *one == *other {
				t.Errorf("%s and %s", box.Describe(services["gateway-redis"]), box.Describe(services["gateway-nginx"]))
			}
		})
	}
}
