package profiles

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/profiles/statefile"
	"rlminit/service"
	"rlminit/tests/unprivileged"
)

func TestIntentOutlivesWhatIsSeen(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{Intent: service.Running})
	must(t, v.wants("alice", service.Stopped))
	must(t, saveSeen(v.Records, "alice", Seen{State: service.SeenRunning, PID: 42, StartTime: 8731, Restarts: 3, ExitReason: "said \"no\"\n"}))
	v.reopen(nil)
	p, err := v.Load("alice")
	must(t, err)
	r := p.Record
	if r.Origin != service.Recorded || r.Desired != service.Stopped || r.Seen != service.SeenRunning || r.PID != 42 ||
		r.StartTime != 8731 || r.Restarts != 3 || r.ExitReason != `said "no"?` || r.Profile != "alice" || r.Port != p.Port {
		t.Errorf("%+v", r)
	}
}

func TestIntentAndSeenInAnyOrder(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{Intent: service.Running})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := saveSeen(v.Records, "alice", Seen{State: service.SeenRunning, PID: i + 1}); err != nil {
				t.Error(err)
			}
		})
		if i == 10 {
			all.Go(func() {
				if err := v.Records.SaveIntent("alice", service.Stopped); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	v.reopen(nil)
	if p, _ := v.Load("alice"); p.Record.Desired != service.Stopped {
		t.Errorf("the intent is %q", p.Record.Desired)
	}
}

// Only a command changes the intent: not a gateway that writes into its file.
func TestAGatewayCannotChangeTheIntent(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{Intent: service.Stopped})
	v.list()
	for _, text := range []string{`{"desired_state":"running"}`, `{`, ""} {
		v.write("profiles/alice/gateway_state.json", text)
		must(t, saveSeen(v.Records, "alice", Seen{State: service.SeenStopped}))
		if got := v.read("profiles/alice/gateway_state.json"); !strings.Contains(got, `"desired_state":"stopped"`) {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestUnknownKeysAreKept(t *testing.T) {
	v := newVolume(t, nil)
	v.write("profiles/alice/profile.yaml", "")
	v.write("profiles/alice/gateway_state.json", `{"zeta":{"b":1,"a":[1.50,"<&>"]},
		"gateway_state":"degraded","version":3,"profile":"alice","desired_state":null,"alpha":null,"pid":"x","zeta":{"b":2}}`)
	p := v.list()["alice"]
	if p.Record.Origin != service.Recorded || p.Record.Desired != service.IntentNone || p.Record.Seen != service.SeenDegraded || !p.Unrecorded {
		t.Errorf("%+v", p)
	}
	must(t, v.Records.SaveIntent("alice", service.Running))
	want := fmt.Sprintf(`{"version":3,"profile":"alice","desired_state":"running","gateway_state":"degraded","pid":0,"start_time":0,"port":%d,`+
		`"exit_reason":"","restarts":0,"updated_at":"2026-05-24T18:05:33Z","zeta":{"b":2},"alpha":null}`+"\n", p.Port)
	if got := v.read("profiles/alice/gateway_state.json"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestCorruptStateIsKeptAsideAndSaid(t *testing.T) {
	outside := t.TempDir()
	for name, plant := range map[string]func(v *volume, path string){
		"empty":       func(v *volume, path string) { v.write(path, "") },
		"half":        func(v *volume, path string) { v.write(path, `{"desired_state":"run`) },
		"no-object":   func(v *volume, path string) { v.write(path, `["running"]`) },
		"two":         func(v *volume, path string) { v.write(path, `{"desired_state":"running"} {}`) },
		"bad-intent":  func(v *volume, path string) { v.write(path, `{"desired_state":"maybe"}`) },
		"bad-type":    func(v *volume, path string) { v.write(path, `{"desired_state":true}`) },
		"binary":      func(v *volume, path string) { v.write(path, "\x00\xff\x1b[31m") },
		"nested":      func(v *volume, path string) { v.write(path, `{"a":`+strings.Repeat("[", 60_000)) },
		"huge":        func(v *volume, path string) { v.write(path, `{"a":"`+strings.Repeat("x", statefile.Max)+`"}`) },
		"fifo":        func(v *volume, path string) { must(t, unix.Mkfifo(v.path(path), 0o600)) },
		"dir":         func(v *volume, path string) { must(t, os.MkdirAll(v.path(path+"/x"), 0o700)) },
		"link":        func(v *volume, path string) { must(t, os.Symlink(filepath.Join(outside, "f"), v.path(path))) },
		"sparse-link": func(v *volume, path string) { must(t, os.Symlink("/dev/zero", v.path(path))) },
	} {
		t.Run(name, func(t *testing.T) {
			v := newVolume(t, nil)
			path := "profiles/alice/gateway_state.json"
			v.write("profiles/alice/profile.yaml", "")
			plant(v, path)
			p := v.list()["alice"]
			if p.Fault != nil || p.Record.Origin != service.Corrupt || p.Record.Fault == "" || p.Port == 0 || !p.Unrecorded {
				t.Fatalf("%+v", p)
			}
			if strings.ContainsAny(p.Record.Fault, "\n\x1b") {
				t.Errorf("%q", p.Record.Fault)
			}
			must(t, v.Records.SaveIntent("alice", service.Stopped))
			if _, err := os.Lstat(v.path(path + ".corrupt-20260524T180533Z")); err != nil {
				t.Errorf("not kept: %v", err)
			}
			if n := v.said("it is kept as gateway_state.json.corrupt-20260524T180533Z"); n != 1 {
				t.Errorf("said %q", v.told)
			}
			if p := v.list()["alice"]; p.Record.Origin != service.Recorded || p.Record.Desired != service.Stopped || p.Unrecorded {
				t.Errorf("afterwards: %+v", p)
			}
			if entries, _ := os.ReadDir(outside); len(entries) != 0 {
				t.Errorf("wrote outside: %v", entries)
			}
		})
	}
}

func TestImportedStateIsReadOnce(t *testing.T) {
	settings := func(s *Settings) { s.ImportState = "app.json"; s.StateFile = "rlminit_state.json" }
	v := newVolume(t, settings)
	v.write("profiles/alice/profile.yaml", "")
	v.write("profiles/alice/app.json", `{"gateway_state":"running","port":1234,"theirs":1}`)
	p := v.list()["alice"]
	if p.Record.Origin != service.Imported || p.Record.Seen != service.SeenRunning || p.Port == 1234 {
		t.Errorf("%+v", p)
	}
	must(t, v.Records.SaveIntent("alice", service.Running))
	if got := v.read("profiles/alice/app.json"); got != `{"gateway_state":"running","port":1234,"theirs":1}` {
		t.Errorf("the application's file was changed: %s", got)
	}
	v.write("profiles/alice/app.json", `{"gateway_state":"stopped"}`)
	v.reopen(settings)
	if p := v.list()["alice"]; p.Record.Origin != service.Recorded || p.Record.Desired != service.Running {
		t.Errorf("%+v", p.Record)
	}
	v.write("profiles/bob/profile.yaml", "")
	v.write("profiles/bob/app.json", `nonsense`)
	if p := v.list()["bob"]; p.Record.Origin != service.Corrupt || !strings.HasPrefix(p.Record.Fault, "app.json: ") {
		t.Errorf("%+v", p.Record)
	}
	must(t, v.Records.SaveIntent("bob", service.Stopped))
	if n := v.said("cannot take over the state of bob: app.json: corrupt: "); n != 1 {
		t.Errorf("said %q", v.told)
	}
	if got := v.read("profiles/bob/app.json"); got != "nonsense" {
		t.Errorf("the application's file was changed: %s", got)
	}
}

// What is wanted of a service of the configuration is in the journal alone. The file that
// an earlier version has left counts until the journal knows, and goes then.
func TestServicesHaveNoStateFile(t *testing.T) {
	v := newVolume(t, nil)
	if r := v.Records.LoadService("dashboard"); r.Origin != service.Missing {
		t.Errorf("%+v", r)
	}
	v.write("state/services/dashboard.json", `{"version":1,"desired_state":"stopped","gateway_state":"running","pid":7}`)
	v.write("state/services/broken.json", `{`)
	v.reopen(nil) // as when this version comes to the volume
	if r := v.Records.LoadService("dashboard"); r.Desired != service.Stopped {
		t.Errorf("%+v", r)
	}
	if r := v.Records.LoadService("broken"); r.Origin != service.Missing {
		t.Errorf("%+v", r)
	}
	must(t, v.Records.TakeOver(map[string]service.Intent{"dashboard": service.Stopped}, nil))
	v.write("state/services/dashboard.json", `{"desired_state":"running"}`)
	v.reopen(nil)
	v.PrepareBoot(nil)
	if r := v.Records.LoadService("dashboard"); r.Desired != service.Stopped {
		t.Errorf("%+v", r)
	}
	if left, _ := os.ReadDir(v.path("state/services")); len(left) != 1 || left[0].Name() != "broken.json" {
		t.Errorf("left are %v", left)
	}
}

// Of a profile that the journal does not know the file is the record: no copy goes over
// it, whatever is seen.
func TestAFileThatCountsIsNotWrittenOver(t *testing.T) {
	v := newVolume(t, nil)
	v.write("profiles/alice/profile.yaml", "")
	const said = `{"desired_state":"running"}`
	v.write("profiles/alice/gateway_state.json", said)
	if p := v.list()["alice"]; p.Record.Desired != service.Running {
		t.Errorf("%+v", p.Record)
	}
	must(t, saveSeen(v.Records, "alice", Seen{State: service.SeenRunning, PID: 7}))
	if got := v.read("profiles/alice/gateway_state.json"); got != said {
		t.Errorf("%s", got)
	}
}

// A copy that cannot be written fails nothing that the journal has.
func TestAStateFileThatCannotBeWrittenFailsNothing(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{Intent: service.Stopped})
	must(t, os.Remove(v.path("profiles/alice/gateway_state.json")))
	must(t, os.MkdirAll(v.path("profiles/alice/gateway_state.json/in-the-way"), 0o755))
	writing := true
	v.fail = func(step string) error {
		if writing && step == "rename" {
			return unix.EIO
		}
		return nil
	}
	must(t, v.Records.SaveIntent("alice", service.Running))
	must(t, v.wants("alice", service.Stopped))
	if err := saveSeen(v.Records, "alice", Seen{State: service.SeenRunning}); err == nil {
		t.Error("a copy was written over a directory")
	}
	writing = false
	v.reopen(nil)
	if p := v.list()["alice"]; p.Record.Desired != service.Stopped {
		t.Errorf("%+v", p.Record)
	}
}

func TestAVolumeThatCannotBeWrittenIsReadAllTheSame(t *testing.T) {
	if unprivileged.Rerun(t, func(dir string) {
		must(t, os.MkdirAll(filepath.Join(dir, "data/profiles/alice"), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "data/profiles/alice/profile.yaml"), nil, 0o644))
		must(t, os.WriteFile(filepath.Join(dir, "data/profiles/alice/gateway_state.json"), []byte(`{"desired_state":"running"}`), 0o644))
		must(t, os.MkdirAll(filepath.Join(dir, "data/profiles/closed"), 0o700))
	}) {
		return
	}
	v := &volume{t: t, home: filepath.Join(unprivileged.Dir(), "data")}
	v.reopen(nil)
	list := v.list()
	if p := list["alice"]; p.Fault != nil || p.Record.Desired != service.Running || p.Port == 0 {
		t.Errorf("%+v", p)
	}
	if p := list["closed"]; p.Fault == nil || !strings.Contains(p.Fault.Error(), "owned by uid 0") {
		t.Errorf("%+v", p)
	}
	want := fmt.Sprintf("cannot write %s: owned by uid 0, services run as %d; as root: chown -R %d:%d %[1]s, or set RLMINIT_UID and RLMINIT_GID",
		v.home, unprivileged.UID, unprivileged.UID, unprivileged.GID)
	if err := v.CheckWritable(); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	for _, err := range []error{
		v.Records.SaveIntent("alice", service.Stopped),
		func() error { _, _, err := v.Create("bob", Creation{}); return err }(),
		func() error { _, err := v.Delete("alice", false, nil); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "owned by uid 0, services run as") {
			t.Errorf("got %v", err)
		}
	}
}

// A command that was refused because its record could not be made durable has
// not been recorded either.
func TestARefusedIntentIsNotRecorded(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{Intent: service.Running})
	failing := true
	v.fail = func(step string) error {
		if failing && step == "sync" {
			return unix.EIO
		}
		return nil
	}
	if err := v.wants("alice", service.Stopped); err == nil {
		t.Error("recorded")
	}
	failing = false
	v.reopen(nil)
	p, err := v.Load("alice")
	must(t, err)
	if p.Record.Desired != service.Running {
		t.Errorf("recorded is %q", p.Record.Desired)
	}
}

// saveSeen is SaveSeen of one.
func saveSeen(rec *Records, profile string, seen Seen) error {
	return rec.SaveSeen([]string{profile}, []Seen{seen}, 1)[0]
}

// A directory in the place of a state file is kept aside by who writes one next.
func TestADirectoryForAStateFile(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{Intent: service.Running})
	file := v.home + "/profiles/alice/gateway_state.json"
	must(t, os.Remove(file))
	must(t, os.MkdirAll(file+"/something", 0o750))
	must(t, saveSeen(v.Records, "alice", Seen{State: service.SeenRunning, PID: 7}))
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `"pid":7`) {
		t.Errorf("%s, %v", text, err)
	}
	if kept, _ := filepath.Glob(file + ".corrupt-*/something"); len(kept) != 1 {
		t.Errorf("kept aside is %q", kept)
	}
}
