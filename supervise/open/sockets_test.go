package open

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/service"
	"rlminit/wire"
)

// listen opens one socket.
func listen(s service.Socket) (int, error) {
	d := New(func(wire.Message, []int, []int) {}, nil, nil)
	o, err := d.Open(1, Service{Definition: &service.Definition{Sockets: []service.Socket{s}}}, nil)
	if err != nil {
		return -1, err
	}
	return o.Descriptors[0], nil
}

// A stale socket is replaced; what is no socket is left alone, and named.
func TestListenWhereSomethingIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.sock")
	for range 2 {
		fd, err := listen(service.Socket{Network: "unix", Address: path})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := listen(service.Socket{Network: "unix", Address: path}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("while it is listened on: %v", err)
		}
		unix.Close(fd)
	}
	file := path + ".txt"
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"unix", "unixgram"} {
		_, err := listen(service.Socket{Network: network, Address: file})
		if err == nil || !strings.Contains(err.Error(), "what is there is no socket") {
			t.Errorf("%s: %v", network, err)
		}
	}
	if text, err := os.ReadFile(file); string(text) != "x" {
		t.Errorf("%q %v", text, err)
	}
}

// Two listeners collide where the kernel would refuse the second.
func TestCollide(t *testing.T) {
	for pair, want := range map[string]bool{
		"tcp 127.0.0.1:80 tcp 127.0.0.1:80": true,
		"tcp 127.0.0.1:80 tcp4 0.0.0.0:80":  true,
		"tcp :80 tcp6 [::1]:80":             true,
		"tcp [::]:80 tcp 127.0.0.1:80":      true,
		"tcp localhost:80 tcp 127.0.0.1:80": true,
		"tcp 127.0.0.1:80 tcp 127.0.0.2:80": false,
		"tcp 127.0.0.1:80 tcp 127.0.0.1:81": false,
		"tcp 127.0.0.1:80 udp 127.0.0.1:80": false,
		"udp 127.0.0.1:80 udp4 :80":         true,
		"unix /run/a unix /run/a":           true,
		"unix /run/a unixgram /run/a":       true,
		"unix /run/a unix /run/b":           false,
		"unix @80 tcp :80":                  false,
	} {
		w := strings.Fields(pair)
		a, b := service.Socket{Network: w[0], Address: w[1]}, service.Socket{Network: w[2], Address: w[3]}
		if Collide(a, b) != want || Collide(b, a) != want {
			t.Errorf("%s: want %v", pair, want)
		}
	}
}
