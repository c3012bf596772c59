package profiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/profiles/secrets"
	"rlminit/service"
)

// marked has a marker that is no other file.
func marked(s *Settings) { s.Marker = "marker" }

// again boots once more, on a disk that works.
func (v *volume) again() {
	v.fail, v.boot = nil, "b2b2b2b2"
	v.reopen(marked)
	v.PrepareBoot(slices.Collect(maps.Values(v.list())))
}

// picture is what a person can see of a volume.
type picture struct {
	Profiles map[string]seen
	Trash    map[string]map[string]string // the secrets of each entry
}

type seen struct {
	Text    string
	Desired service.Intent
	Secrets map[string]string
	Files   int
}

func (v *volume) picture() picture {
	v.t.Helper()
	p := picture{Profiles: map[string]seen{}, Trash: map[string]map[string]string{}}
	for name, is := range v.list() {
		has, err := v.Secrets.Of(name)
		must(v.t, err)
		files, err := os.ReadDir(is.Dir)
		must(v.t, err)
		files = slices.DeleteFunc(files, func(e os.DirEntry) bool { return durable.IsTemp(e.Name()) })
		p.Profiles[name] = seen{string(is.Text()), is.Record.Desired, has, len(files)}
		if is.Fault != nil {
			v.t.Errorf("%s: %v", name, is.Fault)
		}
	}
	trash, err := v.Trash.List()
	must(v.t, err)
	for _, t := range trash {
		p.Trash[t.Entry], err = v.Secrets.Of(secrets.Trashed(t.Entry))
		must(v.t, err)
	}
	return p
}

// nobodys are the names under which secrets lie, and no profile has, nor an entry of the
// trash, and of which nothing was said. orphan was one before.
func (v *volume) nobodys() (left []string) {
	v.t.Helper()
	list := v.list()
	trash, err := v.Trash.List()
	must(v.t, err)
	for _, t := range trash {
		list[secrets.Trashed(t.Entry)] = Profile{}
	}
	found, err := filepath.Glob(v.path(secrets.Home + "/*"))
	must(v.t, err)
	buried, err := filepath.Glob(v.path(secrets.Home + "/" + secrets.Trashed("*")))
	must(v.t, err)
	for _, path := range append(found, buried...) {
		name := strings.TrimPrefix(path, v.path(secrets.Home)+"/")
		_, there := list[name]
		said := slices.ContainsFunc(v.told, func(line string) bool {
			return strings.Contains(line, "secrets of a profile "+cmp.Or(profileOf(strings.TrimPrefix(name, secrets.Trashed(""))), name)+" are kept")
		})
		if !there && !said && name != "orphan" && name+"/" != secrets.Trashed("") {
			left = append(left, name)
		}
	}
	return left
}

// verbs are the commands on profiles, on a volume with alice, and dora in the trash.
var verbs = map[string]func(*volume) error{
	"create": func(v *volume) error { _, _, err := v.Create("bob", Creation{}); return err },
	"create with secrets": func(v *volume) error {
		_, _, err := v.Create("bob", Creation{Environment: map[string]string{"B": "2"}, Secrets: map[string]string{"S": "t"}})
		return err
	},
	"create what is there": func(v *volume) error {
		_, _, err := v.Create("alice", Creation{ExistOK: true, Environment: map[string]string{"A": "2"}, Secrets: map[string]string{"S": "u", "T": "v"}})
		return err
	},
	"clone":   func(v *volume) error { _, _, err := v.Create("bob", Creation{Clone: "alice"}); return err },
	"restore": func(v *volume) error { _, _, err := v.Create("dora", Creation{Restore: "dora"}); return err },
	"restore onto an orphaned name": func(v *volume) error {
		_, _, err := v.Create("orphan", Creation{Restore: "dora"})
		return err
	},
	"rename":                     func(v *volume) error { _, err := v.Rename("alice", "bob", nil); return err },
	"rename to an orphaned name": func(v *volume) error { _, err := v.Rename("alice", "orphan", nil); return err },
	"rename without secrets to an orphaned name": func(v *volume) error { _, err := v.Rename("bare", "orphan", nil); return err },
	"take back": func(v *volume) error {
		_, err := v.Restore("orphan", "apart-revision-1", map[string]string{"S": "mine"}, nil)
		return err
	},
	"secrets": func(v *volume) error {
		_, err := v.SetSecrets("alice", map[string]string{"T": "u"}, nil)
		return err
	},
	"no secrets": func(v *volume) error { _, err := v.SetSecrets("alice", nil, nil); return err },
	"delete":     func(v *volume) error { _, err := v.Delete("alice", false, nil); return err },
	"purge":      func(v *volume) error { _, err := v.Delete("alice", true, nil); return err },
	"empty": func(v *volume) error {
		list, err := v.Trash.List()
		if err != nil || len(list) != 2 || list[1].Profile != "dora" {
			return fmt.Errorf("the trash has %v: %w", list, err)
		}
		return v.empty(list[1].Entry)
	},
	"set": func(v *volume) error {
		two := "2"
		_, err := setEnvironment(v.Store, "alice", map[string]*string{"A": &two})
		return err
	},
	"edit": func(v *volume) error {
		_, err := v.ReplaceFrom("alice", Base{}, []byte("environment: {A: \"3\"}\n"))
		return err
	},
	"without text": func(v *volume) error { _, err := v.Replace("bare", nil); return err },
	"adopt":        func(v *volume) error { _, err := v.Adopt(context.Background(), "said", Actor{}); return err },
	"stop": func(v *volume) error {
		c := Command{Verb: "stop", Intent: service.Stopped, Services: []string{"gateway-alice"}}
		return v.Records.Command(context.Background(), c, true)
	},
}

