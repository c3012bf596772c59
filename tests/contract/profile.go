package contract

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/tests/box"
)

// ProfileMoves: a profile that runs is renamed with its port and its log, cloned,
// deleted and had back; a name that is taken stops nothing.
func ProfileMoves(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	b.Must("profile", "create", "bob", "carol", "--stopped")
	b.Fails(17, "exists already; choose another name", "profile", "rename", "alice", "bob")
	if now := b.Status()["gateway-alice"]; *now.PID != *s.PID {
		t.Error("a rename that is refused restarted the gateway")
	}
	b.Must("profile", "rename", "alice", "dora")
	now := b.Await("gateway-dora", "running")
	if _, there := b.Status()["gateway-alice"]; there || *now.Port != *s.Port {
		t.Errorf("renamed as %s", box.Describe(now))
	}
	if log := b.Must("logs", "dora"); !strings.Contains(log, "gateway alice") {
		t.Errorf("the log did not follow: %q", log)
	}
	b.Fails(4, "alice", "profile", "rename", "alice", "erin")

	b.Shell(box.Service, "echo hello >"+b.Home()+"/profiles/dora/note")
	b.Must("profile", "clone", "dora", "erin")
	if text := b.Shell(box.Service, "cat "+b.Home()+"/profiles/erin/note"); !strings.Contains(text, "hello") {
		t.Errorf("cloned: %q", text)
	}
	if clone := b.Await("gateway-erin", "running"); *clone.Port == *s.Port {
		t.Error("two have one port")
	}
	b.Must("profile", "delete", "dora", "bob", "carol")
	b.Must("profile", "restore", "dora")
	if back := b.Await("gateway-dora", "running"); *back.Port != *s.Port {
		t.Errorf("restored as %s", box.Describe(back))
	}
	b.Must("profile", "restore", "bob", "--as", "bobby")
	if back := b.Status()["gateway-bobby"]; back.State != "stopped" || back.Desired != "stopped" {
		t.Errorf("restored as %s", box.Describe(back))
	}
	b.Fails(4, "trash", "profile", "restore", "nobody")
}

// AnotherOfTheName: a profile that gets the name of one that was renamed meanwhile is
// not taken for it: not by an edit, nor by who follows the log.
func AnotherOfTheName(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	b.Shell(box.Service, "rlminit logs -f -n all alice >"+b.Home()+"/followed 2>&1 </dev/null & echo $!")
	followed := func() string { return b.Shell(box.Service, "cat "+b.Home()+"/followed") }
	box.Eventually(b, long, "the log is followed", func() (bool, any) {
		text := followed()
		return strings.Contains(text, "gateway alice"), text
	})

	editor := b.Home() + "/editor"
	b.Shell(box.Service, "cat >"+editor+` <<'END'
#!/bin/sh
rlminit profile rename alice zoe && rlminit profile create alice >&2
echo 'environment: {MINE: "1"}' >"$1"
END
chmod +x `+editor)
	r := b.As(box.Service, "sh", "-c", "EDITOR="+editor+" rlminit profile edit --restart alice")
	if r.Code != 17 || !strings.Contains(r.Err, "alice is another profile by now") || !strings.Contains(r.Err, "your text is kept in ") {
		t.Errorf("edited: %s", r)
	}
	for _, name := range []string{"alice", "zoe"} {
		if text := b.Must("profile", "show", name); strings.Contains(text, "MINE") {
			t.Errorf("%s has the text: %s", name, text)
		}
	}

	zoe := b.Await("gateway-zoe", "running")
	b.Must("restart", "zoe", "alice")
	alice := b.Await("gateway-alice", "running")
	box.Eventually(b, long, "the log of the new one is followed", func() (bool, any) {
		text := followed()
		return strings.Contains(text, fmt.Sprintf("--- starting pid %d", *alice.PID)) || strings.Count(text, "--- starting") >= 3, text
	})
	text := followed()
	if strings.Contains(text, "gateway zoe") || strings.Contains(text, fmt.Sprint("pid ", *zoe.PID)) {
		t.Errorf("it has lines of zoe: %s", text)
	}
	if !strings.Contains(text, " --- profile renamed to zoe\n") {
		t.Errorf("it does not say whose lines follow: %s", text)
	}
	if log := b.Must("logs", "zoe"); !strings.Contains(log, "gateway alice") || !strings.Contains(log, "gateway zoe") {
		t.Errorf("the log did not follow: %q", log)
	}
	if events := b.Must("events"); !strings.Contains(events, "profile renamed to zoe") || strings.Contains(events, "profile deleted") {
		t.Errorf("the events are %s", events)
	}
}

