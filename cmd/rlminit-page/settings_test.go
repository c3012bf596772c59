package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What would let a stranger in is refused, with what to do.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "token")
	if err := os.WriteFile(tokens, []byte("0123456789abcdef0123\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		set      settings
		fragment string
	}{
		{settings{Listen: "127.0.0.1:9118", Tokens: tokens}, ""},
		{settings{Listen: "[::1]:9118", Tokens: tokens}, ""},
		{settings{Listen: "localhost:9118", Tokens: tokens, Allow: "approve"}, ""},
		{settings{Listen: "0.0.0.0:9118", Tokens: tokens, Behind: "proxy"}, ""},
		{settings{Listen: "unix:/run/page.sock"}, ""},
		{settings{Listen: "127.0.0.1:9118"}, "without tokens"},
		{settings{Listen: "0.0.0.0:9118", Tokens: tokens}, "without TLS"},
		{settings{Listen: ":9118", Tokens: tokens}, "without TLS"},
		{settings{Listen: "[::]:9118", Tokens: tokens}, "without TLS"},
		{settings{Listen: "unix:page.sock"}, "begins with /"},
		{settings{Listen: "box:9118", Tokens: tokens}, "is no address"},
		{settings{Listen: "9118", Tokens: tokens}, "it is ADDRESS:PORT"},
		{settings{Listen: "127.0.0.1:9118", Tokens: tokens, Allow: "all"}, `cannot allow "all"`},
		{settings{Listen: "127.0.0.1:9118", Tokens: tokens, Behind: "nginx"}, `cannot be behind "nginx"`},
		{settings{Listen: "127.0.0.1:9118", Tokens: tokens, Cert: "/x"}, "belong together"},
		{settings{Listen: "127.0.0.1:9118", Tokens: tokens, Cert: "/x", Key: "/y"}, "cannot speak TLS"},
		{settings{Listen: "127.0.0.1:9118", Tokens: dir + "/none"}, "cannot read the tokens"},
	} {
		_, err := of.set.check()
		if (err == nil) != (of.fragment == "") || err != nil && !strings.Contains(err.Error(), of.fragment) {
			t.Errorf("%+v: %v; want %q", of.set, err, of.fragment)
		}
	}
	env := map[string]string{
		"CREDENTIALS_DIRECTORY": "/run/c", "RLMINIT_PAGE_TOKENS": "token", "RLMINIT_PAGE_CERT": "/etc/c.pem", "RLMINIT_PAGE_HOSTS": "a.example, b.example,",
	}
	got := fromEnvironment(func(name string) string { return env[name] })
	if got.Tokens != "/run/c/token" || got.Cert != "/etc/c.pem" || got.Listen != "127.0.0.1:9118" || got.Allow != "read" || strings.Join(got.Hosts, " ") != "a.example b.example" {
		t.Errorf("the environment is read as %+v", got)
	}
}

// A socket is for its user and group; one that a process before has left is taken over, one
// that is in use is not.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.sock")
	c := checked{unix: path}
	first, err := listen(c, "")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket has the mode %v: %v", info.Mode(), err)
	}
	go first.Accept()
	if _, err := listen(c, ""); err == nil || !strings.Contains(err.Error(), "somebody listens on") {
		t.Errorf("a socket that is in use: %v", err)
	}
	first.(*limited).Listener.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close()
	again, err := listen(c, "")
	if err != nil {
		t.Fatalf("a socket that was left: %v", err)
	}
	again.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(c, ""); err == nil {
		t.Error("a file was taken for a socket")
	}
}

// A directory that somebody else than root and the page can change is named, also one above.
func TestReplaceable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: no directory can be given to another user")
	}
	dir, err := os.MkdirTemp("", "page-") // below a directory with the sticky bit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	below := filepath.Join(dir, "data", "page")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if why := replaceable(below); why != "" {
		t.Errorf("root's: %s", why)
	}
	if err := os.Chown(filepath.Dir(below), 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if why, want := replaceable(below), filepath.Dir(below)+" belongs to uid 1000"; why != want {
		t.Errorf("the directory above is a service's: %q, not %q", why, want)
	}
	if err := errors.Join(os.Chown(filepath.Dir(below), 0, 0), os.Chmod(filepath.Dir(below), 0o777)); err != nil {
		t.Fatal(err)
	}
	if why, want := replaceable(below), filepath.Dir(below)+" can be written by others than its owner"; why != want {
		t.Errorf("everybody can write to the directory above: %q, not %q", why, want)
	}
}
