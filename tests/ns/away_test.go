package ns

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// TestVolumeGoesAway: a volume that is unmounted, hidden by another file system, or whose
// profiles are renamed away says nothing about the profiles: a successor keeps what runs,
// says so, and finds the volume when it is back.
func TestVolumeGoesAway(t *testing.T) {
	if !Privileged() {
		t.Skip("needs root: it mounts")
	}
	for name, ways := range map[string][2]string{
		"unmounted": {"umount -l $V/home", "mount --bind $V/spare $V/home"},
		"hidden":    {"mount -t tmpfs -o mode=755 none $V/home", "umount -l $V/home"},
		"renamed":   {"mv $V/home/profiles $V/home/away", "mv $V/home/away $V/home/profiles"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := volumeTwice(t)
			b := Start(t, box.Spec{Config: contract.Config(), Env: []string{"RLMINIT_HOME=" + home}})
			shell := func(script string) { b.Shell(box.Root, "V="+filepath.Dir(home)+"\n"+script) }
			b.Must("profile", "create", "alice")
			b.Must("profile", "create", "bob")
			alice, bob := *b.Await("gateway-alice", "running").PID, *b.Await("gateway-bob", "running").PID
			old := b.Supervisor().PID
			shell(ways[0])
			b.As(box.Root, "kill", "-9", strconv.Itoa(old))
			box.Eventually(b, answerTimeout, "a successor that says so", func() (bool, any) {
				r := b.Run("status", "alice")
				return r.Code == 0 && b.Supervisor().PID != old && strings.Contains(b.Printed(), "the volume is not as it was"), r
			})
			same := func(when string) {
				now := b.Status()
				for name, pid := range map[string]int{"gateway-alice": alice, "gateway-bob": bob} {
					if s := now[name]; s.PID == nil || *s.PID != pid || s.State != "running" {
						t.Errorf("%s, %s: %s", when, name, box.Describe(s))
					}
				}
			}
			same("without the volume")
			shell(ways[1])
			box.Eventually(b, answerTimeout, "the volume is found again", func() (bool, any) {
				r := b.Run("profile", "create", "carol")
				return r.Code == 0, r
			})
			same("with the volume again")
			if t.Failed() {
				t.Log(b.Run("logs", "alice"), b.Run("events"), b.Run("operations"))
			}
			b.Must("profile", "delete", "bob")
			if s, is := b.Status()["gateway-bob"]; is {
				t.Errorf("a profile that was deleted: %s", box.Describe(s))
			}
		})
	}
}

// volumeTwice is a file system of its own, mounted at home and, beside it, at spare.
func volumeTwice(t *testing.T) (home string) {
	t.Helper()
	top := t.TempDir()
	home, spare := filepath.Join(top, "home"), filepath.Join(top, "spare")
	for _, dir := range []string{home, spare} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for dir := top; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) { // a way there for everybody
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tmpfs", home, "tmpfs", 0, "size=64m,mode=755,uid=1000,gid=1000"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(home, unix.MNT_DETACH) })
	if err := unix.Mount(home, spare, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(spare, unix.MNT_DETACH) })
	return home
}

// TestSlotsGoAway: a service directory that is hidden by another file system, with the whole
// runtime directory or alone, says nothing about services, whatever is there in its place:
// what runs goes on, that is said once, and what was asked for meanwhile is done when it is
// back.
func TestSlotsGoAway(t *testing.T) {
	if !Privileged() {
		t.Skip("needs root: it mounts")
	}
	const dir = "/run/rlminit/services"
	for name, ways := range map[string][2]string{
		"hidden":      {"mount -t tmpfs -o mode=755 none " + dir, "umount -l " + dir},
		"another's":   {"mount -t tmpfs -o mode=755,uid=49999,gid=49999 none " + dir + "; mkdir " + dir + "/foreign; cp " + contract.StrangerFile + " " + dir + "/foreign/service.yaml", "umount -l " + dir},
		"all is gone": {"mount -t tmpfs -o mode=755 none /run", "umount -l /run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contract.SlotsGoAway(t, Start, ways[0], ways[1], name != "all is gone")
		})
	}
}

// TestConfigurationElsewhere: where a flag of init names the configuration, or the home
// directory, every verb goes by what it names, and not by what lies at the usual path.
func TestConfigurationElsewhere(t *testing.T) {
	t.Parallel()
	b := Start(t, box.Spec{Config: contract.Config(), Under: []string{"bash", "-c", `
		umask 022; cat "$RLMINIT_CONFIG" - >/tmp/other.yaml <<<'services: {web: {command: [sleep, infinity]}}'
		mkdir /tmp/elsewhere; chown 1000:1000 /tmp/elsewhere 2>/dev/null
		exec "$1" init --config /tmp/other.yaml --home /tmp/elsewhere`, "bash"}})
	b.Must("profile", "create", "alice")
	b.Await("web", "running")
	for _, verb := range [][]string{{"journal", "verify"}, {"journal", "export"}, {"check"}, {"exec", "--", "true"}, {"doctor"}} {
		r := b.As(box.Root, append([]string{"rlminit"}, verb...)...)
		if r.Code != 0 && verb[0] != "doctor" || strings.Contains(r.Out+r.Err, b.Home()) {
			t.Errorf("%q: %s", verb, r)
		}
	}
	if out := b.As(box.Root, "rlminit", "journal", "export", "--type", "profile_created").Out; strings.Count(out, "alice") == 0 {
		t.Errorf("the journal has no alice: %q", out)
	}
	if out := b.As(box.Root, "rlminit", "check").Out; !strings.Contains(out, "/tmp/other.yaml") {
		t.Errorf("check has looked at %q", out)
	}
	if r := b.As(box.Root, "env", "RLMINIT_CONFIG=/tmp/none.yaml", "rlminit", "check"); r.Code == 0 || !strings.Contains(r.Out+r.Err, "/tmp/none.yaml") {
		t.Errorf("a variable of the caller's own: %s", r)
	}
}
