package control

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// socketIn makes a runtime directory with something in the socket's place.
func socketIn(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	put(t, filepath.Join(dir, SocketName), "")
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRuntimeDirs(t *testing.T) {
	for _, row := range []struct {
		named string
		uid   int
		want  string
	}{
		{"/x/", 1000, "/x"},
		{"", 1000, "/run/rlminit /dev/shm/rlminit-1000 /dev/shm/rlminit-0"},
		{"", 0, "/run/rlminit /dev/shm/rlminit-0"},
	} {
		if got := strings.Join(RuntimeDirs(row.named, row.uid), " "); got != row.want {
			t.Errorf("RuntimeDirs(%q, %d) = %q, want %q", row.named, row.uid, got, row.want)
		}
	}
}

// TestNamedRuntimeDirIsTheOnlyOne: a client whose runtime directory is named asks nobody
// else, and names the variable when nobody answers there.
func TestNamedRuntimeDirIsTheOnlyOne(t *testing.T) {
	t.Setenv("RLMINIT_RUNTIME_DIR", filepath.Join(t.TempDir(), "nowhere"))
	c := Open()
	c.wait, c.proc, c.configs = 0, t.TempDir(), nil
	c.shared = filepath.Join(t.TempDir(), "rlminit-")
	put(t, filepath.Join(c.shared+"4242", SocketName), "")
	_, err := c.Services(t.Context())
	var p *Problem
	want := "no rlminit answers on " + c.Socket() + ", which RLMINIT_RUNTIME_DIR names: "
	if !errors.As(err, &p) || p.ExitCode != ExitNoAnswer || !strings.HasPrefix(p.Detail, want) {
		t.Errorf("err = %v, want %q", err, want)
	}
}

func TestFirstWithSocket(t *testing.T) {
	empty, first, second := t.TempDir(), socketIn(t, 0o755), socketIn(t, 0o700)
	if dir := findRuntimeDir([]string{"/nonexistent", empty, first, second}, os.Geteuid()); dir != first {
		t.Errorf("found %q; want %q", dir, first)
	}
	if dir := findRuntimeDir([]string{"/nonexistent", empty}, os.Geteuid()); dir != "/nonexistent" {
		t.Errorf("found %q; want the first, to be named in the error", dir)
	}
}

func TestUntrustedDirectory(t *testing.T) {
	good := socketIn(t, 0o755)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ dir, want string }{
		"open to all": {socketIn(t, 0o757), "anybody may write to it"},
		"a link":      {link, "it is not a directory"},
	}
	uid := os.Geteuid()
	if uid == 0 {
		foreign := socketIn(t, 0o755)
		if err := os.Chown(foreign, 4242, 4242); err != nil {
			t.Fatal(err)
		}
		tests["somebody else's"] = struct{ dir, want string }{foreign, "it belongs to uid 4242, which is neither root nor you (uid 0); use docker exec -u 4242"}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := At(findRuntimeDir([]string{test.dir}, uid)).Services(t.Context())
			var p *Problem
			if !errors.As(err, &p) || p.ExitCode != ExitNotPermitted || !strings.Contains(p.Detail, test.want) {
				t.Errorf("err = %v, want %q", err, test.want)
			}
			if dir := findRuntimeDir([]string{test.dir, good}, uid); dir != good {
				t.Errorf("with a good one behind it: %q", dir)
			}
		})
	}
}

// A socket that somebody else has put in the place of PID 1's is not spoken to.
func TestUntrustedListener(t *testing.T) {
	var asked atomic.Bool
	answer := func(http.ResponseWriter, *http.Request) { asked.Store(true) }
	c := serve(t, answer)
	conn, err := c.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	uid := os.Geteuid()
	if err := trustedListener(raw, c.Socket(), uid); err != nil {
		t.Errorf("our own: %v", err)
	}
	if err := trustedListener(raw, c.Socket(), uid+1); (err == nil) != (uid == 0) {
		t.Errorf("of uid %d, to another: %v", uid, err)
	}
	if uid != 0 {
		return
	}
	l, c := listen(t)
	if raw, err = l.(*net.UnixListener).SyscallConn(); err != nil {
		t.Fatal(err)
	}
	var errnos [3]unix.Errno
	err = raw.Control(func(fd uintptr) {
		// By raw system calls, for those of package syscall change every thread.
		const same = ^uintptr(0)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_, _, errnos[0] = unix.RawSyscall(unix.SYS_SETRESUID, same, 4242, same)
		_, _, errnos[1] = unix.RawSyscall(unix.SYS_LISTEN, fd, 1, 0)
		_, _, errnos[2] = unix.RawSyscall(unix.SYS_SETRESUID, same, 0, same)
	})
	if err != nil || errnos != [3]unix.Errno{} {
		t.Fatal(err, errnos)
	}
	go http.Serve(l, http.HandlerFunc(answer))
	_, err = c.Services(t.Context())
	var p *Problem
	if !errors.As(err, &p) || p.ExitCode != ExitNotPermitted || !strings.Contains(p.Detail, "uid 4242 listens there") || asked.Load() {
		t.Errorf("err = %v, asked: %v", err, asked.Load())
	}
}
