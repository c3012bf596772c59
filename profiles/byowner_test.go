package profiles

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"testing"

	"rlminit/internal/durable"
)

// owning are Owners whose hands are ours, and that note what is asked of whom.
type owning struct {
	uid   uint32
	asked *[]string
}

func (o owning) Auto() bool                { return true }
func (o owning) Range() (low, high uint32) { return o.uid, o.uid }
func (o owning) Services() uint32          { return 0 }
func (o owning) Give(uint32, int) error    { return errors.New("not here") }
func (o owning) Take(uint32, int) error    { return errors.New("not here") }

func (o owning) Hands(uid uint32) durable.Hands { return noting{uid, o.asked} }

type noting struct {
	uid   uint32
	asked *[]string
}

func (n noting) Do(r durable.Request, fds ...int) (durable.Answer, []int, error) {
	a, opened := durable.Carry(r, fds)
	*n.asked = append(*n.asked, fmt.Sprintf("uid %d: %d of %d", n.uid, a.Done, max(len(r.Steps), 1)))
	return a, opened, nil
}

// A plain profile is made in one errand, and one whose name is taken is refused
// without anything of the other's being lost.
func TestACreationIsOneErrand(t *testing.T) {
	v := newVolume(t, nil)
	var asked []string
	v.tree.home = v.tree.home.By(noting{asked: &asked})
	must(t, v.Store.list.prime())
	asked = nil
	p, _, err := v.Create("alice", Creation{Environment: map[string]string{"A": "1"}})
	must(t, err)
	if len(asked) != 1 {
		t.Errorf("it took %v", asked)
	}
	if read, err := v.Load("alice"); err != nil || !reflect.DeepEqual(p, read) {
		t.Errorf("created was %+v, and there is %+v, %v", p, read, err)
	}
	_, _, err = v.Create("bob", Creation{Secrets: map[string]string{"S": "s"}})
	must(t, err)
	for _, name := range []string{"alice", "bob"} {
		before, err := v.Load(name)
		must(t, err)
		secrets, err := v.Secrets.Of(name)
		must(t, err)
		if _, _, err := v.Create(name, Creation{Secrets: map[string]string{"S": "other"}}); !errors.Is(err, ErrExists) {
			t.Errorf("created twice: %v", err)
		}
		after, err := v.Load(name)
		must(t, err)
		if now, err := v.Secrets.Of(name); err != nil || !reflect.DeepEqual(now, secrets) || !reflect.DeepEqual(before, after) {
			t.Errorf("%s had %v and was %+v; it has %v and is %+v, %v", name, secrets, before, now, after, err)
		}
	}
}

// Steps in a directory that is another's are taken by that one, and the others by the
// services' user, in their order.
func TestStepsAreTakenByWhoseTheDirectoryIs(t *testing.T) {
	v := newVolume(t, nil)
	for _, dir := range []string{"a", "b"} {
		must(t, os.Mkdir(v.path("profiles/"+dir), 0o755))
	}
	uid := uint32(4711)
	if os.Getuid() == 0 {
		must(t, os.Chown(v.path("profiles/b"), 4711, 4711))
	} else {
		uid = uint32(os.Getuid())
		must(t, os.Remove(v.path("profiles/a"))) // it would be that one's too
	}
	var asked []string
	is := v.tree.home
	dir := is.By(byOwner{home: is, user: noting{asked: &asked}, owners: owning{uid, &asked}, recorded: func(string) uint32 { return 0 }})
	how := durable.Write{Mode: 0o600}
	var steps durable.Steps
	steps.Absent("profiles/c")
	steps.WriteFile("profiles/b/1", nil, how)
	steps.WriteFile("profiles/b/2", nil, how)
	steps.Mkdir("c", 0o700)
	steps.RenameNew("c", "profiles/c")
	done, err := steps.Take(dir)
	want := fmt.Sprint([]string{"uid 0: 1 of 5", fmt.Sprintf("uid %d: 1 of 1", uid), "uid 0: 0 of 3", fmt.Sprintf("uid %d: 1 of 1", uid), "uid 0: 2 of 2"})
	if err != nil || done != 5 || fmt.Sprint(asked) != want {
		t.Errorf("%d, %v: %v, want %s", done, err, asked, want)
	}
	for _, rel := range []string{"profiles/b/1", "profiles/b/2", "profiles/c"} {
		if _, err := os.Stat(v.path(rel)); err != nil {
			t.Error(err)
		}
	}
	steps = nil
	steps.WriteFile("profiles/b/3", nil, how)
	steps.RenameNew("profiles/c", "profiles/b")
	steps.Absent("profiles/d")
	if done, err := steps.Take(dir); done != 1 || !errors.Is(err, os.ErrExist) {
		t.Errorf("%d, %v", done, err)
	}
}
