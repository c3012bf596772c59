package docker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// prepared makes a volume, and root's script works on it at /data.
func prepared(t *testing.T, script string) string {
	t.Helper()
	name := volume(t)
	if _, err := must(nil, "run", "--rm", "--volume", name+":/data", "--entrypoint", "bash", built.pure, "-ec", script); err != nil {
		t.Fatal(err)
	}
	return name + ":/data"
}

// named is contract.Config for the image's user by name.
func named(more ...string) string {
	return strings.Replace(contract.Config(more...), `user: "1000:1000"`, "user: app", 1)
}

// none fails the test for each line that a command prints.
func none(b *box.Box, what, script string) {
	b.Helper()
	if out := b.Shell(box.Root, script); out != "" {
		b.Errorf("%s:\n%s", what, out)
	}
}

// among finds what is on a volume, but for what the supervisor keeps there, and is
// so.
func among(home, so string) string {
	return fmt.Sprintf(`find %s -mindepth 1 \( -path %[1]s/.rlminit -o -path %[1]s/logs -o -path %[1]s/.rlminit.lock \) -prune -o \( %[2]s \) -print`, home, so)
}

// TestRemap: the service user gets the uid and gid that were asked for, in
// passwd and group too, and at every boot the same.
func TestRemap(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env    []string
		config string
		want   string
	}{
		"RLMINIT":      {[]string{"RLMINIT_UID=1500", "RLMINIT_GID=1600", "PUID=7", "PGID=8"}, "", "1500:1600"},
		"PUID":         {[]string{"PUID=1500", "PGID=1600"}, "", "1500:1600"},
		"uid alone":    {[]string{"PUID=1500"}, "", "1500:1000"},
		"other names":  {[]string{"AGENT_UID=1500", "AGENT_GID=1600"}, `remap: {uid: ["${OTHER:-}", "${AGENT_UID:-}"], gid: ["${AGENT_GID:-}"]}` + "\n", "1500:1600"},
		"nothing said": {nil, "", "1000:1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startImage(t, built.based, box.Spec{Config: named("own: [.]\n", c.config), Env: c.env})
			for range 2 {
				healthy(b, box.Root)
				must(nil, "exec", b.Place.(*Place).name, "rlminit", "profile", "create", "--exist-ok", "alice")
				out, err := must(nil, "exec", "--user", "app", b.Place.(*Place).name, "bash", "-c",
					"echo $(id -u):$(id -g); rlminit wait alice --for running --timeout 10s; rlminit restart alice")
				if err != nil || !strings.HasPrefix(out, c.want+"\n") {
					t.Errorf("app is %q, %v", out, err)
				}
				none(b, "not the service user's", among("/data", `-not \( -uid `+strings.Replace(c.want, ":", ` -gid `, 1)+` \)`))
				if got := b.Shell(box.Root, `stat -c %u:%g /proc/$(pgrep -x gateway)`); got != c.want+"\n" {
					t.Errorf("the gateway is %s", got)
				}
				if err := b.Place.(*Place).Restart(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestRemapOfFreshVolume: a volume that nothing was written to is the service
// user's whatever uid was asked for, without a word of configuration.
func TestRemapOfFreshVolume(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"as the image has it": "true", "root's": "chown 0:0 /data; chmod 0755 /data",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startImage(t, built.based, box.Spec{
				Env: []string{"RLMINIT_UID=1500"}, Docker: []string{"--volume", prepared(t, script)},
			})
			healthy(b, box.Root)
			as := box.User{UID: 1500, GID: 1000}
			for _, args := range [][]string{{"profile", "create", "alice"}, {"wait", "alice", "--for", "running", "--timeout", "10s"}} {
				if r := b.As(as, append([]string{"rlminit"}, args...)...); r.Code != 0 {
					t.Fatalf("%s: %s", args, r)
				}
			}
			none(b, "not the profile's own user's", among("/data/profiles/alice", `-uid -40000`))
			none(b, "not the service user's", among("/data", `-not -uid 1500 -not -path '/data/profiles/alice*'`))
			if strings.Contains(b.Printed(), "owned by") {
				t.Errorf("printed %s", b.Printed())
			}
		})
	}
}

// TestRemapReadsEnvFile: the volume is given away before anything is read on it.
func TestRemapReadsEnvFile(t *testing.T) {
	t.Parallel()
	b := startImage(t, built.based, box.Spec{
		Config: named("own: [.]\nenv_file: [\"?/data/.env\"]\n"), Env: []string{"PUID=1500", "PGID=1600"},
		Docker: []string{"--volume", prepared(t, "echo SEEN=yes >/data/.env; chown -R 1000:1000 /data; chmod 0600 /data/.env; chmod 0700 /data")},
		Main:   []string{"bash", "-c", `echo "seen: $SEEN"; exec sleep infinity`},
	})
	healthy(b, box.Root)
	box.Eventually(b, 10*time.Second, "the main command", func() (bool, any) {
		return strings.Contains(b.Printed(), "seen: yes"), b.Printed()
	})
}

// TestRemapWithoutPasswd: where passwd cannot be written, services have the uid
// all the same, and that is said.
func TestRemapWithoutPasswd(t *testing.T) {
	t.Parallel()
	b := startImage(t, built.based, box.Spec{
		Config: named(), Env: []string{"RLMINIT_UID=1500", "RLMINIT_GID=1600"},
		Docker: []string{"--read-only", "--tmpfs", "/run", "--tmpfs", "/data:uid=1500,gid=1600"},
	})
	user := box.User{UID: 1500, GID: 1600}
	healthy(b, user)
	if r := b.As(user, "rlminit", "profile", "create", "alice"); r.Code != 0 {
		t.Errorf("create: %s", r)
	}
	if out := b.Printed(); strings.Count(out, "rlminit: cannot give app uid 1500 and gid 1600 in /etc/passwd: read-only file system") != 1 {
		t.Errorf("printed %q", out)
	}
}

// TestRemapRefused: 0 and rubbish end the start, with a line that says what would
// be right.
func TestRemapRefused(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"RLMINIT_UID=0", "RLMINIT_GID=0", "PUID=root", "PGID=-1", "PUID=65535", "RLMINIT_UID=1500x"} {
		b := startImage(t, built.based, box.Spec{Config: named(), Env: []string{setting}})
		code, err := b.Ended(answerTimeout)
		name, value, _ := strings.Cut(setting, "=")
		if want := fmt.Sprintf("rlminit: %s: %q is refused; write digits from 1 to 65534\n", name, value); err != nil || code != 78 || b.Printed() != want {
			t.Errorf("%s: exit code %d, %v, printed %q, want %q", setting, code, err, b.Printed(), want)
		}
	}
}

