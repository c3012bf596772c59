package contract

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// PoisonedByRoot: what root leaves in a profile's directory, as docker exec does, is found
// by doctor, and put right by profile repair, by a boot and by a purge; with a user of the
// profile's own and without. What cannot be read because of it is not taken for corrupt.
func PoisonedByRoot(t *testing.T, start New) {
	for name, config := range map[string]string{"the service user": Config(), "a user of its own": ownUsers(), "no such users": Config("profile_users: off\n")} {
		t.Run(name, func(t *testing.T) { poisoned(t, start(t, box.Spec{Config: config})) })
	}
}

func poisoned(t *testing.T, b *box.Box) {
	b.Must("profile", "create", "alice")
	b.Await("gateway-alice", "running")
	if b.Supervisor().UID[0] == box.Service.UID {
		b.Fails(17, "rlminit can change no owners here", "profile", "repair", "alice")
		return
	}
	dir := b.Home() + "/profiles/alice"
	poison := func() {
		b.Shell(box.Root, "umask 077; cd "+dir+" && mkdir -p notes/deep && echo x >notes/deep/file && echo x >file && ln -sfn /etc/shadow link")
	}
	roots := func() string { return b.Shell(box.Root, "find "+dir+" -user 0 | sort") }
	poison()
	b.Shell(box.Root, "umask 077; cd "+dir+" && echo x >linked && ln linked again")
	if out := b.As(box.Root, "rlminit", "doctor").Out; !strings.Contains(out, "files of profile alice are root's") || !strings.Contains(out, "rlminit profile repair alice") {
		t.Errorf("doctor: %s", out)
	}
	shadow := b.Shell(box.Root, "stat -c %u /etc/shadow")
	if out := b.Must("profile", "repair", "alice"); !strings.Contains(out, "the owners of 5 files were put right") || !strings.Contains(out, "left alone: ") {
		t.Errorf("repair: %q", out)
	}
	if left := roots(); strings.TrimSpace(strings.ReplaceAll(left, dir+"/again\n", "")) != dir+"/linked" {
		t.Errorf("after the repair root has %q", left)
	}
	if now := b.Shell(box.Root, "stat -c %u /etc/shadow"); now != shadow {
		t.Errorf("a link was followed")
	}
	b.Shell(box.Root, "cd "+dir+" && rm -f linked again")
	if out := b.Must("profile", "repair", "alice"); out != "alice: nothing to put right\n" {
		t.Errorf("again: %q", out)
	}
	if out := b.As(box.Root, "rlminit", "doctor").Out; strings.Contains(out, "files of profile alice") {
		t.Errorf("doctor after it: %s", out)
	}

	// A state file that is root's is neither read nor taken for corrupt.
	b.Must("stop", "alice")
	for _, file := range []string{"gateway_state.json", "profile.yaml"} {
		b.Shell(box.Root, fmt.Sprintf(`umask 077; cd %s && cp %s .new && mv .new %[2]s`, dir, file))
		b.Run("reload")
		if r := b.Run("start", "alice", "--timeout", "10s"); r.Code != 1 || !strings.Contains(r.Err+r.Out, "cannot read now") || !strings.Contains(r.Err+r.Out, "rlminit profile repair alice") {
			t.Errorf("started with a %s that is root's: %s", file, r)
		}
		if s := b.Status()["gateway-alice"]; s.Desired != "running" {
			t.Errorf("with a %s that is root's: %s", file, box.Describe(s))
		}
		b.Must("profile", "repair", "alice")
		b.Await("gateway-alice", "running")
		if left := b.Shell(box.Root, "cd "+dir+" && ls -d *.corrupt-* 2>/dev/null || true"); left != "" {
			t.Errorf("taken for corrupt: %s", left)
		}
		b.Must("stop", "alice")
	}
	b.Must("start", "alice")

	poison()
	if out := b.Shell(box.Root, "rlminit profile repair --all"); !strings.Contains(out, "all profiles: the owners of ") {
		t.Errorf("repair --all: %q", out)
	}
	if left := roots(); left != "" {
		t.Errorf("after a repair of all profiles root has %q", left)
	}

	poison()
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.AwaitThat("gateway-alice", "runs", func(s control.Service) bool { return s.State == "running" })
	if left := roots(); left != "" {
		t.Errorf("after a boot root has %q", left)
	}

	for _, how := range [][]string{{"profile", "delete", "alice", "--purge"}, {"profile", "purge", "alice"}} {
		poison()
		if how[1] == "purge" {
			b.Must("profile", "delete", "alice")
		}
		b.Must(append(how, "--timeout", "30s")...)
		if left := b.Shell(box.Root, "cd "+b.Home()+" && ls -A profiles trash 2>/dev/null | grep -v ':$' || true"); strings.TrimSpace(left) != "" {
			t.Errorf("%v leaves %q", how, left)
		}
		b.Must("profile", "create", "alice")
		b.Await("gateway-alice", "running")
	}
}
