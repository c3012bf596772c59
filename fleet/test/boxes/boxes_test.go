// Package boxes runs members as they are: rlminit as PID 1 of namespaces, with the agent
// as a service of it, on a real etcd. It needs root.
package boxes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/fleet/test/check"
	"rlminit/fleet/test/cluster"
	"rlminit/fleet/verbs"
)

const lease = 10 * time.Second

// box is one member's container.
type box struct {
	name, dir string
	init      *exec.Cmd
	out       bytes.Buffer
	done      chan struct{}
}

// fleet is a few boxes on an etcd.
type fleet struct {
	*testing.T
	bin, recordings string
	bucket          string
	boxes           map[string]*box
	etcd            *cluster.Cluster
}

const configuration = `version: 1
user: "1000:1000"
stop_timeout: 5s
gateway:
  command: [%[1]s/recorder, %[2]s]
  environment: {PROFILE: "${PROFILE}", MEMBER: %[3]s}
  deadline: required
  stop: {timeout: 1s}
fleet: {name: f, member: %[3]s, lease: %[4]s, etcd: {endpoints: [%[5]s], timeout: 2s}, data: {bucket: "file://%[6]s", every: 1h}}
`

func begin(t *testing.T, members ...string) *fleet { return beginWith(t, configuration, members...) }

