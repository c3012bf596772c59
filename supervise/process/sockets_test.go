package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/service"
)

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