// ProfileLifecycle: create starts a gateway, delete removes it and keeps the
// directory in the trash, --purge keeps nothing.
func ProfileLifecycle(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	if s.Profile == nil || *s.Profile != "alice" || s.Port == nil || *s.Port < 9200 || *s.Port > 9799 {
		t.Fatalf("created as %s", box.Describe(s))
	}
	if answer := b.Call(*s.Port, "/chat", "hello"); !strings.Contains(answer, `"profile":"alice"`) {
		t.Errorf("the gateway answered %s", answer)
	}
	b.Fails(17, "alice", "profile", "create", "alice")
	b.Must("profile", "create", "alice", "--exist-ok")
	if now := b.Status()["gateway-alice"]; *now.PID != *s.PID {
		t.Error("create --exist-ok restarted the gateway")
	}

	b.Must("profile", "create", "carol", "--stopped")
	if c := b.Status()["gateway-carol"]; c.State != "stopped" || c.Desired != "stopped" {
		t.Errorf("create --stopped: %s", box.Describe(c))
	}
	var list []control.Profile
	if err := json.Unmarshal([]byte(b.Must("profile", "list", "--json")), &list); err != nil || len(list) != 2 {
		t.Errorf("profile list: %v %+v", err, list)
	}
	b.Must("profile", "show", "alice")
	b.Must("profile", "set", "gateway-carol", "A=b", "--restart")
	if out := b.Must("profile", "show", "gateway-carol"); !strings.Contains(out, "name:     carol\n") || !strings.Contains(out, "A=b") {
		t.Errorf("by the name of its service: %s", out)
	}
	b.Fails(2, "names that begin with gateway- are those of services", "profile", "create", "gateway-bob")

	b.Must("profile", "delete", "alice")
	if _, there := b.Status()["gateway-alice"]; there {
		t.Error("a deleted profile is still listed")
	}
	b.Fails(4, "alice", "status", "alice")
	if kept := b.Shell(box.Service, "ls "+b.Home()+"/trash"); !strings.Contains(kept, "alice") {
		t.Errorf("the trash holds %q", kept)
	}
	b.Must("profile", "delete", "gateway-carol", "--purge")
	if kept := b.Shell(box.Service, "ls "+b.Home()+"/trash "+b.Home()+"/profiles"); strings.Contains(kept, "carol") {
		t.Errorf("after --purge: %q", kept)
	}
	b.Fails(4, "alice", "profile", "delete", "alice")
	b.Must("profile", "create", "alice")
	b.Await("gateway-alice", "running")
}

