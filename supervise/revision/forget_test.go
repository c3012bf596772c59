package revision

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"rlminit/control"
)

// archived tells whether any revision that is kept has a text.
func (v *volume) archived(text string) bool {
	for _, data := range v.files {
		if bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}

// A secret that is forgotten is in no revision any more, and a rollback that would bring it
// back is refused by name; with its secrets kept as they are it is not.
func TestForgetOfASecret(t *testing.T) {
	v := newVolume()
	r := v.live(0).revisions()
	set := func(value string) {
		t.Helper()
		ask := control.SetProfiles{Names: []string{"zed"}, Secrets: map[string]string{"KEY": value}, OnlyPresent: true}
		if done, err := (Values{r}).Set(t.Context(), ask, control.Actor{}); err != nil || done.Revision == 0 {
			t.Fatalf("%v %+v", err, done)
		}
	}
	set("first-value")
	set("second-value")
	to := 1
	back, err := r.Rollback(control.RollbackRequest{Request: "r1", Revision: &to}, 0)
	end := finish(t, r, back, err)
	if len(end.Steps) != 1 || !slices.Equal(end.Steps[0].Secrets, []string{"KEY"}) || v.snapshot()["zed"].Secrets["KEY"] != "first-value" {
		t.Fatalf("%+v", end)
	}
	had, err := r.Forget("zed", []string{"KEY"})
	if err != nil || len(had) != 3 || v.archived("-value") || v.archived("z3d") {
		t.Fatalf("%v %v", had, err)
	}
	first := 0
	_, err = r.Rollback(control.RollbackRequest{Request: "r2", Revision: &first}, 0)
	if err == nil || !strings.Contains(err.Error(), "forgotten on purpose: KEY") || problemOf(err).ExitCode != 17 && problemOf(err).ExitCode != 12 {
		t.Fatalf("%v", err)
	}
	back, err = r.Rollback(control.RollbackRequest{Request: "r3", Revision: &first, KeepSecrets: true}, 0)
	finish(t, r, back, err)
	if got := v.snapshot()["zed"].Secrets["KEY"]; got != "first-value" {
		t.Errorf("it has %q", got)
	}
}

// The secrets of a profile that is gone, and not in the trash, are in no revision.
func TestForgetOfWhatIsGone(t *testing.T) {
	v := newVolume()
	r := v.live(0).revisions()
	ask := control.SetProfiles{Names: []string{"zed", "alice"}, Secrets: map[string]string{"T": "of-both"}}
	if done, err := (Values{r}).Set(t.Context(), ask, control.Actor{}); err != nil || done.Revision == 0 {
		t.Fatalf("%v %+v", err, done)
	}
	r.ForgetGone(func(name string) bool { return name == "alice" })
	doc, err := r.load(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range doc.Steps {
		if has := k.After.Secrets["T"] == "of-both"; has != (k.Name == "alice") {
			t.Errorf("%s: %v", k.Name, k.After.Secrets)
		}
	}
}
