package runtimedir

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// However deep a service has nested directories in the runtime directory, and
// whatever it has taken its rights from, the next boot removes them.
func TestEmptyRemovesWhatIsDeep(t *testing.T) {
	top, err := os.MkdirTemp("", "reap-deep")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(top)
	at, err := unix.Open(top, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(at)
	for _, first := range []string{"a", "b"} {
		above := at
		for depth := range 500 {
			name := first
			if depth%100 == 99 {
				name = ".deep.0.1" // of a name that we might use ourselves
			}
			if err := unix.Mkdirat(above, name, 0o700); err != nil {
				t.Fatal(err)
			}
			next, err := unix.Openat(above, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(next)
			above = next
		}
	}
	for _, name := range []string{".deep.0.1/in", ".deep.0.2/in", ".deep.1.1/in"} {
		if err := os.MkdirAll(top+"/"+name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(top+"/shut/in", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(top+"/shut", 0); err != nil {
		t.Fatal(err)
	}
	if err := empty(at); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(top); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}