// PurgeEmptiesTheTrash: what was deleted goes for good by entry, name, pattern and age, is
// recorded, and cannot be had back; a name that fits nothing removes nothing; what a
// rollback takes is left, and if it goes all the same, that rollback is refused.
func PurgeEmptiesTheTrash(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	trash := func() (entries []string) {
		return strings.Fields(b.Shell(box.Service, "ls "+b.Home()+"/trash"))
	}
	b.Must("profile", "create", "bob", "carol", "dora", "zed", "--stopped")
	b.Must("profile", "delete", "bob", "carol", "dora")
	b.Must("profile", "create", "carol", "--stopped")
	b.Must("profile", "delete", "carol")
	path, hash := planned(b, "version: 1\nprofiles: {alice: {}}\n")
	exits(b, 9, "apply", path, "--approve", hash, "--allow-delete", "--steady", "0")
	all := trash()
	if len(all) != 5 {
		t.Fatalf("the trash holds %q", all)
	}
	b.Fails(2, "--older-than AGE is missing", "profile", "purge")
	b.Fails(4, "did you mean", "profile", "purge", "bob", "carl")
	b.Fails(4, "is not in the trash", "profile", "purge", "../profiles/alice", "*")
	if out := b.Must("profile", "purge", "bob", "--older-than", "1d"); out != "nothing in the trash is that old\n" {
		t.Errorf("of a day ago: %s", out)
	}
	if out := b.Must("profile", "purge", "--older-than", "0", "--dry-run"); strings.Count(out, ": would be removed\n") != 4 {
		t.Errorf("it would: %s", out)
	}
	b.Fails(17, "zed-revision-1 is left for a rollback of revision 1", "profile", "purge", "zed")
	if now := trash(); !slices.Equal(now, all) {
		t.Errorf("what is refused has removed something: %q, %q", now, all)
	}
	var one control.Trashed
	if out := b.Must("profile", "purge", all[0], "--json"); json.Unmarshal([]byte(out), &one) != nil || one.Entry != all[0] || one.Profile != "bob" {
		t.Errorf("by entry: %s", out)
	}
	b.Fails(4, "is not in the trash", "profile", "restore", "bob")
	if r := exits(b, 0, "profile", "purge", "carol", "[dz]*"); strings.Count(r.Out, ": removed\n") != 3 || !strings.Contains(r.Err, "zed-revision-1 is left") {
		t.Errorf("by name and pattern: %s", r)
	}
	if now := trash(); len(now) != 1 || now[0] != "zed-revision-1" {
		t.Errorf("the trash holds %q", now)
	}
	b.Must("profile", "purge", "zed", "--needed")
	b.Fails(17, "no longer in the trash as zed-revision-1", "rollback", "--steady", "0")
	if out := b.Must("events", "--type", "profile_purged", "--json"); strings.Count(out, `"actor":{"uid":`) != 5 || !strings.Contains(out, `"profile":"zed","trash":"zed-revision-1"`) {
		t.Errorf("recorded is\n%s", out)
	}
	if left := b.Shell(box.Service, "ls -A "+b.Home()+"/trash "+b.Home()+"/profiles | grep -c '^[.]rlminit-' || true"); left != "0\n" {
		t.Errorf("left: %s", left)
	}
	b.Await("gateway-alice", "running")
}

// PurgeLeavesNothing: delete keeps a profile's files and its log, --purge
// neither; it touches no other's, and nothing that a link leads to.
func PurgeLeavesNothing(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	logs := b.Home() + "/logs/gateways"
	there := func() string { return b.Shell(box.Service, `ls -A "`+logs+`"`) }
	b.Must("profile", "delete", "alice")
	if !strings.Contains(there(), "alice") {
		t.Error("delete took the log away")
	}
	b.Must("profile", "create", "alice")
	b.Must("profile", "create", "bob")
	b.Must("profile", "delete", "alice", "--purge")
	if left := there(); left != "bob\n" {
		t.Errorf("after --purge the logs are %q", left)
	}
	elsewhere := strings.TrimSpace(b.Shell(box.Service, `mktemp -dp /var/tmp`))
	b.Must("stop", "bob")
	b.Shell(box.Service, `echo precious >`+elsewhere+`/current`)
	b.Shell(box.Root, `rm -r "`+logs+`/bob"; ln -s `+elsewhere+` "`+logs+`/bob"`)
	b.Must("profile", "delete", "bob", "--purge")
	if left := there(); left != "" {
		t.Errorf("after --purge the logs are %q", left)
	}
	if text := b.Shell(box.Service, `cat `+elsewhere+`/current; rm -r `+elsewhere); text != "precious\n" {
		t.Errorf("what a link led to holds %q", text)
	}
	b.Shell(box.Root, `mv "`+logs+`" "`+b.Home()+`/elsewhere"; ln -s "`+b.Home()+`/elsewhere" "`+logs+`"`)
	b.Must("profile", "create", "carol")
	b.Shell(box.Root, `mkdir "`+logs+`/carol"`)
	if r := b.Run("profile", "delete", "carol", "--purge"); r.Code != 0 || !strings.Contains(r.Err, "rm -r "+logs+"/carol") {
		t.Errorf("with the logs elsewhere: %s", r)
	}
	if left := there(); left != "carol\n" {
		t.Errorf("behind the link is %q", left)
	}
	b.Must("profile", "create", "carol") // it was deleted
	b.Shell(box.Root, `rmdir "`+logs+`/carol"`)
	if r := b.Run("profile", "delete", "carol", "--purge"); r.Code != 0 || r.Err != "" {
		t.Errorf("with nothing elsewhere: %s", r)
	}
}

