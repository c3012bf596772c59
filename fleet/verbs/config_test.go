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
