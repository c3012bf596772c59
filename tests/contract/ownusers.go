package contract

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// ownUsers is Config with a user of each profile's own.
func ownUsers(more ...string) string {
	return strings.Replace(Config(more...), "gateway:\n", "gateway:\n  user: auto\n", 1)
}

// separable tells whether profiles can have users of their own in a box: where there
// is one uid for all, that is said, and they run as it.
func separable(b *box.Box) bool {
	b.Helper()
	if b.Supervisor().UID[0] != box.Service.UID {
		return true
	}
	if said := b.Printed(); !strings.Contains(said, "profiles have no user of their own") {
		b.Errorf("it is not said that profiles have no user of their own:\n%s", said)
	}
	for _, args := range [][]string{{"status"}, {"health", "--json"}, {"doctor"}} {
		if r := b.Run(args...); !strings.Contains(r.Out+r.Err, "user: auto is not in force") {
			b.Errorf("%s says nothing of it: %s", args[0], r)
		}
	}
	return false
}

// owned checks whose a running gateway's process and its directory are, all of it,
// and that status tells.
func owned(b *box.Box, name string, uid uint32) control.Service {
	b.Helper()
	s := b.Await("gateway-"+name, "running")
	if s.UID == nil || *s.UID != uid {
		b.Errorf("%s: %s; want uid %d", name, box.Describe(s), uid)
	}
	id := int(uid)
	for _, p := range b.Processes() {
		if p.PID == *s.PID && (p.UID != [4]int{id, id, id, id} || p.GID != [4]int{id, id, id, id}) {
			b.Errorf("%s is uid %v, gid %v; want %d", name, p.UID, p.GID, id)
		}
	}
	dir := b.Home() + "/profiles/" + name
	if others := b.Shell(box.Root, fmt.Sprintf(`find "%s" -ignore_readdir_race ! -name '.rlminit-*.tmp' '(' ! -user %d -o ! -group %d ')'; find "%s" -maxdepth 0 -perm /007`, dir, id, id, dir)); others != "" {
		b.Errorf("not all of %s is %d's: %s", name, id, others)
	}
	return s
}

// ProfilesHaveUsers: each profile has a uid of its own, from its first start on, over
// restarts, kills of either tier and of the container; its files are that user's and
// nobody else gets there; and it is never another profile's.
func ProfilesHaveUsers(t *testing.T, start New) {
	b := start(t, box.Spec{Config: ownUsers()})
	b.Must("profile", "create", "alice", "--env", "A=1")
	if !separable(b) {
		b.Await("gateway-alice", "running")
		return
	}
	const first = 40000
	owned(b, "alice", first)
	b.Must("profile", "create", "bob")
	bob := owned(b, "bob", first+1)
	if out := b.Must("profile", "show", "bob"); !strings.Contains(out, "uid:      40001\n") {
		t.Errorf("profile show: %s", out)
	}
	if out := b.Must("run", "--profile", "bob", "--", "id", "-u"); out != "40001\n" {
		t.Errorf("a job of bob's is uid %q", out)
	}
	if r := b.As(box.Root, "rlminit", "exec", "--profile", "bob", "--", "bash", "-c", `id -u; pwd; echo "$HOME"`); r.Code != 0 || r.Out != strings.ReplaceAll("40001\nDIR\nDIR\n", "DIR", b.Home()+"/profiles/bob") {
		t.Errorf("root's exec: %s", r)
	}
	b.Fails(5, "only root can become that; rlminit run --profile bob runs a job as it", "exec", "--profile", "bob", "--", "id")
	for _, path := range []string{"", "/profile.yaml", "/gateway_state.json"} {
		if r := b.Run("run", "--profile", "bob", "--", "cat", b.Home()+"/profiles/alice"+path); r.Code == 0 {
			t.Errorf("bob reads alice's %q: %s", path, r)
		}
	}
	if r := b.Run("run", "--profile", "bob", "--", "ls", b.Home()+"/profiles"); r.Code == 0 {
		t.Errorf("bob lists the profiles: %s", r)
	}

	b.Must("restart", "bob")
	b.Must("profile", "set", "bob", "B=2", "--restart")
	owned(b, "bob", first+1)
	old := b.Supervisor()
	kill(b, "KILL", old.PID)
	replaced(b, old.PID)
	bob = owned(b, "bob", first+1)
	b.Shell(box.Root, fmt.Sprintf("kill -9 %d", *bob.PID))
	restarted(b, "gateway-bob", *bob.PID)
	owned(b, "bob", first+1)
	for _, ends := range []func() error{b.Stop, func() error { return b.Signal(9) }} {
		if err := ends(); err != nil {
			t.Fatal(err)
		}
		b.Again()
		owned(b, "alice", first)
		owned(b, "bob", first+1)
	}

	// What a host's chown has given away is put right; not what is another's.
	b.Must("stop", "alice", "bob")
	b.Shell(box.Root, fmt.Sprintf("chown -R 1000:1000 %s/profiles/*", b.Home()))
	b.Must("start", "alice", "bob")
	owned(b, "alice", first)
	owned(b, "bob", first+1)
	b.Must("stop", "bob")
	b.Shell(box.Root, fmt.Sprintf("chown -R %d:%d %s/profiles/bob", first, first, b.Home()))
	b.Run("start", "bob")
	s := b.AwaitThat("gateway-bob", "does not run", func(s control.Service) bool { return s.Reason != nil && s.State != "running" })
	if !strings.Contains(*s.Reason, "which is that of profile alice") {
		t.Errorf("bob: %s", box.Describe(s))
	}
	b.Shell(box.Root, fmt.Sprintf("chown -R 1000:1000 %s/profiles/bob", b.Home()))
	b.Must("start", "bob")
	owned(b, "bob", first+1)
}