// TestExec: a command that root runs by way of rlminit exec is the service user,
// without anything of root's, and leaves nothing of root's on the volume.
func TestExec(t *testing.T) {
	t.Parallel()
	b := start(t, box.Spec{Config: named("environment: {FROM: configuration}\n")})
	b.Must("profile", "create", "alice", "--env", "TOKEN=secret")
	s := b.Await("gateway-alice", "running")
	run := func(user box.User, args ...string) box.Result {
		t.Helper()
		return b.As(user, append([]string{"rlminit", "exec"}, args...)...)
	}
	script := `grep -E '^(Uid|Gid|CapEff|CapBnd|CapPrm|NoNewPrivs):' /proc/self/status; echo $FROM $PROFILE $TOKEN; pwd; touch made`
	r := run(box.Root, "--profile", "alice", "--", "bash", "-c", script)
	const none16 = "\t0000000000000000\n"
	want := "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nCapPrm:" + none16 + "CapEff:" + none16 + "CapBnd:" + none16 +
		"NoNewPrivs:\t1\nconfiguration alice secret\n/data/profiles/alice\n"
	if r.Code != 0 || r.Out != want {
		t.Errorf("%s, want %q", r, want)
	}
	if r := run(box.Root, "--", "bash", "-c", "id -u; touch /data/made; echo $PROFILE"); r.Code != 0 || r.Out != "1000\n\n" {
		t.Errorf("without a profile: %s", r)
	}
	none(b, "root's files on the volume", "find /data -mindepth 1 -uid 0 -o -gid 0")
	groups := func(pid string) string {
		return b.Shell(box.Root, "grep ^Groups: /proc/"+pid+"/status")
	}
	mine := run(box.Root, "--profile", "alice", "--", "grep", "^Groups:", "/proc/self/status").Out
	if its := groups(fmt.Sprint(*s.PID)); mine != its {
		t.Errorf("groups %q, and the gateway has %q", mine, its)
	}
	for _, user := range []box.User{box.Root, box.Service} {
		for command, code := range map[string]int{"no-such-program": 127, "/etc/passwd": 126, "/data": 126} {
			if r := run(user, "--", command); r.Code != code || !strings.HasPrefix(r.Err, "rlminit: cannot run ") {
				t.Errorf("%v: %s", user, r)
			}
		}
		if r := run(user, "--", "bash", "-c", "exit 42"); r.Code != 42 {
			t.Errorf("%v: %s", user, r)
		}
	}
	if r := b.As(box.Stranger, "rlminit", "exec", "--profile", "alice", "--", "id"); r.Code != 5 {
		t.Errorf("a stranger: %s", r)
	}
}