// ProfileEnvironment: a gateway sees its profile, its user and what was set,
// and nothing of the service manager's own.
func ProfileEnvironment(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config("environment: {GLOBAL: all}\n"), Env: []string{
		"OUTER=seen", "NOTIFY_SOCKET=@nobody-listens", "LISTEN_PID=1", "LISTEN_FDS=1", "WATCHDOG_USEC=1000000", "RLMINIT_SECRET=x",
	}})
	b.Must("profile", "create", "alice", "--env", "TOKEN=abc=def")
	s := b.Await("gateway-alice", "running")
	home := b.Home() + "/profiles/alice"
	environment := map[string]string{}
	var self struct{ Environment []string }
	if err := json.Unmarshal([]byte(b.Call(*s.Port, "/self")), &self); err != nil {
		t.Fatal(err)
	}
	for _, kv := range self.Environment {
		k, v, _ := strings.Cut(kv, "=")
		if _, twice := environment[k]; twice {
			t.Errorf("%s is there twice", k)
		}
		environment[k] = v
	}
	for k, want := range map[string]string{
		"TOKEN": "abc=def", "GLOBAL": "all", "OUTER": "seen", "PROFILE": "alice", "PROFILE_DIR": home, "PORT": fmt.Sprint(*s.Port),
	} {
		if got, there := environment[k]; !there || got != want {
			t.Errorf("%s=%q, want %q", k, got, want)
		}
	}
	for _, k := range []string{"HOME", "USER", "LOGNAME", "NOTIFY_SOCKET"} {
		if environment[k] == "" {
			t.Errorf("%s is not set", k)
		}
	}
	if environment["NOTIFY_SOCKET"] == "@nobody-listens" {
		t.Error("the container's NOTIFY_SOCKET passed")
	}
	for _, k := range []string{"LISTEN_PID", "LISTEN_FDS", "WATCHDOG_USEC", "RLMINIT_SECRET", "RLMINIT_CONFIG", "GOTRACEBACK"} {
		if v, there := environment[k]; there {
			t.Errorf("%s=%s passed", k, v)
		}
	}
	b.Must("profile", "set", "alice", "--env", "TOKEN=new", "--restart")
	s = restarted(b, "gateway-alice", *s.PID)
	if now := b.Call(*s.Port, "/self"); !strings.Contains(now, "TOKEN=new") {
		t.Error("profile set was not taken up")
	}
	if environment["RLMINIT_HOME"] != b.Home() {
		t.Errorf("RLMINIT_HOME=%s, the volume is %s", environment["RLMINIT_HOME"], b.Home())
	}
	for _, refused := range []string{"PROFILE=bob", "1FOO=2", `K=$(printf 'a\377')`} {
		if r := b.As(box.Service, "bash", "-c", `rlminit profile set alice "`+refused+`"`); r.Code != 2 {
			t.Errorf("profile set %s: %s", refused, r)
		}
	}
}

// ProfileSetIsWaitedFor: a gateway that does not come up with what was set is said
// so, as when a profile is created.
func ProfileSetIsWaitedFor(t *testing.T, start New) {
	b := start(t, box.Spec{Config: `version: 1
user: "1000:1000"
gateway:
  ` + bash(`[ -z "$BOOM" ] || { echo went boom; exit 78; }; exec gateway --profile "$$PROFILE" --port "$$PORT"`) + `
  ready: {notify: true}
`})
	b.Must("profile", "create", "alice")
	b.Must("profile", "set", "alice", "CALM=1", "--restart")
	b.Fails(1, "went boom", "profile", "set", "alice", "BOOM=1", "--restart")
	b.Must("profile", "set", "alice", "--unset", "BOOM", "--restart")
	b.Fails(1, "went boom", "profile", "create", "bob", "--env", "BOOM=1")
}