// inParts is the one that changes two things, secrets and profile.yaml: a disk that
// goes on failing can leave it with one of them, which is said.
const inParts = "create what is there"

// prepared is the volume that they are tried on.
func prepared(t *testing.T) *volume {
	t.Helper()
	home, err := os.MkdirTemp("/dev/shm", "rlminit-profiles-")
	if err != nil {
		home = t.TempDir()
	}
	v := &volume{t: t, home: home}
	v.reopen(marked)
	v.create("alice", Creation{Environment: map[string]string{"A": "1"}, Secrets: map[string]string{"S": "s"}})
	v.create("dora", Creation{Intent: service.Stopped, Secrets: map[string]string{"D": "d"}})
	_, err = v.Delete("dora", false, nil)
	must(t, err)
	v.create("apart", Creation{})
	must(t, v.Discard("apart", "apart-revision-1"))
	v.orphan("orphan")
	v.create("bare", Creation{Environment: map[string]string{"A": "1"}})
	v.create("said", Creation{})
	v.write("profiles/said/gateway_state.json", `{"version":1,"profile":"said","desired_state":"stopped"}`)
	return v
}

// done closes it. A test makes thousands.
func (v *volume) done() {
	v.shut()
	v.Store = nil
	must(v.t, os.RemoveAll(v.home))
}

// TestRefusedMeansNotDone: whichever calls a disk fails, once, twice or from then on,
// what was answered with an error was not done, and what was answered without is
// done, now and after a restart. Where a disk that goes on failing does not let it
// be taken back, the error says so, and it is one of the two as a whole.
func TestRefusedMeansNotDone(t *testing.T) {
	for name, do := range verbs {
		t.Run(name, func(t *testing.T) {
			calm := prepared(t)
			before := calm.picture()
			calls := 0
			calm.fail = func(string) error { calls++; return nil }
			must(t, do(calm))
			after := calm.picture()
			calm.again()
			if now := calm.picture(); !reflect.DeepEqual(now, after) || reflect.DeepEqual(before, after) {
				t.Fatalf("on a disk that works: before %+v, after %+v, after a restart %+v", before, after, now)
			}
			calm.done()
			const everAfter = 1 << 30
			for errno, often := range map[error][]int{unix.EIO: {1, 2, everAfter}, unix.ENOSPC: {everAfter}} {
				for _, times := range often {
					for n := range calls {
						v := prepared(t)
						at, last := 0, ""
						v.fail = func(step string) error {
							if at++; at > n && at <= n+times {
								last = step
								return errno
							}
							return nil
						}
						err := do(v)
						v.fail = nil
						why := fmt.Sprintf("%v at call %d, %d times, the last a %s, answered with %v", errno, n+1, times, last, err)
						now := v.picture()
						v.again()
						later := v.picture()
						doubt := errors.Is(err, durable.ErrInDoubt) || errors.Is(err, journal.ErrInDoubt)
						want := before
						if doubt && times > 1 && name == inParts {
							v.done()
							continue
						}
						switch {
						case err == nil:
							want = after
						case doubt && times == 1:
							t.Errorf("%s: one call has failed, and it is in doubt", why)
						case doubt && reflect.DeepEqual(later, after):
							want, now = after, after
						}
						if !reflect.DeepEqual(now, want) && !doubt {
							t.Errorf("%s: there is\n%+v, want\n%+v", why, now, want)
						}
						if !reflect.DeepEqual(later, want) {
							t.Errorf("%s: after a restart there is\n%+v, want\n%+v", why, later, want)
						}
						if left := v.nobodys(); len(left) > 0 {
							t.Errorf("%s: after a restart there are secrets of %q", why, left)
						}
						v.done()
					}
				}
			}
			if calls < 2 {
				t.Errorf("it makes %d calls", calls)
			}
		})
	}
}
