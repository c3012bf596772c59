package verbs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// listen is an address and port, or a socket; what else is written is refused with what
// would be right.
func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rlminit.yaml")
	for listen, fragment := range map[string]string{
		"127.0.0.1:9119": "", "'[::1]:9119'": "", "0.0.0.0:9119": "", "unix:/run/fleet.sock": "",
		"box:9119": "is no IP address", "127.0.0.1": "is no IP address", "127.0.0.1:0": "is no IP address", "tcp:127.0.0.1:9119": "is no IP address",
		"unix:fleet.sock": "is no absolute path", "unix:/" + strings.Repeat("x", 107): "is no absolute path",
	} {
		text := "fleet:\n  name: f\n  member: m\n  etcd: {endpoints: [http://e:2379]}\n  listen: " + listen + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := readSettings(path)
		if (err == nil) != (fragment == "") || err != nil && !strings.Contains(err.Error(), fragment) || err == nil && s.Listen != strings.Trim(listen, "'") {
			t.Errorf("%s: %+v, %v", listen, s, err)
		}
	}
}

// TestCheck has the verb find what keeps an agent from running, each with its place.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rlminit.yaml")
	const good = "gateway: {command: [x], user: auto}\nfleet:\n  name: f\n  member: m\n  etcd: {endpoints: [http://e:2379]}\n"
	for text, fragments := range map[string][]string{
		good:                         nil,
		good + "  leese: 10s\n":      {`rlminit.yaml:6: fleet: unknown key "leese"; did you mean "lease"?`},
		good + "  lease: 1s\n  x: 1": {"rlminit.yaml:6: fleet.lease", `rlminit.yaml:7: fleet: unknown key "x"`},
		good + "  data: {bucket: file://" + dir + "}\n":                                                             {"rlminit.yaml:6: fleet.data: needs profiles that belong to the service user"},
		strings.Replace(good, ", user: auto", "", 1) + "  data: {bucket: ftp://x}\n":                                {"data.bucket: cannot open the bucket ftp://x: write file:///DIRECTORY or s3://BUCKET"},
		strings.Replace(good, "2379]}", "2379], tls: {ca: /nowhere}, user: {name: u, password: {file: /none}}}", 1): {"etcd.tls.ca: open /nowhere", "etcd.user.password: open /none"},
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, wrong strings.Builder
		code := Main(t.Context(), []string{"check", path}, &out, &wrong)
		if want := min(len(fragments), 1); code != want || (want == 0) != (out.String() == path+": valid\n") {
			t.Errorf("%s: exit code %d: %s%s", text, code, out.String(), wrong.String())
		}
		for _, f := range fragments {
			if !strings.Contains(wrong.String(), f) {
				t.Errorf("%s: nothing of %q is said, but %s", text, f, wrong.String())
			}
		}
		var document strings.Builder
		if got := Main(t.Context(), []string{"check", "--json", "--config", path}, &document, &wrong); got != code || !strings.Contains(document.String(), `"valid": `+map[int]string{0: "true", 1: "false"}[code]) {
			t.Errorf("--json: exit code %d: %s", got, document.String())
		}
	}
}