// BriefGatewaysAreSaid: one that says nothing of its readiness, and ends as soon as it
// was started, is not said to run.
func BriefGatewaysAreSaid(t *testing.T, start New) {
	b := start(t, box.Spec{Config: `version: 1
user: "1000:1000"
gateway:
  ` + bash(`[ -z "$BOOM" ] || { echo went boom; exit 3; }; exec sleep 1000000`) + `
`})
	b.Must("profile", "create", "alice")
	b.Await("gateway-alice", "running")
	// A machine that is busy may take longer to come to the end of it.
	says := func(name string, args ...string) {
		t.Helper()
		ended := name + ` ended as soon as it was started: exit 3, "went boom"; it is started again`
		var last box.Result
		for i := range 5 {
			last = b.As(box.Service, append(append([]string{"rlminit"}, args...), fmt.Sprint("BOOM=", i+1))...)
			if last.Code == 1 && strings.Contains(last.Err, ended) {
				return
			}
			b.As(box.Service, "rlminit", "profile", "delete", "bob")
		}
		t.Errorf("%q: %s", args, last)
	}
	says("alice", "profile", "set", "--restart", "alice")
	b.Must("profile", "set", "alice", "--unset", "BOOM", "--restart")
	b.Await("gateway-alice", "running")
	says("bob", "profile", "create", "bob", "--env")
	b.Must("profile", "set", "bob", "BOOM=", "--restart")
	b.Await("gateway-bob", "running")
}

// CreateIsExclusive: of many creates of one name at once, one succeeds and the
// others say that it exists.
func CreateIsExclusive(t *testing.T, start New) {
	const callers = 16
	b := start(t, box.Spec{Config: Config()})
	var all sync.WaitGroup
	var codes [callers]int
	for i := range callers {
		all.Go(func() {
			r, err := b.Exec(box.Service, nil, []string{"rlminit", "profile", "create", "alice"})
			if err != nil {
				t.Error(err)
			}
			codes[i] = r.Code
		})
	}
	all.Wait()
	count := map[int]int{}
	for _, c := range codes {
		count[c]++
	}
	if count[0] != 1 || count[17] != callers-1 {
		t.Errorf("exit codes %v: want one 0, %d times 17", count, callers-1)
	}
	b.Await("gateway-alice", "running")
	if n := len(b.Status()); n != 1 {
		t.Errorf("%d services", n)
	}
}

// ProfileAppears: a directory that someone copies onto the volume becomes a
// profile without a restart, stopped unless it says otherwise; create
// --exist-ok adopts it.
func ProfileAppears(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Shell(box.Service, `mkdir -p "`+b.Home()+`/profiles/.new" && cd "`+b.Home()+`/profiles" && echo 'environment: {MOOD: calm}' >.new/profile.yaml && mv .new dave`)
	b.Await("gateway-dave", "stopped")
	b.Must("profile", "create", "dave", "--exist-ok")
	b.Must("start", "dave")
	s := b.Await("gateway-dave", "running")
	if self := b.Call(*s.Port, "/self"); !strings.Contains(self, "MOOD=calm") {
		t.Error("the found profile's environment is not used")
	}
}

