package contract

import (
	"encoding/json"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// UpgradeIsChecked: before an upgrade a look at the volume says which profiles the new
// configuration would refuse, and which it would start with another definition than they
// run with. It changes nothing on the volume.
func UpgradeIsChecked(t *testing.T, start New) {
	b := start(t, box.Spec{Config: kinds("")})
	b.Must("profile", "create", "plain")
	b.Must("profile", "create", "web1", "web2", "--kind", "web")
	b.Must("profile", "create", "old", "--kind", "web")
	b.Must("profile", "create", "rests", "--stopped")
	b.Must("profile", "delete", "old")
	for _, name := range []string{"plain", "web1", "web2"} {
		b.Await("gateway-"+name, "running")
	}
	set := b.Home() + "/profiles/set.yaml"
	b.Write(box.Service, set, "version: 1\nprofiles:\n  fresh: {kind: web}\n")
	b.Must("plan", "-f", set, "--propose")
	// The copies of what was seen come a moment later.
	box.Eventually(b, long, "the state files say what was started", func() (bool, any) {
		n := strings.TrimSpace(b.Shell(box.Root, "grep -l started_with "+b.Home()+"/profiles/{plain,web1,web2}/gateway_state.json | wc -l"))
		return n == "3", n
	})
	copied := b.Home() + "/cache/copy" // of a volume that nobody has
	b.Shell(box.Root, "rm "+set+"; mkdir -p /tmp/upgrade "+b.Home()+"/cache; cp -a "+b.Home()+"/profiles /tmp/upgrade/; cp -a "+b.Home()+"/trash "+b.Home()+"/.rlminit /tmp/upgrade/; chown 1000:1000 /tmp/upgrade; mv /tmp/upgrade "+copied)
	hash := func() string {
		return b.Shell(box.Root, "cd "+copied+"; { find . -printf '%p %i %U %G %m %T@ %C@\\n' | sort; find . -type f -print0 | sort -z | xargs -0 sha256sum; } | sha256sum")
	}
	before := hash()
	check := func(code int, config string) (is struct {
		Profiles                                int
		Refused, Unread, Restarts, Trash, Plans []struct{ Profile, Why string }
	},
	) {
		t.Helper()
		b.Write(box.Root, "/tmp/new.yaml", config)
		r := b.As(box.Root, "rlminit", "check", "--volume", copied, "--json", "/tmp/new.yaml")
		if err := json.Unmarshal([]byte(r.Out), &is); err != nil || r.Code != code {
			t.Fatalf("check --volume: %v, %s; want exit code %d", err, r, code)
		}
		return is
	}
	if is := check(0, kinds("")); is.Profiles != 4 || len(is.Refused)+len(is.Unread)+len(is.Restarts)+len(is.Trash)+len(is.Plans) > 0 {
		t.Errorf("the same configuration: %+v", is)
	}
	is := check(14, strings.ReplaceAll(kinds(""), "  web:\n", "  webs:\n"))
	if len(is.Refused) != 2 || is.Refused[0].Profile != "web1" || !strings.Contains(is.Refused[0].Why, `no kind "web"; did you mean "webs"?`) || len(is.Restarts) > 0 {
		t.Errorf("a kind with another name: %+v", is)
	}
	if len(is.Trash) != 1 || is.Trash[0].Profile != "old" || len(is.Plans) != 1 || is.Plans[0].Profile != "fresh" {
		t.Errorf("a kind with another name, in the trash and in plans: %+v", is)
	}
	is = check(0, strings.ReplaceAll(kinds(""), "COLOUR: red", "COLOUR: blue"))
	if len(is.Restarts) != 2 || is.Restarts[0].Profile != "web1" || is.Restarts[0].Why != "environment changed" {
		t.Errorf("a kind with another environment: %+v", is)
	}
	if after := hash(); after != before {
		t.Errorf("check --volume changed the volume: %s, then %s", before, after)
	}
}
