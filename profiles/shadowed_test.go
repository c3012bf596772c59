package profiles

import (
	"errors"
	"strings"
	"testing"

	"rlminit/service"
)

// A profile whose name a service has got is there, says why it cannot be run, and can be
// renamed and deleted; no other gets such a name, however it is made.
func TestAServiceHasTheNameOfAProfile(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{Intent: service.Running, Secrets: map[string]string{"KEY": "k"}, Port: 9300})
	v.create("bob", Creation{})
	v.create("zed", Creation{})
	must(t, v.Discard("zed", RevisionEntry("zed", 2)))
	settings := *v.Store.tree.settings.Load()
	settings.Services = append([]string{"alice", "zed"}, settings.Services...)
	preview, err := v.Preview(settings)
	must(t, err)
	if p := preview[0]; p.Name != "alice" || !p.Shadowed() {
		t.Errorf("%+v", p)
	}
	v.Configure(settings)
	p, err := v.Load("alice")
	must(t, err)
	if !p.Shadowed() || !strings.Contains(p.Fault.Error(), "rlminit profile rename alice") || p.Port != 9300 || p.Record.Desired != service.Running {
		t.Errorf("%+v", p)
	}
	for _, name := range []string{"alice", "zed"} {
		if _, err := v.Rename("bob", name, nil); !errors.Is(err, ErrName) {
			t.Errorf("renamed to %s: %v", name, err)
		}
		for _, how := range []Creation{{}, {ExistOK: true}, {Clone: "bob"}, {Restore: "zed"}} {
			if _, _, err := v.Create(name, how); !errors.Is(err, ErrName) {
				t.Errorf("%s: %+v: %v", name, how, err)
			}
		}
	}
	if _, err := v.Restore("zed", RevisionEntry("zed", 2), nil, nil); !errors.Is(err, ErrName) {
		t.Errorf("restored: %v", err)
	}
	if _, _, err := v.Trash.Look(RevisionEntry("zed", 2)); err != nil {
		t.Errorf("it left the trash: %v", err)
	}
	v.PrepareBoot(preview)
	if secrets, err := v.Secrets.Of("alice"); err != nil || secrets["KEY"] != "k" {
		t.Errorf("%v %v", secrets, err)
	}
	p, err = v.Rename("alice", "carol", nil)
	must(t, err)
	if p.Fault != nil || p.Port != 9300 || p.Record.Desired != service.Running {
		t.Errorf("%+v", p)
	}
	v.write("profiles/alice/profile.yaml", "")
	if _, err := v.Delete("alice", false, nil); err != nil {
		t.Error(err)
	}
}