// PortsAreStable: a profile's port comes from its name, is its own, and stays.
func PortsAreStable(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	seen := map[int]string{}
	for i := range 12 {
		name := fmt.Sprintf("p%d", i)
		b.Must("profile", "create", name, "--stopped")
	}
	before := b.Status()
	for name, s := range before {
		if s.Port == nil {
			t.Fatalf("%s has no port", name)
		}
		if other, taken := seen[*s.Port]; taken {
			t.Errorf("%s and %s share port %d", name, other, *s.Port)
		}
		seen[*s.Port] = name
	}
	// 9200 + 0x2bd806c9 mod 600, the first 8 hex digits of SHA-256("alice").
	b.Must("profile", "create", "alice", "--stopped")
	const alices = 9200 + 0x2bd806c9%600
	if s := b.Status()["gateway-alice"]; seen[alices] == "" && *s.Port != alices {
		t.Errorf("alice's port is %d, want %d", *s.Port, alices)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	for name, s := range b.Status() {
		if old, there := before[name]; there && *old.Port != *s.Port {
			t.Errorf("%s had port %d, has %d", name, *old.Port, *s.Port)
		}
	}
}

// FilesAreTheServiceUsers: what is a profile's belongs to the service user; what
// rlminit keeps belongs to the supervisor, and of it the service user may read the
// logs. Nobody else may read or change either.
func FilesAreTheServiceUsers(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	home := b.Home()
	user := strings.TrimSpace(b.Shell(box.Service, `echo "$(id -u):$(id -g)"`))
	_, group, _ := strings.Cut(user, ":")
	supervisor := fmt.Sprint(b.Supervisor().UID[0])
	logs, keeps := supervisor+":"+group, supervisor+":"+supervisor
	setgid := "2"
	if strings.HasPrefix(user, supervisor+":") { // one uid for all
		keeps, setgid = user, ""
	} else if got := strings.TrimSpace(b.Shell(box.Root, `stat -c '%u:%g %a' "`+home+`"`)); got != "0:"+group+" 1775" {
		t.Errorf("the volume is %s", got)
	} else if r := b.As(box.Service, "rlminit", "journal", "verify", home); r.Code != 1 || !strings.Contains(r.Err, "try again as root") {
		t.Errorf("to verify the journal as the services' user: %s", r)
	}
	for file, want := range map[string]string{
		"profiles":                    user + " 750",
		"profiles/alice":              user + " 750",
		"profiles/alice/profile.yaml": user + " 600",
		"logs/gateways/alice":         logs + " " + setgid + "750",
		"logs/gateways/alice/current": logs + " 640",
		".rlminit":                    keeps + " 700",
		".rlminit/journal":            keeps + " 700",
		".rlminit.lock":               logs + " 640",
	} {
		got := strings.TrimSpace(b.Shell(box.Root, `stat -c '%u:%g %a' "`+path.Join(home, file)+`"`))
		if got != want {
			t.Errorf("%s is %s, want %s", file, got, want)
		}
	}
}

// ProfilesInQuickSuccession: a profile that follows at once on one that was
// deleted, of the same name or of another, has a slot and a tag of its own.
func ProfilesInQuickSuccession(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	last := "alice"
	for i := range 8 {
		next := last
		if i%2 == 1 {
			next = fmt.Sprintf("agent-%d", i)
		}
		b.Must("profile", "delete", last, "--purge")
		b.Must("profile", "create", next)
		if s := b.Status()["gateway-"+next]; s.State != "running" {
			t.Fatalf("round %d: %s after %s: %s", i, next, last, box.Describe(s))
		}
		last = next
	}
	b.Must("restart", last)
}

// ProfilesCannotBeRead: where the profiles cannot be read at boot, that is said,
// and not called ready; what else there is runs. Once they can be read they run,
// without a word from anybody.
func ProfilesCannotBeRead(t *testing.T, start New) {
	b, _ := alice(t, start, Services("web: {command: [nasty, sleep]}"))
	dir := b.Home() + "/profiles"
	b.Shell(box.Service, "chmod 0 "+dir)
	if err := b.Signal(int(unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.Await("web", "running")
	b.Fails(1, "profiles", "health", "--level", "ready")
	b.Fails(1, "cannot tell whether there is a \"alice\": cannot list the profiles", "start", "alice")
	if printed := b.Printed(); !strings.Contains(printed, "the profiles cannot be read; that is tried again until they can") {
		t.Errorf("nothing is said of the profiles: %s", printed)
	}
	b.Shell(box.Service, "chmod 0750 "+dir)
	b.Await("gateway-alice", "running")
	b.Must("health", "--level", "ready")
}

// ProfileIsAdopted: what a profile's state file says counts when somebody takes it
// on purpose, and then over a restart; else the journal does. The file is a copy: the
// next change of state is written over what somebody has put there.
func ProfileIsAdopted(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	file := b.Home() + "/profiles/alice/gateway_state.json"
	seen := func(state string) { // what was seen last is written, and nothing follows
		t.Helper()
		box.Eventually(b, long, "it is recorded as "+state, func() (bool, any) {
			s, pid := b.Status()["gateway-alice"], `"pid":0,`
			if s.State != state {
				return false, box.Describe(s)
			}
			if s.PID != nil && state == "running" {
				pid = fmt.Sprintf(`"pid":%d,`, *s.PID)
			}
			text := b.Shell(box.Service, "cat "+file)
			return strings.Contains(text, `"gateway_state":"`+state+`",`+pid), text
		})
	}
	says := func(state string) {
		b.Write(box.Service, file, `{"version":1,"profile":"alice","desired_state":"`+state+`"}`)
	}
	seen("running")
	says("stopped")
	if s := b.Status()["gateway-alice"]; s.State != "running" || s.Desired != "running" {
		t.Errorf("without a word: %s", box.Describe(s))
	}
	b.Must("signal", "KILL", "alice")
	seen("running") // which is written over it
	for range 5 {
		says("stopped")
		if out := b.Must("profile", "adopt", "alice"); !strings.Contains(out, "stopped") {
			t.Fatalf("the file said stopped; adopt says %q, and the file %s", out, b.Shell(box.Service, "cat "+file))
		}
		seen("stopped")
		says("running")
		b.Must("profile", "adopt", "alice")
		seen("running")
	}
	if out := b.Must("events", "--type", "profile_adopted", "--json"); strings.Count(out, `"profile":"alice","desired":"stopped","actor":{"uid":`) != 5 {
		t.Errorf("the journal has %q", out)
	}
	says("stopped")
	b.Must("profile", "adopt", "alice")
	b.Await("gateway-alice", "stopped")
	if err := b.Signal(int(unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	b.Again()
	if s := b.Await("gateway-alice", "stopped"); s.Desired != "stopped" {
		t.Errorf("after a restart: %s", box.Describe(s))
	}
	seen("stopped")
	says("running")
	b.Must("profile", "adopt", "alice")
	if s := b.Await("gateway-alice", "running"); s.Desired != "running" {
		t.Errorf("what the file says was not taken: %s", box.Describe(s))
	}
	seen("running")
	b.Shell(box.Service, "echo nonsense >"+file)
	b.Fails(17, "cannot be adopted", "profile", "adopt", "alice")
	b.Must("stop", "alice") // which is written over it
	seen("stopped")
	b.Shell(box.Service, "rm -f "+file)
	b.Fails(17, "has no state file", "profile", "adopt", "alice")
	b.Fails(4, "alise", "profile", "adopt", "alise")
}

// PortIsTaken: a port that another process listens on is named with who has it, before the
// gateway is tried, which runs when it is free again; one that cannot be had is refused
// before anything is made.
func PortIsTaken(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`squat: {command: [gateway, --profile, squat, --port, "9300"], ready: {notify: true}}`,
		`web: {`+bash(`exec sleep infinity`)+`, sockets: [{listen: "tcp:127.0.0.1:9400"}]}`,
	)})
	squat := b.Await("squat", "running")
	if r := b.Run("profile", "create", "zed", "--port", "9300"); r.Code == 0 || !strings.Contains(r.Err, "cannot create zed: its port 9300 is taken") {
		t.Errorf("a port on which somebody listens: %s", r)
	}
	b.Must("profile", "create", "alice", "--stopped", "--port", "9300")
	if r := b.Run("file", "write", "--profile", "alice", "./gateway_state.json"); r.Code != 2 || !strings.Contains(r.Err, "is rlminit's own") {
		t.Errorf("the state file: %s", r)
	}
	b.Must("start", "alice", "--no-wait")
	want := fmt.Sprintf(`its port 9300 is taken: "gateway --profile squat --port 9300" (uid 1000, pid %d) listens on `, *squat.PID)
	b.AwaitThat("gateway-alice", "says who has its port", func(s control.Service) bool {
		return s.State == "backoff" && s.Reason != nil && strings.Contains(*s.Reason, want)
	})
	b.Must("stop", "squat")
	b.Await("gateway-alice", "running")

	for args, why := range map[string]string{
		"--port 9300":            `port 9300 belongs to profile "alice"`,
		"--port 9400":            `port 9400 belongs to service "web"`,
		"--port 9400 --port-any": `port 9400 belongs to service "web"`,
		"--port 8080":            "port 8080 is not in gateway.ports, 9200-9799; choose one of those, or add --port-any",
	} {
		r := b.Run(append([]string{"profile", "create", "bob"}, strings.Fields(args)...)...)
		if r.Code == 0 || !strings.Contains(r.Err, why) {
			t.Errorf("%s: %s", args, r)
		}
	}
	if out := b.Shell(box.Service, `ls -A "`+b.Home()+`/profiles"`); strings.TrimSpace(out) != "alice" {
		t.Errorf("there is %q", out)
	}
	b.Must("profile", "create", "bob", "--port", "8080", "--port-any")
	b.Await("gateway-bob", "running")
}