// TestOwn: what own lists is the service user's, and nothing else: no link is
// followed, no mount crossed, and a file with a second name keeps its owner.
func TestOwn(t *testing.T) {
	t.Parallel()
	v := prepared(t, `mkdir -p /data/profiles/old/deep /data/cache /data/other /data/profiles/mounted
		touch /data/profiles/old/deep/file /data/other/file /data/profiles/twice
		ln /data/profiles/twice /data/other/first; ln -s /etc /data/profiles/etc; ln -s /etc/passwd /data/profiles/passwd
		ln -s /etc /data/link; chown -R 4242:4242 /data/profiles /data/cache /data/other; chown 1000:1000 /data`)
	b := start(t, box.Spec{
		Config: named("own: [profiles, cache, absent, link]\n"),
		Docker: []string{"--volume", v, "--tmpfs", "/data/profiles/mounted:uid=77"},
	})
	want := `/data 0:1000
/data/cache 1000:1000
/data/other 4242:4242
/data/other/file 4242:4242
/data/other/first 4242:4242
/data/profiles 1000:1000
/data/profiles/etc 1000:1000
/data/profiles/mounted 77:0
/data/profiles/old 1000:1000
/data/profiles/old/deep 1000:1000
/data/profiles/old/deep/file 1000:1000
/data/profiles/passwd 1000:1000
/data/profiles/twice 4242:4242
/etc 0:0
/etc/passwd 0:0
`
	got := b.Shell(box.Root, `for f in $(sed 's/ .*//' <<<"$(printf '%s\n' /data /data/cache /data/other /data/other/file /data/other/first /data/profiles \
		/data/profiles/etc /data/profiles/mounted /data/profiles/old /data/profiles/old/deep /data/profiles/old/deep/file /data/profiles/passwd \
		/data/profiles/twice /etc /etc/passwd)"); do stat -c '%n %u:%g' $f; done`)
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestHomeIsMade: a volume that is absent is made, for the service user.
func TestHomeIsMade(t *testing.T) {
	t.Parallel()
	b := start(t, box.Spec{Config: named("home: /srv/deep/agent\n")})
	b.Must("profile", "create", "alice")
	got := b.Shell(box.Root, "stat -c '%n %u:%g %a' /srv/deep /srv/deep/agent")
	if want := "/srv/deep 0:0 755\n/srv/deep/agent 0:1000 1775\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDirsAndSeeds: directories and seeds are there before anything starts, with
// their modes at every boot; what was changed stays so, and links are refused.
func TestDirsAndSeeds(t *testing.T) {
	t.Parallel()
	v := prepared(t, `ln -s /etc /data/trap; echo mine >/data/kept; chmod 0666 /data/kept; ln -s /etc/hostname /data/linked; chown -h 1000:1000 /data /data/*`)
	files := map[string]string{"/usr/share/agent/config": "from the image\n", "/usr/share/agent/tree/a/b": "b\n"}
	config := named(`
dirs: [cache, {path: private/deep, mode: "0700"}]
seed:
  - {from: /usr/share/agent/config, to: etc/config, mode: "0640"}
  - {from: /usr/share/agent/config, to: kept, mode: "0600"}
  - {from: /usr/share/agent/config, to: linked, mode: "0600"}
  - {from: /usr/share/agent/tree, to: tree}
boot: [{command: [test, -e, /data/tree/a/b]}]
`)
	b := start(t, box.Spec{Config: config, Files: files, Docker: []string{"--volume", v}})
	look := func() {
		t.Helper()
		got := b.Shell(box.Root, `cd /data; stat -c '%n %u:%g %a' cache private/deep etc/config kept tree tree/a/b; cat etc/config kept tree/a/b; stat -c %a /etc/hostname`)
		want := "cache 1000:1000 750\nprivate/deep 1000:1000 700\netc/config 1000:1000 640\nkept 1000:1000 600\n" +
			"tree 1000:1000 750\ntree/a/b 1000:1000 644\nfrom the image\nmine\nb\n644\n"
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	look()
	b.Shell(box.Service, "chmod 0777 /data/etc/config /data/private/deep; chmod 0 /data/kept")
	if err := b.Place.(*Place).Restart(); err != nil {
		t.Fatal(err)
	}
	awaitAnswer(b)
	look()
	if out := b.Printed(); strings.Count(out, "rlminit: seed: /data/linked is a symbolic link") != 2 { // a boot each
		t.Errorf("printed %q", out)
	}
	b = startImage(t, built.based, box.Spec{Config: named("dirs: [trap/deep]\n"), Docker: []string{"--volume", v}})
	awaitAnswer(b) // a service can make the link: it keeps nobody from starting
	if out := b.Printed(); !strings.Contains(out, "rlminit: dirs: /data/trap/deep is not made: trap is a symbolic link") {
		t.Errorf("printed %q", out)
	}
	if r := b.As(box.Root, "test", "-e", "/etc/deep"); r.Code == 0 {
		t.Error("it was made behind the link")
	}
}

// TestNothingOfRootsOnTheVolume: with links wherever rlminit would write, nothing
// outside the volume changes, and nothing on it becomes root's.
func TestNothingOfRootsOnTheVolume(t *testing.T) {
	t.Parallel()
	v := prepared(t, `mkdir -p /data/profiles/alice /data/logs/gateways; cd /data
		touch profiles/alice/profile.yaml
		ln -s /etc/passwd .rlminit.lock; ln -s /etc state; ln -s /etc logs/services; ln -s /etc logs/gateways/alice
		ln -s /etc/passwd logs/container-boot.log; ln -s /etc/shadow profiles/alice/gateway_state.json; ln -s /etc profiles/bob; ln -s /etc cache
		chown -hR 1000:1000 /data`)
	b := startImage(t, built.based, box.Spec{
		Config: named("own: [.]\nseed: [{from: /etc/hostname, to: cache/hostname2}]\nboot: [{command: [\"true\"]}]\n"),
		Docker: []string{"--volume", v},
	})
	box.Eventually(b, answerTimeout, "the container answers or ends", func() (bool, any) {
		r, err := b.Exec(box.Root, nil, []string{"rlminit", "health"})
		return err == nil && r.Code == 0 || err == nil && strings.Contains(r.Err, "is not running"), fmt.Sprint(r, err)
	})
	if code, err := b.Ended(time.Second); err == nil {
		if out := b.Printed(); code != 1 || !strings.Contains(out, "rlminit: seed: cannot read /data/cache") {
			t.Errorf("exit code %d, printed %q", code, out)
		}
		// A link in the way of a seed is refused; the rest is to be seen without.
		b = start(t, box.Spec{Config: named("own: [.]\n", "boot: [{command: [\"true\"]}]\n"), Docker: []string{"--volume", v}})
	}
	b.Must("status")
	none(b, "root's files on the volume", "find /data -mindepth 1 -uid 0 -o -gid 0")
	changed, err := must(nil, "diff", b.Place.(*Place).name)
	if err != nil {
		t.Fatal(err)
	}
	etc := slices.DeleteFunc(strings.Split(changed, "\n"), func(line string) bool {
		return !strings.Contains(line, " /etc/") || strings.Contains(line, "/etc/rlminit") ||
			strings.HasSuffix(line, "/etc/passwd") || strings.HasSuffix(line, "/etc/group") // the supervisor's line
	})
	if len(etc) > 0 {
		t.Errorf("changed: %q", etc)
	}
}

// TestStopWhileBooting: a container that is stopped in the middle of a boot step
// ends at once, and its code is no success.
func TestStopWhileBooting(t *testing.T) {
	t.Parallel()
	b := startImage(t, built.based, box.Spec{
		Config: named(`boot: [{name: long, command: [bash, -c, "touch /data/begun; exec sleep 600"]}]`+"\n", "main: {command: [\"true\"]}\n"),
	})
	box.Eventually(b, answerTimeout, "the step runs", func() (bool, any) {
		r := b.As(box.Service, "test", "-e", "/data/begun")
		return r.Code == 0, r
	})
	began := time.Now()
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	code, err := b.Ended(time.Second)
	if took := time.Since(began); err != nil || code != 143 || took > 5*time.Second {
		t.Errorf("exit code %d, %v, after %s; printed %q", code, err, took, b.Printed())
	}
}
