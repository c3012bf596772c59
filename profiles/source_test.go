package profiles

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/job"
	"rlminit/profiles/statefile"
	"rlminit/service"
)

// furnished is a volume with the profile alice, which has files and a log.
func furnished(t *testing.T) *volume {
	t.Helper()
	v := newVolume(t, func(s *Settings) { s.RemoveAtBoot = []string{"*.pid"} })
	v.create("alice", Creation{Environment: map[string]string{"A": "1"}, Intent: service.Running, Secrets: map[string]string{"S": "s"}})
	v.write("profiles/alice/notes/one", "one")
	v.write("profiles/alice/gateway.pid", "1")
	v.write("profiles/alice/"+job.SessionsDir+"/7/secret", "another's")
	v.write("profiles/alice/"+job.UndoDir+"/9", "a secret of before")
	v.write("logs/gateways/alice/current", "a line\n")
	return v
}

func TestClone(t *testing.T) {
	v := furnished(t)
	must(t, unix.Mkfifo(v.path("profiles/alice/pipe"), 0o600))
	must(t, os.Symlink("notes/one", v.path("profiles/alice/link")))
	p := v.create("bob", Creation{Clone: "alice", Environment: map[string]string{"B": "2"}, Intent: service.Stopped})
	if p.Port == v.list()["alice"].Port || p.Record.Desired != service.Stopped || p.Environment()["A"] != "1" || p.Environment()["B"] != "2" {
		t.Errorf("%+v, environment %v", p, p.Environment())
	}
	if v.read("profiles/bob/notes/one") != "one" || v.read("profiles/bob/link") != "one" {
		t.Error("the files are not those of alice")
	}
	for _, name := range []string{"gateway.pid", "pipe", job.SessionsDir, job.UndoDir} {
		if _, err := os.Lstat(v.path("profiles/bob/" + name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if v.list()["alice"].Environment()["B"] != "" {
		t.Error("alice has what is bob's")
	}
	for what, c := range map[string]struct {
		name string
		how  Creation
		kind error
	}{
		"of none":       {"carol", Creation{Clone: "nobody"}, ErrNotFound},
		"onto another":  {"bob", Creation{Clone: "alice"}, ErrExists},
		"of the home":   {"carol", Creation{Clone: "default"}, ErrName},
		"by a bad name": {"../x", Creation{Clone: "alice"}, ErrName},
	} {
		if _, _, err := v.Create(c.name, c.how); !errors.Is(err, c.kind) || strings.Contains(err.Error(), "--exist-ok") { // which has no meaning here
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(v.list()) != 2 {
		t.Errorf("%v", v.list())
	}
}

func TestRestore(t *testing.T) {
	v := furnished(t)
	port := v.list()["alice"].Port
	_, err := v.Delete("alice", false, nil)
	must(t, err)
	p := v.create("alice", Creation{Restore: "alice"})
	if p.Port != port || p.Record.Desired != service.Running || v.read("profiles/alice/notes/one") != "one" {
		t.Errorf("%+v", p)
	}
	if list, err := v.Trash.List(); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
	if _, err := os.Lstat(v.path("profiles/alice/" + job.SessionsDir)); !errors.Is(err, os.ErrNotExist) || v.read("profiles/alice/"+job.UndoDir+"/9") == "" {
		t.Errorf("what a session has left came back, or what a write has kept did not: %v", err)
	}
	// Twice in one second, and another has taken the name and the port: the newest
	// comes back, under another name, with another port.
	_, err = v.Delete("alice", false, nil)
	must(t, err)
	v.create("alice", Creation{Port: port, Environment: map[string]string{"A": "2"}})
	_, err = v.Delete("alice", false, nil)
	must(t, err)
	v.create("alice", Creation{Port: port})
	if _, _, err := v.Create("alice", Creation{Restore: "alice"}); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "--as NEW") {
		t.Errorf("onto another: %v", err)
	}
	back := v.create("old", Creation{Restore: "alice", Intent: service.Stopped})
	if back.Port == port || back.Environment()["A"] != "2" || back.Record.Desired != service.Stopped {
		t.Errorf("%+v %v", back, back.Environment())
	}
	if _, _, err := v.Create("x", Creation{Restore: "bob"}); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "trash") {
		t.Errorf("%v", err)
	}
	// Names that only look like entries, or lead elsewhere, are none.
	v.write("trash/../escape-20260524T180533Z/x", "")
	for _, name := range []string{"../escape", "../escape-20260524T180533Z", ".."} {
		if _, _, err := v.Create("y", Creation{Restore: name}); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// logOf is the log of a profile, of which a rename begins another file.
func (v *volume) logOf(name string) string {
	files, err := filepath.Glob(v.path("logs/gateways/" + name + "/*"))
	must(v.t, err)
	text := ""
	for _, file := range files {
		some, err := os.ReadFile(file)
		must(v.t, err)
		text += string(some)
	}
	return text
}

// A log has another file after a rename: who has the one before open, to follow it under
// the old name, is not shown what the new one writes.
func TestRenameBeginsAnotherFileOfTheLog(t *testing.T) {
	v := furnished(t)
	_, err := v.Rename("alice", "bob", nil)
	must(t, err)
	if _, err := os.Stat(v.path("logs/gateways/bob/current")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is written to by the new name: %v", err)
	}
	if is := v.read("logs/gateways/bob/20260524T180533.000000Z.log"); is != "a line\n" {
		t.Errorf("the lines from before: %q", is)
	}
}

func TestRename(t *testing.T) {
	v := furnished(t)
	v.write("logs/gateways/bob/current", "of an earlier bob\n")
	before := v.list()["alice"]
	p, err := v.Rename("alice", "bob", nil)
	must(t, err)
	if p.Name != "bob" || p.Port != before.Port || p.Record.Desired != service.Running || p.Record.Profile != "bob" {
		t.Errorf("%+v", p)
	}
	if v.logOf("bob") != "a line\n" || v.read("logs/gateways/bob.before-20260524T180533Z/current") != "of an earlier bob\n" {
		t.Error("the logs are not where they should be")
	}
	v.create("alice", Creation{}) // the name is free, and its port too
	for what, c := range map[string]struct {
		from, to string
		kind     error
	}{
		"onto another":     {"alice", "bob", ErrExists},
		"onto itself":      {"alice", "alice", ErrExists},
		"of none":          {"nobody", "carol", ErrNotFound},
		"to a service's":   {"alice", "dashboard", ErrName},
		"to a gateway's":   {"alice", "gateway-x", ErrName},
		"out of the house": {"alice", "../x", ErrName},
		"of the home":      {"default", "x", ErrName},
	} {
		if _, err := v.Rename(c.from, c.to, nil); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", what, err)
		}
	}
	v.reopen(nil)
	if list := v.list(); len(list) != 2 || list["bob"].Port != before.Port || list["alice"].Port == before.Port {
		t.Errorf("%+v", list)
	}
}

// Two at once: one gets the name.
func TestRenameAtOnce(t *testing.T) {
	v := newVolume(t, nil)
	v.create("a", Creation{})
	v.create("b", Creation{})
	results := make(chan error, 2)
	for _, from := range []string{"a", "b"} {
		go func() { _, err := v.Rename(from, "c", nil); results <- err }()
	}
	won := 0
	for range 2 {
		if err := <-results; err == nil {
			won++
		} else if !errors.Is(err, ErrExists) {
			t.Error(err)
		}
	}
	if won != 1 || len(v.list()) != 2 {
		t.Errorf("%d won, %v", won, v.list())
	}
}

// killed is what a test's kill is.
type killed struct{}

// TestKilledBetweenSteps kills each of these operations before each of its steps
// on the volume, starts the next container, and looks at what there is.
func TestKilledBetweenSteps(t *testing.T) {
	whole := func(p Profile, v *volume) error {
		text, err := os.ReadFile(v.path("profiles/" + p.Name + "/notes/one"))
		switch {
		case err != nil || string(text) != "one":
			return fmt.Errorf("%s has not its files: %q %v", p.Name, text, err)
		case p.Fault != nil || p.Record.Origin != service.Recorded || p.Port == 0 || p.Record.Desired != service.Running:
			return fmt.Errorf("%s is half made: %+v", p.Name, p)
		case p.Environment()["A"] != "1":
			return fmt.Errorf("%s has the environment %v", p.Name, p.Environment())
		}
		return nil
	}
	renames := func(v *volume) error { _, err := v.Rename("alice", "bob", nil); return err }
	renamed := func(v *volume, list map[string]Profile) error {
		if len(list) != 1 {
			return fmt.Errorf("there are %v", list)
		}
		for name, p := range list {
			if err := whole(p, v); err != nil {
				return err
			}
			v.secretsAre(name, map[string]string{"S": "s"})
			if text := v.logOf(name); text != "a line\n" {
				return fmt.Errorf("the log of %s is %q", name, text)
			}
		}
		return nil
	}
	for name, c := range map[string]struct {
		prepare func(*volume)
		do      func(*volume) error
		after   func(*volume, map[string]Profile) error
	}{
		"clone": {
			func(*volume) {},
			func(v *volume) error { _, _, err := v.Create("bob", Creation{Clone: "alice"}); return err },
			func(v *volume, list map[string]Profile) error {
				if err := whole(list["alice"], v); err != nil {
					return err
				}
				bob, there := list["bob"]
				if there && bob.Port == list["alice"].Port {
					return errors.New("two have one port")
				}
				if there {
					return whole(bob, v)
				}
				return nil
			},
		},
		"restore": {
			func(v *volume) { _, err := v.Delete("alice", false, nil); must(v.t, err) },
			func(v *volume) error { _, _, err := v.Create("alice", Creation{Restore: "alice"}); return err },
			func(v *volume, list map[string]Profile) error {
				trash, err := v.Trash.List()
				p, there := list["alice"]
				if err != nil || there == (len(trash) == 1) {
					return fmt.Errorf("alice is there: %v, and the trash has %v, %v", there, trash, err)
				}
				if there {
					return whole(p, v)
				}
				_, _, err = v.Create("alice", Creation{Restore: "alice"})
				if err != nil {
					return err
				}
				return whole(v.list()["alice"], v)
			},
		},
		"delete": {
			func(*volume) {},
			func(v *volume) error { _, err := v.Delete("alice", false, nil); return err },
			func(v *volume, list map[string]Profile) error {
				if p, there := list["alice"]; there {
					v.secretsAre("alice", map[string]string{"S": "s"})
					return whole(p, v)
				}
				v.create("alice", Creation{Restore: "alice"})
				v.secretsAre("alice", map[string]string{"S": "s"})
				_, err := v.Delete("alice", false, nil)
				return err
			},
		},
		"restore onto an orphaned name": {
			func(v *volume) { _, err := v.Delete("alice", false, nil); must(v.t, err); v.orphan("bob") },
			func(v *volume) error { _, _, err := v.Create("bob", Creation{Restore: "alice"}); return err },
			func(v *volume, list map[string]Profile) error {
				if p, there := list["bob"]; there {
					return whole(p, v)
				}
				return nil
			},
		},
		"rename":                     {func(*volume) {}, renames, renamed},
		"rename to an orphaned name": {func(v *volume) { v.orphan("bob") }, renames, renamed},
	} {
		t.Run(name, func(t *testing.T) {
			for at := 0; ; at++ {
				v := furnished(t)
				c.prepare(v)
				steps, last := 0, ""
				v.Ours().Fail(func(step string) error {
					if steps++; steps > at {
						last = step
						panic(killed{})
					}
					return nil
				})
				err := func() (err error) {
					defer func() {
						if r := recover(); r != nil {
							err = errors.New("killed")
							if _, ours := r.(killed); !ours {
								panic(r)
							}
						}
					}()
					return c.do(v)
				}()
				v.Store = nil // a process that was killed closes nothing
				v.reopen(nil)
				v.secretsAreTheirs() // for a successor too, before the next boot
				v.PrepareBoot(slices.Collect(maps.Values(v.list())))
				v.secretsAreTheirs()
				if wrong := c.after(v, v.list()); wrong != nil {
					t.Errorf("killed before step %d (%s): %v", at+1, last, wrong)
				}
				v.nobodysAreFree()
				if t.Failed() {
					t.Fatalf("killed before step %d (%s)", at+1, last)
				}
				entries, _ := os.ReadDir(v.path("profiles"))
				if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return durable.IsTemp(e.Name()) }) {
					t.Errorf("killed before step %d (%s): something is left", at+1, last)
				}
				if err == nil {
					if at < 3 {
						t.Errorf("it has %d steps", at)
					}
					return
				}
			}
		})
	}
}

// secretsAreTheirs finds alice's secrets with alice, whatever the name, unless alice was
// deleted, and with nobody else.
func (v *volume) secretsAreTheirs() {
	v.t.Helper()
	list := v.list()
	for name := range list {
		is, err := v.Secrets.Of(name)
		must(v.t, err)
		if len(is) > 0 && (name == "bob" && len(list) > 1 || is["S"] != "s" || len(is) > 1) {
			v.t.Errorf("%s has %v", name, is)
		}
	}
}

// nobodysAreFree has the names that are left be taken, by profiles that have no secrets,
// and nothing lie under any other.
func (v *volume) nobodysAreFree() {
	v.t.Helper()
	list := v.list()
	if list["bob"].Name == "" {
		v.create("bob", Creation{})
		v.secretsAre("bob", nil)
	}
	if list["alice"].Name == "" {
		v.create("x", Creation{})
		_, err := v.Rename("x", "alice", nil)
		must(v.t, err)
		v.secretsAre("alice", nil)
	}
	if left := v.nobodys(); len(left) > 0 {
		v.t.Errorf("%q are left", left)
	}
}

// An edit of what somebody else has changed meanwhile changes nothing.
func TestReplaceFrom(t *testing.T) {
	v := furnished(t)
	p, err := v.Load("alice")
	must(t, err)
	text := string(p.Text())
	base := Base{Text: &text}
	if _, err := v.ReplaceFrom("alice", base, []byte("environment: {A: \"2\"}\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := v.ReplaceFrom("alice", base, []byte("environment: {A: \"3\"}\n")); !errors.Is(err, ErrBroken) {
		t.Errorf("%v", err)
	}
	if p, _ := v.Load("alice"); p.Environment()["A"] != "2" {
		t.Errorf("%v", p.Environment())
	}
	if _, err := v.ReplaceFrom("nobody", Base{}, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// An edit is of the profile that was opened, and not of another one that has its name
// and its text by then: of one that was made after a rename, or after a purge, whose
// directory may have the inode again.
func TestReplaceFromIsOfOneProfile(t *testing.T) {
	for how, leave := range map[string]func(v *volume) error{
		"renamed": func(v *volume) error { _, err := v.Rename("alice", "bob", nil); return err },
		"deleted": func(v *volume) error { _, err := v.Delete("alice", false, nil); return err },
		"purged":  func(v *volume) error { _, err := v.Delete("alice", true, nil); return err },
	} {
		v := newVolume(t, nil)
		v.create("alice", Creation{})
		p, id, err := v.ToEdit("alice")
		must(t, err)
		text := string(p.Text())
		must(t, leave(v))
		if q := v.create("alice", Creation{}); string(q.Text()) != text {
			t.Fatalf("%s: the new one has another text: %q, not %q", how, q.Text(), text)
		}
		if _, err := v.ReplaceFrom("alice", Base{ID: &id, Text: &text}, []byte("environment: {A: \"2\"}\n")); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "another profile by now") {
			t.Errorf("%s: %v", how, err)
		}
		if is, _ := v.Load("alice"); string(is.Text()) != text {
			t.Errorf("%s: the new one has %q", how, is.Text())
		}
	}
}

// It is the same profile after an edit, a rename there and back, and out of the trash.
func TestReplaceFromOfOneThatWasAway(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{})
	_, id, err := v.ToEdit("alice")
	must(t, err)
	_, err = v.Rename("alice", "bob", nil)
	must(t, err)
	_, err = v.Rename("bob", "alice", nil)
	must(t, err)
	_, err = v.Delete("alice", false, nil)
	must(t, err)
	v.create("alice", Creation{Restore: "alice"})
	for _, text := range []string{"environment: {A: \"2\"}\n", "environment: {A: \"3\"}\n"} {
		if _, err := v.ReplaceFrom("alice", Base{ID: &id}, []byte(text)); err != nil {
			t.Error(err)
		}
	}
}

// A stop that is recorded while its profile gets another name is of the new one.
func TestRenameOfWhatIsStoppedMeanwhile(t *testing.T) {
	v := prepared(t)
	var stopped error
	v.tree.home.Fail(func(step string) error {
		if step == "rename" {
			v.tree.home.Fail(nil)
			stopped = verbs["stop"](v)
		}
		return nil
	})
	p, err := v.Rename("alice", "bob", nil)
	must(t, err)
	must(t, stopped)
	if f, err := statefile.Read(v.tree.home, v.tree.stateFileOf("bob")); err != nil || f.Desired != service.Stopped {
		t.Errorf("the file says %s, %v", f.Desired, err)
	}
	if p.Record.Desired != service.Stopped {
		t.Errorf("it is to be %s", p.Record.Desired)
	}
	v.again()
	if is := v.list()["bob"].Record.Desired; is != service.Stopped {
		t.Errorf("after another boot it is to be %s", is)
	}
}

// A rename that cannot be recorded is refused, and not done: what the state file says
// of it, which is a copy, may be older than what was acknowledged.
func TestRenameThatCannotBeRecorded(t *testing.T) {
	v := prepared(t)
	must(t, verbs["stop"](v)) // of which no copy was written yet
	v.fail = func(step string) error {
		if step == "write" {
			return unix.EIO
		}
		return nil
	}
	if _, err := v.Rename("alice", "bob", nil); err == nil {
		t.Error("it was acknowledged")
	}
	v.again()
	list := v.list()
	if _, there := list["bob"]; there || list["alice"].Record.Desired != service.Stopped {
		t.Errorf("there is bob, %v, and alice is to be %q", there, list["alice"].Record.Desired)
	}
}

// What is restored is wanted as it was when it was deleted, whether or not a copy of the
// last command was written by then.
func TestRestoredAsItWasWanted(t *testing.T) {
	v := prepared(t)
	must(t, verbs["stop"](v)) // of which no copy was written yet
	_, err := v.Delete("alice", false, nil)
	must(t, err)
	p, _, err := v.Create("alice", Creation{Restore: "alice"})
	must(t, err)
	if p.Record.Desired != service.Stopped {
		t.Errorf("it was stopped, and is to be %s", p.Record.Desired)
	}
}

// A rename that is left in its middle, by a kill or a disk that goes on failing, leaves a
// profile that is wanted as it was, whichever name it has.
func TestRenameInItsMiddleIsWantedAsBefore(t *testing.T) {
	v := prepared(t)
	must(t, verbs["stop"](v)) // of which no copy was written yet
	v.fail = func(step string) error {
		if step != "sync" && v.moved("bob") {
			return unix.EIO
		}
		return nil
	}
	if _, err := v.Rename("alice", "bob", nil); !errors.Is(err, durable.ErrInDoubt) {
		t.Fatalf("it ended with %v", err)
	}
	v.again()
	list := v.list()
	if _, there := list["alice"]; there || list["bob"].Record.Desired != service.Stopped {
		t.Errorf("there is alice, %v, and bob is to be %q", there, list["bob"].Record.Desired)
	}
}

// A restore that is refused leaves what is in the trash as it was: the next one does not
// find the intent that the refused one was asked for.
func TestRefusedRestoreChangesNothing(t *testing.T) {
	for step, why := range map[string]string{"rename": "it cannot be moved", "write": "it cannot be recorded"} {
		v := prepared(t)
		v.fail = func(is string) error {
			if is == step && (step == "rename" || v.moved("dora")) {
				return unix.EIO
			}
			return nil
		}
		if _, _, err := v.Create("dora", Creation{Restore: "dora", Intent: service.Running}); err == nil {
			t.Fatalf("%s: it was restored", why)
		}
		v.fail = nil
		p, _, err := v.Create("dora", Creation{Restore: "dora"})
		must(t, err)
		if p.Record.Desired != service.Stopped {
			t.Errorf("%s: it was stopped, and is to be %s", why, p.Record.Desired)
		}
	}
}

// moved tells whether there is a profile's directory.
func (v *volume) moved(name string) bool {
	_, err := os.Stat(v.path("profiles/" + name))
	return err == nil
}
