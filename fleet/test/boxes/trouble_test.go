package boxes

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"rlminit/control"
	"rlminit/fleet/status"
)

// why is what fleet status says of a profile.
func (f *fleet) why(name string) status.Profile {
	f.Helper()
	var all []status.Profile
	f.must(json.Unmarshal([]byte(f.does(control.ExitDone, "status", name, "--json")), &all))
	return all[0]
}

// says waits until something is said.
func (f *fleet) says(what, fragment string, ask func() string) string {
	f.Helper()
	text := ""
	for begun := time.Now(); time.Since(begun) < time.Minute; <-time.After(100 * time.Millisecond) {
		if text = ask(); strings.Contains(text, fragment) {
			f.Logf("%s: %s", what, text)
			return text
		}
	}
	f.Fatalf("%s: nothing of %q is said within a minute, but: %s", what, fragment, text)
	return ""
}

// ofAgent is what rlminit status says of the service fleet.
func (f *fleet) ofAgent(name string) func() string {
	return func() string {
		pid := f.initOf(name)
		if pid == "" {
			return "" // not yet
		}
		out, _ := exec.Command("nsenter", "-t", pid, "-p", "-m", filepath.Join(f.bin, "rlminit"), "status", "fleet").CombinedOutput() // it may not answer yet
		return string(out)
	}
}

// TestTrouble has what goes wrong at a member be seen where people look.
func TestTrouble(t *testing.T) {
	f := beginWith(t, strings.Replace(configuration, "every: 1h", "every: 2s", 1), "m0", "m1")
	f.says("at rest", "member m0 of the fleet f, profiles: 0", f.ofAgent("m0"))
	if code := f.apply(declared(1, "1")); code != control.ExitApplied {
		t.Fatalf("the apply: exit code %d", code)
	}
	first := f.why("p0")
	other := map[string]string{"m0": "m1", "m1": "m0"}[first.Owner]
	note := filepath.Join(f.boxes[first.Owner].dir, "data/profiles/p0/note")

	// What rlminit refuses stops nothing.
	if code := f.apply("version: 1\nprofiles:\n  p0: {kind: nonesuch}\n"); code != control.ExitUnhealthy {
		t.Errorf("a kind that no member has: exit code %d", code)
	}
	f.eventually("it runs as before", func(w map[string]string) bool { return len(w) == 1 })
	if now := f.why("p0"); now.Fence != first.Fence {
		t.Errorf("fence %d is %d now", first.Fence, now.Fence)
	}
	pid := f.pid(first.Owner, "p0")
	f.says("nothing fails any more", "[]", func() string { return "[" + f.why("p0").Why + "]" })

	// The bucket takes nothing.
	f.must(os.Chmod(f.bucket, 0o555))
	f.must(os.Chown(f.bucket, 0, 0))
	hidden := f.bucket + ".away"
	f.must(os.Rename(f.bucket, hidden))
	f.must(os.WriteFile(f.bucket, nil, 0o600))
	f.says("a save fails", "its data cannot be stored at "+first.Owner, func() string { return f.why("p0").Why })
	if now := f.pid(first.Owner, "p0"); now != pid {
		t.Errorf("the gateway was pid %d, and is %d", pid, now)
	}
	f.does(control.ExitTimedOut, "move", "p0", other, "--timeout", "6s")
	stuck := f.why("p0")
	if stuck.State == "running" || !strings.Contains(stuck.Why, "its data cannot be stored") {
		t.Errorf("while it cannot move: %+v", stuck)
	}

	// Nor is it given back without its data by an agent that begins meanwhile, when the box
	// knows no more that it ran.
	f.must(os.WriteFile(note, []byte("kept"), 0o600))
	f.must(os.Chown(note, 1000, 1000))
	<-time.After(lease) // until its last deadline has passed
	f.inside(first.Owner, "signal", "KILL", "fleet")
	f.says("the next agent cannot store it either", "its data cannot be stored at "+first.Owner, func() string { return f.why("p0").Why })
	f.must(os.Remove(f.bucket))
	f.must(os.Rename(hidden, f.bucket))
	f.must(os.Chmod(f.bucket, 0o777))
	f.eventually("it has moved", func(w map[string]string) bool { return w["p0"] == other })
	if text, err := os.ReadFile(strings.Replace(note, "/"+first.Owner+"/", "/"+other+"/", 1)); err != nil || string(text) != "kept" {
		t.Errorf("what the next agent has stored: %q, %v", text, err)
	}
	if why := f.why("p0").Why; strings.Contains(why, "stored") {
		t.Errorf("it is stored again, and this is said: %s", why)
	}

	// Somebody stops it by hand.
	f.inside(other, "stop", "p0")
	f.says("it was stopped there", "declare state: stopped", func() string { return f.why("p0").Why })

	f.must(f.etcd.Nodes[0].Pause())
	f.says("etcd does not answer", "etcd does not answer", f.ofAgent("m0"))
	f.must(f.etcd.Nodes[0].Resume())
	f.says("etcd answers", "member m0 of the fleet f, profiles:", f.ofAgent("m0"))

	// Another box of the same name, with a user whom nobody asks for.
	twin := &box{name: "twin", dir: filepath.Join(filepath.Dir(f.bin), "twin")}
	f.boxes["twin"] = twin
	password := filepath.Join(filepath.Dir(f.bin), "password")
	f.must(os.WriteFile(password, []byte("secret"), 0o644))
	text := strings.Replace(configuration, "member: %[3]s", "member: m0", 1)
	f.lay(twin, strings.Replace(text, "timeout: 2s", "timeout: 2s, user: {name: u, password: {file: "+password+"}}", 1), f.etcd.Endpoints())
	f.start(twin)
	f.says("a second m0", "the member m0 is there already", f.ofAgent("twin"))
	<-time.After(5 * time.Second)
	f.kill(twin)
	if out := twin.out.String(); strings.Count(out, "is there already") != 1 || !strings.Contains(out, "etcd asks nobody for a user") {
		t.Errorf("the log of the second m0: %s", out)
	}
	delete(f.boxes, "twin")
}

