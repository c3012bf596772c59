package docker

import (
	"testing"
	"time"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// keys is a program that tells the input of its terminal. bash runs a trap between two
// commands, so it does not read for long; a part of a line that came by then is kept.
const keys = `#!/bin/bash
trap 'echo interrupted' INT
trap 'echo "size $(stty size)"' WINCH
trap 'echo hung up >/tmp/hangup; exit' HUP
trap 'echo continued' CONT
echo "uid $(id -u) in $PWD"
while :; do
	if read -t 0.1 -r part; then
		line=$before$part before=
		echo "got $line"
		[ "$line" = end ] && exit 3
	else
		before=$before$part
	fi
done
`

// TestShimOnTerminal: what is typed at docker exec -it BOX PROGRAM, a shim, reaches the
// program as if no shim were in between.
func TestShimOnTerminal(t *testing.T) {
	t.Parallel()
	b := start(t, box.Spec{Config: contract.Config(), Files: map[string]string{"/opt/keys": keys}})
	if r := b.As(box.Root, "sh", "-c", "chmod 0755 /opt/keys; rlminit install-compat --shim keys=/opt/keys /usr/local/bin"); r.Code != 0 {
		t.Fatal(r)
	}
	name := b.Place.(*Place).name

	t.Run("its own session", func(t *testing.T) {
		tty := dockerOn(t, "exec", "-it", name, "keys")
		tty.reads("uid 1000 in /data")
		tty.typed("\x03")
		tty.reads("interrupted")
		resized(t, b, tty)
		tty.typed("\x1a") // stops nobody whose parent is in another session, setpgid(2)
		tty.typed("still there\r")
		tty.reads("got still there")
		tty.typed("end\r")
		gone(b)
	})

	t.Run("below a shell", func(t *testing.T) {
		tty := dockerOn(t, "exec", "-it", name, "bash", "--norc", "-i")
		tty.typed("echo $$ >/tmp/shell; keys\r")
		tty.reads("uid 1000 in /data")
		tty.typed("\x1a")
		tty.reads("Stopped")
		tty.typed("fg\r")
		tty.reads("continued")
		tty.typed("\x03")
		tty.reads("interrupted")
		resized(t, b, tty)
		tty.typed("end\r")
		tty.typed("echo code $?\r")
		tty.reads("code 3")
		tty.typed("keys\r")
		tty.reads("uid 1000 in /data")
		b.Shell(box.Root, "kill -9 $(cat /tmp/shell)") // the leader of the session
		gone(b)
		if got := b.Shell(box.Root, "cat /tmp/hangup"); got != "hung up\n" {
			t.Errorf("of the hangup it knows %q", got)
		}
	})
}

// TestCalledByLink: a PID 1 that has the name of s6's is known as rlminit, so that who
// comes before the supervisor is ready waits for it, and no shim runs anything as root.
func TestCalledByLink(t *testing.T) {
	t.Parallel()
	for user, ask := range map[box.User]string{box.Service: "rlminit status -q", box.Root: `[ "$(who 2>&1)" = app ]`} {
		b := startImage(t, built.based, box.Spec{
			Config: contract.Config(), Docker: []string{"--entrypoint", "bash"},
			Main: []string{"-c", `rlminit install-compat --shim who=/usr/bin/whoami /usr/local/bin
				ln -s /usr/local/bin/rlminit /tmp/s6-svscan
				until [ -e /tmp/go ]; do sleep 0.1; done
				exec /tmp/s6-svscan init --`},
		})
		r := b.As(user, "bash", "-c", `touch /tmp/go; while read -r name </proc/1/comm; [ "$name" != s6-svscan ]; do :; done; `+ask)
		if r.Code != 0 {
			t.Errorf("%s: %s", ask, r)
		}
	}
}

// resized gives the program's terminal another size, which the kernel tells its foreground
// process group, ioctl_tty(2). It is done in the container, for the docker client does not
// pass every size on, with a shim or without one.
func resized(t *testing.T, b *box.Box, tty *terminal) {
	t.Helper()
	const terminal = `tty=/dev/$(ps -o tty= -p "$(pgrep -n -f '^/bin/bash /opt/keys')" | tr -d ' '); `
	b.Shell(box.Root, terminal+`stty -F "$tty" rows 30 cols 90`)
	tty.reads("size 30 90")
	b.Shell(box.Root, terminal+`stty -F "$tty" rows 40 cols 120`)
	tty.reads("size 40 120")
}

// gone waits until none of the program is left.
func gone(b *box.Box) {
	b.Helper()
	box.Eventually(b, 60*time.Second, "the program's end", func() (bool, any) {
		r := b.As(box.Root, "pgrep", "-f", "^/bin/bash /opt/keys")
		return r.Code == 1, r
	})
}