func beginWith(t *testing.T, configuration string, members ...string) *fleet {
	if os.Geteuid() != 0 {
		t.Fatal("namespaces of members are made by root; run this test as root")
	}
	f := &fleet{T: t, boxes: map[string]*box{}}
	root, err := cluster.Root()
	f.must(err)
	_, err = cluster.Compile("recorder", "./test/recorder")
	f.must(err)
	_, err = cluster.Compile("rlminit-fleet", "./cmd/rlminit-fleet")
	f.must(err)
	build := exec.Command("go", "build", "-tags", "nethttpomithttp2", "-trimpath", "-ldflags", "-E rlminit/reap/sys.entry", "-o", "bin/fleet-test/", "./cmd/rlminit")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f.etcd = cluster.Start(t, 1)
	// Not t.TempDir: the service user must be able to enter it.
	dir, err := os.MkdirTemp("/var/tmp", "rlminit-fleet-")
	f.must(err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	f.must(os.Chmod(dir, 0o755))
	f.bin, f.recordings = filepath.Join(dir, "bin"), filepath.Join(dir, "recordings")
	f.must(exec.Command("cp", "-R", filepath.Join(root, "bin/fleet-test"), f.bin).Run())
	f.must(os.Mkdir(f.recordings, 0o777))
	f.must(os.Chmod(f.recordings, 0o777))
	f.bucket = filepath.Join(dir, "bucket")
	f.must(os.Mkdir(f.bucket, 0o777))
	f.must(os.Chmod(f.bucket, 0o777))
	for _, name := range members {
		b := &box{name: name, dir: filepath.Join(dir, name)}
		f.boxes[name] = b
		f.lay(b, configuration, f.etcd.Endpoints())
		f.start(b)
	}
	t.Cleanup(func() {
		for _, b := range f.boxes {
			f.kill(b)
			if t.Failed() {
				t.Logf("%s:\n%s", b.name, b.out.String())
			}
		}
	})
	return f
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) lay(b *box, configuration string, endpoints []string) {
	f.must(os.MkdirAll(filepath.Join(b.dir, "data"), 0o755))
	f.must(os.Chown(filepath.Join(b.dir, "data"), 1000, 1000))
	text := fmt.Sprintf(configuration, f.bin, f.recordings, b.name, lease, strings.Join(endpoints, ", "), f.bucket)
	f.must(os.WriteFile(filepath.Join(b.dir, "rlminit.yaml"), []byte(text), 0o644))
}

// stage mounts what a container has for itself, and becomes rlminit.
const stage = `mount -t tmpfs -o mode=755 tmpfs /run && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec "$0" init --`

func (f *fleet) start(b *box) {
	b.init = exec.Command("unshare", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child", "sh", "-c", stage, filepath.Join(f.bin, "rlminit"))
	b.init.Env = []string{"PATH=" + f.bin + ":/usr/sbin:/usr/bin:/sbin:/bin", "RLMINIT_HOME=" + b.dir + "/data", "RLMINIT_CONFIG=" + b.dir + "/rlminit.yaml"}
	b.init.Stdout, b.init.Stderr = &b.out, &b.out
	b.init.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	f.must(b.init.Start())
	b.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait() // it is killed
		close(done)
	}(b.init, b.done)
}

// kill ends a box at once, as the loss of its machine does.
func (f *fleet) kill(b *box) {
	_ = b.init.Process.Kill() // it may have ended
	<-b.done
}

// verb runs rlminit fleet, with the configuration of a member.
func (f *fleet) verb(args ...string) (code int, out, err string) {
	f.Helper()
	var o, e bytes.Buffer
	for _, b := range f.boxes {
		args = append(args, "--config", filepath.Join(b.dir, "rlminit.yaml"))
		break
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	code = verbs.Main(ctx, args, &o, &e)
	return code, o.String(), e.String()
}

func (f *fleet) does(want int, args ...string) string {
	f.Helper()
	code, out, err := f.verb(args...)
	if code != want {
		f.Fatalf("rlminit fleet %s: exit code %d, not %d: %s%s", strings.Join(args, " "), code, want, out, err)
	}
	return out
}

// where is the member of each profile that runs.
func (f *fleet) where() map[string]string {
	f.Helper()
	var all []struct{ Name, State, Owner string }
	f.must(json.Unmarshal([]byte(f.does(control.ExitDone, "status", "--json")), &all))
	out := map[string]string{}
	for _, s := range all {
		if s.State == "running" {
			out[s.Name] = s.Owner
		}
	}
	return out
}

func (f *fleet) eventually(what string, right func(map[string]string) bool) time.Duration {
	f.Helper()
	begun := time.Now()
	for {
		where := f.where()
		if right(where) {
			return time.Since(begun)
		}
		if time.Since(begun) > 2*time.Minute {
			f.Fatalf("not within two minutes: %s: %v", what, where)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// apply declares profiles that differ by a variable, and returns the exit code.
func (f *fleet) apply(text string, more ...string) int {
	f.Helper()
	set := filepath.Join(filepath.Dir(f.bin), "set.yaml")
	f.must(os.WriteFile(set, []byte(text), 0o644))
	var p struct{ Hash string }
	f.must(json.Unmarshal([]byte(f.does(control.ExitPending, "plan", set, "--json")), &p))
	code, out, err := f.verb(append([]string{"apply", set, "--approve", p.Hash, "--steady", "1s"}, more...)...)
	f.Logf("apply: exit code %d: %s%s", code, out, err)
	return code
}

func declared(n int, value string) string {
	var b strings.Builder
	b.WriteString("version: 1\nprofiles:\n")
	for i := range n {
		fmt.Fprintf(&b, "  p%d: {environment: {REVISION: %q}}\n", i, value)
	}
	return b.String()
}

// overlaps are the gateways of one profile that ran at once.
func (f *fleet) overlaps() (found []string) {
	f.Helper()
	runs, err := check.Read(f.recordings)
	f.must(err)
	for i, a := range runs {
		for _, b := range runs[i+1:] {
			if a.Profile == b.Profile && a.Start <= b.Last && b.Start <= a.Last {
				found = append(found, fmt.Sprintf("%s: fence %s at %s and fence %s at %s", a.Profile, a.Fence, a.Member, b.Fence, b.Member))
			}
		}
	}
	if len(runs) == 0 {
		f.Error("nothing was recorded")
	}
	return found
}

// TestBoxes has three boxes share profiles: a change of all, one that fails, a move, a
// drain, the loss of a box, and the loss of an agent.
func TestBoxes(t *testing.T) {
	f := begin(t, "m0", "m1", "m2")
	const n = 6
	f.eventually("all members are there", func(map[string]string) bool {
		var all []struct{ State string }
		f.must(json.Unmarshal([]byte(f.does(control.ExitDone, "members", "--json")), &all))
		return len(all) == 3
	})
	if code := f.apply(declared(n, "1")); code != control.ExitApplied {
		t.Fatalf("the first apply: exit code %d", code)
	}
	t.Logf("they are at %v", f.where())
	if code := f.apply(declared(n, "2"), "--rolling", "3"); code != control.ExitApplied {
		t.Fatalf("the second apply: exit code %d", code)
	}

	// One whose definition no box takes: everything is as before.
	if code := f.apply(strings.Replace(declared(n, "2"), `p3: {`, `p3: {kind: nonesuch, `, 1)); code != control.ExitUnhealthy {
		t.Errorf("an apply of what cannot run: exit code %d", code)
	}
	f.eventually("all run as before", func(w map[string]string) bool { return len(w) == n })

	from, to := f.where()["p0"], "m1"
	if from == to {
		to = "m0"
	}
	note := filepath.Join("data/profiles/p0", "note")
	f.must(os.WriteFile(filepath.Join(f.boxes[from].dir, note), []byte("of "+from), 0o644))
	f.must(os.Chown(filepath.Join(f.boxes[from].dir, note), 1000, 1000))
	f.does(control.ExitDone, "move", "p0", to)
	if text, err := os.ReadFile(filepath.Join(f.boxes[to].dir, note)); err != nil || string(text) != "of "+from {
		t.Errorf("the data of p0 has not come along: %q, %v", text, err)
	}
	f.does(control.ExitDone, "drain", "m2", "--limit", "3")
	for name, at := range f.where() {
		if at == "m2" || name == "p0" && at != to {
			t.Errorf("%s is at %s", name, at)
		}
	}
	f.does(control.ExitDone, "drain", "m2", "--undo")
	f.does(control.ExitDone, "rebalance", "--limit", "3")

	// The agent of m1 dies; the next one takes over, and nothing is stopped.
	f.eventually("all run", func(w map[string]string) bool { return len(w) == n })
	before := f.fences()
	f.inside("m1", "signal", "KILL", "fleet")
	f.outlives("m1", check.Now()+int64(lease))
	if after := f.fences(); before != after {
		t.Errorf("fences before the agent died: %s; after: %s", before, after)
	}

	f.kill(f.boxes["m0"])
	took := f.eventually("those of m0 run elsewhere", func(w map[string]string) bool {
		for _, at := range w {
			if at == "m0" {
				return false
			}
		}
		return len(w) == n
	})
	t.Logf("the failover took %s", took)
	if took > lease+2*time.Second {
		t.Errorf("the failover took %s; a lease and 2 s are promised", took)
	}
	if found := f.overlaps(); len(found) > 0 {
		t.Errorf("at most one gateway of a profile: %v", found)
	}
}

func (f *fleet) fences() string {
	f.Helper()
	var all []struct {
		Name  string
		Fence int64
	}
	f.must(json.Unmarshal([]byte(f.does(control.ExitDone, "status", "--json")), &all))
	return fmt.Sprint(all)
}

// inside runs rlminit in a box.
func (f *fleet) inside(name string, args ...string) []byte {
	f.Helper()
	out, err := exec.Command("nsenter", append([]string{"-t", f.initOf(name), "-p", "-m", filepath.Join(f.bin, "rlminit")}, args...)...).Output()
	if err != nil {
		f.Fatalf("rlminit %s in %s: %v", strings.Join(args, " "), name, err)
	}
	return out
}

// outlives waits until the deadlines of all that a box runs are later than at, to which
// nothing gets that no agent moves on.
func (f *fleet) outlives(name string, at int64) {
	f.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; <-time.After(100 * time.Millisecond) {
		var all []control.Service
		f.must(json.Unmarshal(f.inside(name, "status", "--json"), &all))
		later := true
		for _, s := range all {
			later = later && (s.Deadline == nil || s.Deadline.AtNS > at)
		}
		if later {
			return
		}
	}
	f.Fatalf("the deadlines of %s are not moved on", name)
}

// initOf is the pid of the PID 1 of a box, as it is outside.
func (f *fleet) initOf(name string) string {
	f.Helper()
	pid := f.boxes[name].init.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	f.must(err)
	return strings.TrimSpace(string(children))
}