func (f *fleet) pid(member, name string) int {
	f.Helper()
	var all []control.Service
	f.must(json.Unmarshal(f.inside(member, "status", name, "--json"), &all))
	if len(all) != 1 || all[0].PID == nil {
		f.Fatalf("%s does not run at %s: %+v", name, member, all)
	}
	return int(*all[0].PID)
}

// TestOwnUsers has an agent refuse data where profiles have users of their own, and then,
// without those, has what is left of them go along.
func TestOwnUsers(t *testing.T) {
	auto := strings.Replace(configuration, "  deadline: required\n", "  deadline: required\n  user: auto\n", 1)
	f := beginWith(t, strings.Replace(auto, `, data: {bucket: "file://%[6]s", every: 1h}`, "", 1)+"# %[6]s\n", "m0", "m1")
	f.says("at rest", "member m0 of the fleet f, profiles: 0", f.ofAgent("m0"))
	if code := f.apply(declared(1, "1")); code != control.ExitApplied {
		t.Fatalf("the apply: exit code %d", code)
	}
	was := f.why("p0")
	from, other := was.Owner, map[string]string{"m0": "m1", "m1": "m0"}[was.Owner]
	note := func(member string) string { return filepath.Join(f.boxes[member].dir, "data/profiles/p0/note") }
	f.does(control.ExitExists, "drain", from)
	f.does(control.ExitExists, "move", "p0", other)
	f.does(control.ExitDone, "drain", other, "--without-data")
	f.must(os.WriteFile(note(from), []byte("kept"), 0o600))
	info, err := os.Stat(filepath.Dir(note(from)))
	f.must(err)
	own := int(info.Sys().(*syscall.Stat_t).Uid)
	f.must(os.Chown(note(from), own, own))

	for name, b := range f.boxes {
		f.lay(b, auto, f.etcd.Endpoints())
		f.inside(name, "signal", "TERM", "fleet")
		f.says("it is refused", "gateway.user is auto", f.ofAgent(name))
		if code, out, err := f.check(b); code != control.ExitFailed || !strings.Contains(err, "rlminit.yaml:") || !strings.Contains(err, "gateway.user is auto") {
			t.Errorf("check: exit code %d: %s%s", code, out, err)
		}
	}
	for _, b := range f.boxes {
		f.lay(b, configuration, f.etcd.Endpoints())
		if code, out, err := f.check(b); code != control.ExitDone || !strings.Contains(out, "valid") {
			t.Errorf("check: exit code %d: %s%s", code, out, err)
		}
		f.kill(b)
		f.start(b)
	}
	f.eventually("it runs again", func(w map[string]string) bool { return len(w) == 1 && f.why("p0").Fence > was.Fence })
	f.does(control.ExitDone, "drain", other, "--undo")
	f.does(control.ExitDone, "move", "p0", other)
	if text, err := os.ReadFile(note(other)); err != nil || string(text) != "kept" {
		t.Errorf("what a user of its own had written has not come along: %q, %v", text, err)
	}

	// A directory that is not the agent's is not written over; who deletes it gets the save.
	f.must(exec.Command("chown", "-R", fmt.Sprint(own), filepath.Dir(note(from))).Run())
	f.must(os.Chmod(filepath.Dir(note(from)), 0o700))
	if code, out, err := f.verb("move", "p0", from, "--timeout", "20s"); code == control.ExitDone {
		t.Errorf("it has moved into a directory of another user: %s%s", out, err)
	}
	f.says("it does not move", "rlminit profile delete p0", func() string { return f.why("p0").Why })
	f.inside(from, "profile", "delete", "p0")
	f.eventually("it runs", func(w map[string]string) bool { return len(w) == 1 })
	if now := f.why("p0"); now.Owner != from {
		f.does(control.ExitDone, "move", "p0", from)
	}
	if text, err := os.ReadFile(note(from)); err != nil || string(text) != "kept" {
		t.Errorf("after the directory was deleted: %q, %v", text, err)
	}
}