// OwnedProfilesMove: a profile with a user of its own is renamed, cloned, deleted,
// restored, purged, exported and imported as any other; its user goes with it, and a
// copy has another.
func OwnedProfilesMove(t *testing.T, start New) {
	b := start(t, box.Spec{Config: ownUsers()})
	b.Must("profile", "create", "alice")
	if !separable(b) {
		return
	}
	b.Await("gateway-alice", "running")
	const first = 40000
	b.Must("run", "--profile", "alice", "--", "bash", "-c", `umask 077; mkdir -p d/e; echo hello >d/e/note; ln d/e/note linked`)
	note := func(name string) {
		b.Helper()
		if out := b.Must("file", "read", "--profile", name, "d/e/note"); out != "hello\n" {
			b.Errorf("the note of %s: %q", name, out)
		}
	}
	b.Must("profile", "rename", "alice", "dora")
	owned(b, "dora", first)
	note("dora")
	b.Must("profile", "create", "alice")
	owned(b, "alice", first+1)

	b.Must("profile", "clone", "dora", "erin")
	owned(b, "erin", first+2)
	note("erin")
	owned(b, "dora", first)

	b.Must("profile", "delete", "dora")
	if whose := b.Shell(box.Root, `stat -c %u `+b.Home()+`/trash/dora-*`); whose != "40000\n" {
		t.Errorf("in the trash it is %q's", whose)
	}
	b.Must("profile", "restore", "dora")
	s := b.Await("gateway-dora", "running")
	if *s.UID != first {
		t.Errorf("restored: %s", box.Describe(s))
	}
	b.Must("profile", "delete", "erin")
	b.Must("profile", "restore", "erin", "--as", "frank")
	b.Await("gateway-frank", "running")
	b.Must("profile", "delete", "alice", "--purge")
	if left := b.Shell(box.Root, "ls -A "+b.Home()+"/profiles"); left != "dora\nfrank\n" {
		t.Errorf("after the purge: %q", left)
	}
	b.Must("profile", "create", "alice")
	owned(b, "alice", first+1)

	if r, err := b.Exec(box.Service, strings.NewReader("x"), []string{"rlminit", "file", "write", "--profile", "alice", "written"}); err != nil || r.Code != 0 {
		t.Errorf("file write: %v, %s", err, r)
	}
	if out := b.Must("file", "read", "--profile", "alice", "written"); out != "x" {
		t.Errorf("written: %q", out)
	}
	// Whose files they are is in order: nobody is told to change that.
	if r := b.As(box.Service, "rlminit", "profile", "export", "alice", "-o", "/dev/shm/alice.tar"); r.Code != 5 || !strings.Contains(r.Err, fmt.Sprintf("it belongs to uid %d, the user of profile alice, and only root can read it", first+1)) || strings.Contains(r.Err, "chown") {
		t.Errorf("exported by the services' user: %s", r)
	}
	// An operator's mv on the host takes the user along.
	b.Must("stop", "alice")
	b.Shell(box.Root, "cd "+b.Home()+"/profiles && mv alice moved")
	b.Must("reload")
	b.Must("start", "moved")
	owned(b, "moved", first+1)
}

