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

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/service"
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
func (o owning) Settle() error             { return nil }

func (o owning) Hands(uid uint32) durable.Hands { return noting{uid, o.asked} }

type noting struct {
	uid   uint32
	asked *[]string
}

var noted sync.Mutex // what any of them has asked

func (n noting) Do(r durable.Request, fds ...int) (durable.Answer, []int, error) {
	a, opened := durable.Carry(r, fds)
	noted.Lock()
	defer noted.Unlock()
	*n.asked = append(*n.asked, fmt.Sprintf("uid %d: %d of %d", n.uid, a.Done, max(len(r.Steps), 1)))
	return a, opened, nil
}

// A plain profile is made in one errand, and one whose name is taken is refused
// without anything of the other's being lost.
func TestACreationIsOneErrand(t *testing.T) {
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

// A copy over what was written last takes no look before; where somebody has written
// something else meanwhile, that is what the table is asked about.
func TestACopyOverWhatWasWrittenLastIsOneErrand(t *testing.T) {
	v := prepared(t)
	defer v.done()
	var asked []string
	defer func(is *durable.Dir) { v.tree.home = is }(v.tree.home)
	v.tree.home = v.tree.home.By(noting{asked: &asked})
	of, file := Gateway("alice"), "profiles/alice/gateway_state.json"
	pid := 0
	command := func(intent service.Intent) {
		t.Helper()
		must(t, v.Records.Command(t.Context(), Command{Verb: "x", Intent: intent, Services: []string{of.String()}}, []Subject{of}, false))
		must(t, saveSeen(v.Records, of, Seen{State: service.SeenRunning, PID: pid}))
	}
	see := func() {
		t.Helper()
		pid++
		must(t, saveSeen(v.Records, of, Seen{State: service.SeenRunning, PID: pid}))
	}
	says := func(want string, errands int) {
		t.Helper()
		if text := v.read(file); !strings.Contains(text, want) || len(asked) != errands {
			t.Errorf("it says %s, want %s, by %v", text, want, asked)
		}
		asked = nil
	}
	see()
	says(`"pid":1,`, 2)
	see()
	says(`"pid":2,`, 1)
	command(service.Stopped)
	says(`"desired_state":"stopped"`, 1)
	see()
	says(`"pid":3,`, 1)
	edited := strings.Replace(v.read(file), "stopped", "running", 1)
	v.write(file, edited)
	see()
	says(`"desired_state":"running"`, 2) // waits to be adopted
	command(service.Running)
	command(service.Stopped)
	says(`"desired_state":"stopped"`, 3) // a look and a copy, and another one
	v.write(file, edited)
	v.Records.copied([]Subject{of}) // the same once more
	says(`"desired_state":"stopped"`, 2)
	must(t, os.Remove(v.path(file)))
	see()
	says(`"pid":5,`, 3)
}

// Copies of many are written together, whatever becomes of one: who has written
// something else into a file keeps it, one that belongs to another user is written as
// that user, and somebody who is busy with a profile holds up nobody else's copy.
func TestCopiesOfManyAreWrittenTogether(t *testing.T) {
	const many = 3*together - 5
	uid := uint32(4711)
	v := prepared(t)
	defer v.done()
	var asked []string
	is := v.tree.home
	defer func() { v.tree.home = is }()
	v.tree.home = is.By(byOwner{home: is, user: noting{asked: &asked}, owners: owning{uid, &asked}, recorded: func(string) uint32 { return 0 }})
	var of []Subject
	wanted := map[Subject]service.Intent{}
	for i := range many {
		one := Gateway(fmt.Sprintf("p%03d", i))
		of, wanted[one] = append(of, one), service.Running
		v.write("profiles/"+one.Profile+"/profile.yaml", "")
	}
	must(t, v.Records.TakeOver(wanted, of))
	file := func(i int) string { return "profiles/" + of[i].Profile + "/gateway_state.json" }
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
	must(t, os.Chown(v.path("profiles/"+of[1].Profile), int(uid), int(uid)))
	edited := strings.Replace(v.read(file(2)), "running", "stopped", 1)
	v.write(file(2), edited)
	v.write(file(3), "{")
	must(t, os.RemoveAll(v.path("profiles/"+of[4].Profile)))
	asked = nil
	for i, err := range see() {
		if (err == nil) != (i != 3 && i != 4) {
			t.Errorf("%s: %v", of[i], err)
		}
		if i < 2 || i > 4 {
			shown(i, 3)
		}
	}
	if v.read(file(2)) != edited || v.read(file(3)) != "{" {
		t.Error("what somebody wrote is gone")
	}
	if n := strings.Count(fmt.Sprint(asked), fmt.Sprint("uid ", uid)); n != 1 {
		t.Errorf("the other user's took %d errands", n)
	}
	unlock := v.tree.names.lock(of[0].key())
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

// What a command has recorded counts over the file with the next copy that succeeds, and
// with no other after that; what is recorded while a copy is written waits for the next.
func TestACopyIsOwedUntilTheFileSaysWhatIsRecorded(t *testing.T) {
	v := prepared(t)
	defer v.done()
	of, file := Gateway("alice"), "profiles/alice/gateway_state.json"
	command := func(intent service.Intent) error {
		return v.Records.Command(t.Context(), Command{Verb: "x", Intent: intent, Services: []string{of.String()}}, []Subject{of}, true)
	}
	pid := 0
	see := func() error {
		pid++
		return saveSeen(v.Records, of, Seen{State: service.SeenRunning, PID: pid})
	}
	says := func(intent service.Intent) {
		t.Helper()
		if text := v.read(file); !strings.Contains(text, fmt.Sprintf(`"desired_state":%q`, intent)) {
			t.Errorf("it says %s, want %s", text, intent)
		}
	}
	must(t, command(service.Running))
	must(t, see())
	must(t, command(service.Stopped))
	v.tree.home.Fail(func(string) error { return unix.ENOSPC })
	if see() == nil {
		t.Error("a copy on a full disk succeeded")
	}
	v.tree.home.Fail(nil)
	says(service.Running)
	must(t, see())
	says(service.Stopped)

	v.write(file, strings.Replace(v.read(file), "stopped", "running", 1))
	must(t, see())
	says(service.Running) // waits to be adopted

	must(t, command(service.Running))
	meanwhile := error(nil)
	v.tree.home.Fail(func(string) error {
		v.tree.home.Fail(nil)
		meanwhile = command(service.Stopped)
		return nil
	})
	must(t, see())
	must(t, meanwhile)
	says(service.Running)
	must(t, see())
	says(service.Stopped)
}