func (f *fleet) check(b *box) (code int, out, err string) {
	return f.verb("check", filepath.Join(b.dir, "rlminit.yaml"))
}

// TestForeignNames has names that something else has in one box: what has them is left alone,
// and the profiles run in the other box. A key with a name that nothing can have keeps nobody
// from beginning a session.
func TestForeignNames(t *testing.T) {
	f := begin(t, "m0", "m1")
	f.says("at rest", "member m0 of the fleet f, profiles: 0", f.ofAgent("m0"))
	f.kill(f.boxes["m0"])
	text := strings.Replace(configuration, "fleet:", "gateways: {local: {command: [sleep, infinity]}}\nservices: {plain: {command: [sleep, infinity]}}\nfleet:", 1)
	f.lay(f.boxes["m0"], text, f.etcd.Endpoints())
	f.put("profiles/../../x", "{}")
	f.start(f.boxes["m0"])
	f.says("m0 is back", "member m0 of the fleet f, profiles: 0", f.ofAgent("m0"))
	pid := f.initOf("m0")
	in := func(args ...string) string {
		out, err := exec.Command("nsenter", append([]string{"-t", pid, "-p", "-m", filepath.Join(f.bin, "rlminit")}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	in("profile", "create", "bob", "--kind", "local")
	in("wait", "bob")
	note := filepath.Join(f.boxes["m0"].dir, "data/profiles/bob/profile.yaml")
	before, err := os.ReadFile(note)
	f.must(err)
	f.put("profiles/bob", "{}") // which m0 may try once, before it has looked at what it has
	f.eventually("bob runs at m1", func(w map[string]string) bool { return w["bob"] == "m1" })
	if code := f.apply("version: 1\nprofiles:\n  plain: {}\n  bob: {}\n  other: {}\n", "--timeout", "1m"); code != control.ExitApplied {
		t.Errorf("the apply: exit code %d", code)
	}
	f.eventually("they run at m1", func(w map[string]string) bool { return w["plain"] == "m1" && w["bob"] == "m1" && w["other"] != "" })
	f.says("why", "m0: it has a service or a profile of its own of that name", func() string { return f.does(control.ExitDone, "why", "plain") })
	for _, name := range []string{"plain", "bob", "fleet"} {
		if out := in("status", name); !strings.Contains(out, "running") {
			t.Errorf("%s at m0: %s", name, out)
		}
	}
	if after, err := os.ReadFile(note); err != nil || string(after) != string(before) {
		t.Errorf("the local profile's file was %q, and is %q, %v", before, after, err)
	}
}

// put puts a key of the fleet's by hand.
func (f *fleet) put(key, value string) {
	f.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: f.etcd.Endpoints(), DialTimeout: 5 * time.Second})
	f.must(err)
	defer client.Close()
	_, err = client.Put(f.Context(), "/rlminit/f/"+key, value)
	f.must(err)
}