// ProfileUsersRunOut: a profile for which no uid is left is refused, with the reason,
// and nothing else is.
func ProfileUsersRunOut(t *testing.T, start New) {
	b := start(t, box.Spec{Config: ownUsers("profile_users: 41000-41001\n")})
	b.Must("profile", "create", "alice")
	b.Must("profile", "create", "bob")
	if !separable(b) {
		return
	}
	b.Run("profile", "create", "carol")
	s := b.AwaitThat("gateway-carol", "says why", func(s control.Service) bool { return s.Reason != nil })
	if !strings.Contains(*s.Reason, "profile carol has no user: every id of 41000-41001 belongs, or belonged, to another profile; widen profile_users") {
		t.Errorf("carol: %s", box.Describe(s))
	}
	owned(b, "alice", 41000)
	owned(b, "bob", 41001)
	b.Must("profile", "delete", "alice", "--purge")
	if r := b.Run("start", "carol", "--timeout", "5s"); r.Code == 0 {
		t.Errorf("carol has the uid of one that was: %s", r)
	}
	b.Must("restart", "bob")
}

// HostileProfile: the gateway of a profile that has turned against the others, at no
// isolation at all, gets at nothing of another profile's whose user is its own:
// neither process nor files, nor slot, log and notify socket.
func HostileProfile(t *testing.T, start New) {
	b := start(t, box.Spec{Config: `version: 1
user: "1000:1000"
gateway:
  user: auto
  ready: {notify: true, timeout: 20s}
  command: [bash, -c, '[ "$PROFILE" = mallory ] || exec nasty hoard 0; nasty hoard 0 & until [ -e "$PROFILE_DIR/attack" ]; do sleep 0.05; done; . "$PROFILE_DIR/attack"; exec sleep infinity']
`})
	b.Must("profile", "create", "victim")
	if !separable(b) {
		return
	}
	b.Must("profile", "create", "mallory")
	victim := b.Await("gateway-victim", "running")
	mallory := b.Await("gateway-mallory", "running")
	if uidOf(b, *victim.PID) == uidOf(b, *mallory.PID) {
		t.Fatal("both are one user")
	}
	script := fmt.Sprintf("hostile %d %d gateway-victim; echo through\n", b.Supervisor().PID, *victim.PID)
	if r, err := b.Exec(box.Service, strings.NewReader(script), []string{"rlminit", "file", "write", "--profile", "mallory", "attack"}); err != nil || r.Code != 0 {
		t.Fatalf("%v, %s", err, r)
	}
	box.Eventually(b, 2*long, "the attack is over", func() (bool, any) {
		out := b.Must("logs", "mallory", "-n", "all")
		return strings.Contains(out, "out through"), out
	})
	kinds := judge(t, b.Must("logs", "mallory", "-n", "all"), func(string) bool { return true })
	if kinds < 10 {
		t.Errorf("only %d kinds of attempts were made", kinds)
	}
	unharmed(b, map[string]int{"gateway-victim": *victim.PID})
}

// ManyOwnedProfiles: many profiles get their users at the same time, and all of them
// run again after a start of the container, though there are few processes for their
// files.
func ManyOwnedProfiles(t *testing.T, start New) {
	const many = 24
	b := start(t, box.Spec{Config: `version: 1
user: "1000:1000"
gateway: {user: auto, command: [sleep, infinity]}
`})
	create, names := []string{"profile", "create"}, []string{}
	for i := range many {
		names = append(names, fmt.Sprintf("p%d", i))
	}
	b.Must(append(create, names...)...)
	for range 2 {
		uids := map[uint32]string{}
		for _, name := range names {
			s := b.Await("gateway-"+name, "running")
			if s.UID == nil {
				return // they can have none here
			}
			if other, taken := uids[*s.UID]; taken {
				t.Errorf("%s and %s are both %d", name, other, *s.UID)
			}
			uids[*s.UID] = name
		}
		b.Must(append([]string{"restart"}, names...)...)
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		b.Again()
	}
}
