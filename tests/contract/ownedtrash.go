package contract

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// OwnedTrash: what the user of a profile keeps to itself stays so over a deletion, a restore
// under the same and another name, a clone, a rename, an import, an apply that deletes and
// its rollback, and a purge: a service of the services' user, which looks for it all the
// time, never gets to read it. A new profile of the name gets another user than the one in
// the trash.
func OwnedTrash(t *testing.T, start New) {
	b := start(t, box.Spec{Config: ownUsers(`services:
  spy: {` + bash(`cd "$RLMINIT_HOME"; while :; do
	grep -rs -m1 hush profiles trash; grep -qs canary canary && echo sees canary; done`) + `}
`)})
	b.Must("profile", "create", "alice")
	if !separable(b) {
		return
	}
	owned(b, "alice", 40000)
	b.Must("run", "--profile", "alice", "--", "bash", "-c", `umask 077; mkdir -p d/e; printf hush >d/e/key; cp d/e/key key; ln -s key link; chmod 600 key`)
	has := func(name string, uid uint32) {
		b.Helper()
		owned(b, name, uid)
		if out := b.Must("run", "--profile", name, "--", "cat", "key", "d/e/key"); out != "hushhush" {
			b.Errorf("%s has %q", name, out)
		}
	}
	inTrash := func(entry string, uid uint32) {
		b.Helper()
		all := b.Shell(box.Root, "cd "+b.Home()+"/trash && find "+entry+" -printf '%U:%G\n' | sort -u")
		if all != fmt.Sprintf("%d:%[1]d\n", uid) {
			b.Errorf("in the trash %s is of %q", entry, all)
		}
	}
	b.Must("profile", "delete", "alice")
	inTrash("alice-*", 40000)
	for range 2 {
		if out := b.Must("profile", "list", "--trash"); !strings.Contains(out, "alice-2") {
			t.Errorf("the trash: %s", out)
		}
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		b.Again()
		inTrash("alice-*", 40000)
	}

	// One of that name is another profile.
	b.Must("profile", "create", "alice")
	owned(b, "alice", 40001)
	if r := b.Run("run", "--profile", "alice", "--", "bash", "-c", "cat "+b.Home()+"/trash/alice-*/key"); r.Code == 0 {
		t.Errorf("the new alice reads the old one's: %s", r)
	}
	b.Must("profile", "restore", "alice", "--as", "bob")
	has("bob", 40000)
	b.Must("profile", "rename", "bob", "carl")
	has("carl", 40000)
	b.Must("profile", "delete", "carl")
	b.Must("profile", "restore", "carl")
	has("carl", 40000)

	b.Must("stop", "carl")
	b.Must("profile", "clone", "carl", "dora")
	has("dora", 40002)
	archive := "/dev/shm/dora.tar"
	if r := b.As(box.Root, "rlminit", "profile", "export", "dora", "-o", archive); r.Code != 0 {
		t.Fatalf("%s", r)
	}
	if r := b.As(box.Root, "rlminit", "profile", "import", archive, "--as", "erin"); r.Code != 0 {
		t.Fatalf("%s", r)
	}
	has("erin", 40003)
	b.Must("start", "carl")
	has("carl", 40000)

	// An apply deletes one, and its rollback has it back.
	path, hash := planned(b, "version: 1\nprofiles: {alice: {}, carl: {}, dora: {}}\n")
	exits(b, 9, "apply", path, "--approve", hash, "--allow-delete", "--steady", "0")
	inTrash("erin-revision-*", 40003)
	b.Must("rollback", "--steady", "0", "--exit-zero")
	has("erin", 40003)

	b.Must("profile", "delete", "erin", "--purge")
	b.Must("profile", "delete", "dora")
	kill(b, "KILL", b.Supervisor().PID)
	b.AwaitReady()
	b.Must("profile", "purge", "dora")
	if left := b.Shell(box.Root, "cd "+b.Home()+" && ls -A trash profiles"); left != "profiles:\nalice\ncarl\n\ntrash:\n" {
		t.Errorf("there is left\n%s", left)
	}
	b.Write(box.Service, b.Home()+"/canary", "canary")
	box.Eventually(b, long, "the spy looks", func() (bool, any) {
		out := b.Must("logs", "spy", "-n", "all")
		return strings.Contains(out, "sees canary"), out
	})
	if out := b.Must("logs", "spy", "-n", "all"); strings.Contains(out, "hush") {
		t.Errorf("the services' user has read\n%s", out)
	}
}

// OwnedTrashWithout: profiles in the trash keep their users when "user: auto" is taken away,
// and what is restored then is the services'; put back, all have their own again.
func OwnedTrashWithout(t *testing.T, start New) {
	with := ownUsers()
	b := start(t, box.Spec{Config: with})
	b.Must("profile", "create", "alice", "bob", "carl")
	if !separable(b) {
		return
	}
	file := strings.TrimSpace(b.Shell(box.Root, `echo "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`))
	configure := func(text string) {
		b.Helper()
		b.Write(box.Root, file, text)
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		b.Again()
	}
	uids := map[string]uint32{}
	for _, name := range []string{"alice", "bob", "carl"} {
		uids[name] = *b.Await("gateway-"+name, "running").UID
		b.Must("run", "--profile", name, "--", "bash", "-c", "umask 077; mkdir d; echo hush >d/key")
	}
	b.Must("profile", "delete", "alice", "bob")
	configure(strings.Replace(with, "  user: auto\n", "", 1))
	b.Must("profile", "purge", "bob")
	b.Must("profile", "restore", "alice")
	b.Must("profile", "delete", "carl")
	b.Await("gateway-alice", "running")
	if r := b.As(box.Service, "cat", b.Home()+"/profiles/alice/d/key"); r.Out != "hush\n" {
		t.Errorf("without users: %s", r)
	}
	b.Must("profile", "restore", "carl")
	b.Await("gateway-carl", "running")
	configure(with)
	for _, name := range []string{"alice", "carl"} {
		owned(b, name, uids[name])
	}
}
