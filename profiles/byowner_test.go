package profiles

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"rlminit/internal/durable"
	"rlminit/service"
)

// owning are Owners whose helper is ours, and that note what is asked of whom.
type owning struct {
	uid   uint32
	none  bool // there are none any more
	asked *[]string
}

func (o owning) Auto() bool                { return !o.none }
func (o owning) Range() (low, high uint32) { return o.uid, o.uid }
func (o owning) Services() uint32          { return 0 }
func (o owning) Give(uint32, int) (durable.Handed, error) {
	return durable.Handed{}, errors.New("not here")
}

func (o owning) Take(uint32, int) (durable.Handed, error) {
	return durable.Handed{}, errors.New("not here")
}
func (o owning) Own(string) (did durable.Handed, err error) { return did, nil }
func (o owning) Settle() error                              { return nil }

func (o owning) Helper(uid uint32) durable.Helper { return noting{uid, o.asked} }

type noting struct {
	uid   uint32
	asked *[]string
}

var noted sync.Mutex // what any of them has asked

func (n noting) Do(r durable.Request, fds ...int) (durable.Answer, []int, error) {
	as := []uint32{}
	a, opened := durable.CarryAs(n.uid, r, fds, func(uid uint32, do func()) error {
		as = append(as, uid)
		do()
		return nil
	})
	noted.Lock()
	defer noted.Unlock()
	*n.asked = append(*n.asked, fmt.Sprintf("uids %d: %d of %d", as, a.Done, max(len(r.Steps), 1)))
	return a, opened, nil
}

// A plain profile is made in one request, and one whose name is taken is refused
// without anything of the other's being lost.
func TestACreationIsOneRequest(t *testing.T) {
	v := newVolume(t, nil)
	var asked []string
	defer func(is *durable.Dir) { v.tree.home = is }(v.tree.home)
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
	dir := is.By(byOwner{home: is, user: noting{asked: &asked}, owners: owning{uid: uid, asked: &asked}, recorded: func(string) uint32 { return 0 }})
	how := durable.Write{Mode: 0o600}
	var steps durable.Steps
	steps.Absent("profiles/c")
	steps.WriteFile("profiles/b/1", nil, how)
	steps.WriteFile("profiles/b/2", nil, how)
	steps.Mkdir("c", 0o700)
	steps.RenameNew("c", "profiles/c")
	done, err := steps.Take(dir)
	want := fmt.Sprint([]string{fmt.Sprintf("uids [0 %d 0 %d 0]: 5 of 5", uid, uid)})
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

// A copy is one request, and what the file has is not looked at: what is recorded is
// written, with what was seen, whatever somebody has put there.
func TestACopyIsOneRequest(t *testing.T) {
	v := prepared(t)
	defer v.done()
	var asked []string
	defer func(is *durable.Dir) { v.tree.home = is }(v.tree.home)
	v.tree.home = v.tree.home.By(noting{asked: &asked})
	const file = "profiles/alice/gateway_state.json"
	for pid, want := range []service.Intent{service.Running, service.Stopped, service.Stopped, service.Running, service.Running} {
		must(t, v.wants("alice", want))
		asked = nil
		must(t, saveSeen(v.Records, "alice", Seen{State: service.SeenRunning, PID: pid}))
		if text := v.read(file); !strings.Contains(text, fmt.Sprintf(`"desired_state":%q,"gateway_state":"running","pid":%d,`, want, pid)) || len(asked) != 1 {
			t.Errorf("it says %s, by %v", text, asked)
		}
		switch pid {
		case 1:
			v.write(file, `{"desired_state":"running"}`)
		case 2:
			v.write(file, "{")
		case 3:
			must(t, os.Remove(v.path(file)))
		}
	}
}

// Copies of many are written together, whatever becomes of one: one that belongs to
// another user is written as that user, one whose profile is gone fails alone, and somebody
// who is busy with a profile holds up nobody else's copy.
func TestCopiesOfManyAreWrittenTogether(t *testing.T) {
	const many = 3*copiesTogether - 5
	uid := uint32(4711)
	v := prepared(t)
	defer v.done()
	var asked []string
	is := v.tree.home
	defer func() { v.tree.home = is }()
	v.tree.home = is.By(byOwner{home: is, user: noting{asked: &asked}, owners: owning{uid: uid, asked: &asked}, recorded: func(string) uint32 { return 0 }})
	var of []string
	wanted := map[string]service.Intent{}
	for i := range many {
		name := fmt.Sprintf("p%03d", i)
		of, wanted[GatewayName(name)] = append(of, name), service.Running
		v.write("profiles/"+name+"/profile.yaml", "")
	}
	must(t, v.Records.TakeOver(wanted, of))
	file := func(i int) string { return "profiles/" + of[i] + "/gateway_state.json" }
	seen := make([]Seen, many)
	see := func() []error {
		for i := range seen {
			seen[i] = Seen{State: service.SeenRunning, PID: seen[i].PID + 1}
		}
		return v.Records.SaveSeen(of, seen, 2)
	}
	shown := func(i, pid int) {
		t.Helper()
		if text := v.read(file(i)); !strings.Contains(text, fmt.Sprintf(`"pid":%d,`, pid)) {
			t.Errorf("%s has %s, want pid %d", of[i], text, pid)
		}
	}
	must(t, errors.Join(see()...))
	asked = nil
	must(t, errors.Join(see()...))
	if len(asked) != 3 {
		t.Errorf("%d copies took %v", many, asked)
	}
	must(t, os.Chown(v.path("profiles/"+of[1]), int(uid), int(uid)))
	v.write(file(3), "{")
	must(t, os.RemoveAll(v.path("profiles/"+of[4])))
	asked = nil
	for i, err := range see() {
		if (err == nil) != (i != 4) {
			t.Errorf("%s: %v", of[i], err)
		}
		if i != 4 {
			shown(i, 3)
		}
	}
	if n := strings.Count(fmt.Sprint(asked), fmt.Sprint(" ", uid, "]")); n != 1 {
		t.Errorf("the other user's took %d requests", n)
	}
	unlock := v.tree.names.lock(of[0])
	done := make(chan []error)
	go func() { done <- see() }()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(v.read(file(5)), `"pid":4,`) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	shown(5, 4)
	shown(0, 3)
	unlock()
	<-done
	shown(0, 4)
}
