package doctor

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// place is a healthy container, in files and answers of the kernel, of which a
// test changes some.
type place struct {
	files    map[string]string
	stat     map[string]unix.Statfs_t
	landlock int
	unsync   bool
	now      time.Time
	fsync    time.Duration
	fsyncErr error
	missing  string
	writable bool
	owners   map[string]uint32
	gone     string // a path at which nothing lies
	services []Service
	steps    []Step
}

func healthy() *place {
	roomy := unix.Statfs_t{Type: unix.EXT4_SUPER_MAGIC, Bsize: 4096, Blocks: 1 << 20, Bavail: 1 << 19, Files: 1000, Ffree: 900}
	memory := roomy
	memory.Type = unix.TMPFS_MAGIC
	return &place{
		files: map[string]string{
			"/proc/sys/kernel/osrelease":                     "6.12.1\n",
			"/proc/1/status":                                 "Name:\trlminit\nUid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\nSeccomp:\t2\nNoNewPrivs:\t0\n",
			"/proc/1/limits":                                 "Limit  Soft Limit  Hard Limit  Units\nMax open files  1048576  1048576  files\n",
			"/proc/sys/kernel/yama/ptrace_scope":             "1\n",
			"/sys/fs/cgroup/cgroup.controllers":              "cpu memory pids\n",
			"/proc/1/cgroup":                                 "0::/rlminit\n",
			"/sys/fs/cgroup/services/cgroup.subtree_control": "cpu memory pids\n",
			"/sys/fs/cgroup/memory.current":                  "50000000\n",
			"/sys/fs/cgroup/memory.max":                      "1000000000\n",
			"/sys/fs/cgroup/memory.pressure":                 "some avg10=0.00 avg60=0.50 avg300=0.00 total=0\nfull avg60=90\n",
			"/sys/fs/cgroup/cgroup.events":                   "populated 1\n",
			"/sys/fs/cgroup/cpu.pressure":                    "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
			"/sys/fs/cgroup/pids.current":                    "12\n",
			"/sys/fs/cgroup/pids.max":                        "max\n",
			"/sys/fs/cgroup/cpu.max":                         "150000 100000\n",
			"/proc/self/mountinfo":                           "1 0 0:1 / / rw - overlay overlay rw\n2 1 8:1 /x /data rw - ext4 /dev/sda1 rw\n3 1 8:1 /y /da rw - ext4 /dev/sda1 rw\n",
			"/proc/sys/net/ipv4/ip_local_port_range":         "32768\t60999\n",
			"/proc/net/tcp":                                  "  sl  local_address rem_address   st\n   0: 0100007F:23F1 00000000:0000 0A 0\n   1: 0100007F:23F2 0100007F:1 01 0\n",
			"/proc/7/stat":                                   "7 (a) b) Z 5 5 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0\n",
			"/proc/8/stat":                                   "8 (x) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0\n",
			"/proc/5/comm":                                   "careless\n",
			"/proc/5/stat":                                   "5 (careless) S 1 1 1\n",
			"/proc/sys/kernel/unprivileged_userns_any":       "1\n",
			"/proc/6/cmdline":                                "rlminit\x00supervise\x00",
			"/proc/6/status":                                 "Name:\trlminit\nPPid:\t1\nUid:\t49999\t49999\t49999\t49999\n",
			"/run/rlminit/user":                              "1000:1000\n",
		},
		stat:     map[string]unix.Statfs_t{"/data": roomy, "/run/rlminit": memory},
		owners:   map[string]uint32{"/data": 0, "/data/.rlminit": 49999, "/run/rlminit/services": 49999},
		landlock: 6, now: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), fsync: time.Millisecond, writable: true,
		services: []Service{{Name: "alice", State: "running", Verdict: "ok", Port: 9201}, {Name: "bob", State: "stopped", Verdict: "off", Port: 9202}},
		steps:    []Step{{"owners", 200 * time.Millisecond}, {"boot step fetch", time.Second}},
	}
}

func (p *place) Statfs(path string) (unix.Statfs_t, error) {
	st, ok := p.stat[path]
	if !ok {
		return st, &os.PathError{Op: "statfs", Path: path, Err: unix.ENOENT}
	}
	return st, nil
}
func (p *place) Landlock() int                           { return p.landlock }
func (p *place) Synchronised() (bool, error)             { return !p.unsync, nil }
func (p *place) Now() time.Time                          { return p.now }
func (p *place) FsyncTime(string) (time.Duration, error) { return p.fsync, p.fsyncErr }
func (p *place) Writable(string) bool                    { return p.writable }
func (p *place) Owner(path string) (uint32, error) {
	if uid, ok := p.owners[path]; ok {
		return uid, nil
	}
	if path == p.gone {
		return 0, unix.ENOENT
	}
	return 0, unix.EACCES
}

func (p *place) set(path string, change func(*unix.Statfs_t)) {
	st := p.stat[path]
	change(&st)
	p.stat[path] = st
}

func (p *place) examine(t *testing.T) []Finding {
	t.Helper()
	root := t.TempDir()
	for name, content := range p.files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Examine(Place{Root: root, Home: "/data", Runtime: "/run/rlminit", Missing: p.missing, Services: p.services, Steps: p.steps, kernel: p})
}

func TestHealthy(t *testing.T) {
	findings := healthy().examine(t)
	if Worst(findings) != OK {
		for _, f := range findings {
			if f.State != OK {
				t.Errorf("%+v", f)
			}
		}
	}
	for _, check := range []string{"kernel", "init", "capabilities", "identity", "landlock", "seccomp", "cgroup", "memory", "pids", "cpu", "descriptors", "runtime", "volume", "clock", "boot", "ports", "services"} {
		if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Check == check }) {
			t.Errorf("nothing is said of %s", check)
		}
	}
}

// Each thing that is wrong is found, alone, with what to do about it.
func TestEachFault(t *testing.T) {
	faults := map[string]struct {
		change func(*place)
		check  string
		state  string
		what   string
	}{
		"old kernel": {func(p *place) { p.files["/proc/sys/kernel/osrelease"] = "5.4.0-x" }, "kernel", Fail, "5.4.0-x is too old"},
		"no /proc":   {func(p *place) { delete(p.files, "/proc/sys/kernel/osrelease") }, "kernel", Unknown, "does not tell"},
		"another init": {func(p *place) {
			p.files["/proc/1/status"] = strings.Replace(p.files["/proc/1/status"], "rlminit", "docker-init", 1)
		}, "init", Warn, "PID 1 is docker-init"},
		"no CAP_CHOWN": {func(p *place) {
			p.files["/proc/1/status"] = strings.Replace(p.files["/proc/1/status"], "25fb", "25fa", 1)
		}, "capabilities", Warn, "CAP_CHOWN"},
		"no CAP_SETUID": {func(p *place) {
			p.files["/proc/1/status"] = strings.Replace(p.files["/proc/1/status"], "25fb", "257b", 1)
		}, "capabilities", Fail, "CAP_SETUID"},
		"privileged": {func(p *place) {
			p.files["/proc/1/status"] = strings.Replace(p.files["/proc/1/status"], "a804", "a824", 1)
		}, "capabilities", Warn, "SYS_ADMIN"},
		"one uid": {func(p *place) { p.files["/run/rlminit/user"] = "49999:49999\n" }, "identity", Warn, "has the uid of the services, 49999"},
		"--user": {func(p *place) {
			p.files["/run/rlminit/user"] = "49999:49999\n"
			p.files["/proc/1/status"] = strings.Replace(p.files["/proc/1/status"], "Uid:\t0", "Uid:\t49999", 1)
		}, "identity", Warn, "has the uid of the services"},
		"records of another": {func(p *place) { p.owners["/data/.rlminit"] = 1000 }, "identity", Warn, "/data/.rlminit belongs to uid 1000"},
		"records can move":   {func(p *place) { p.owners["/data"] = 1000 }, "identity", Warn, "move the supervisor's records away"},
		"no logs":            {func(p *place) { p.gone = "/data/logs" }, "logs", Fail, "/data/logs is missing"},
		"slots of another":   {func(p *place) { p.owners["/run/rlminit/services"] = 1000 }, "identity", Warn, "what services there are"},
		"no Landlock":        {func(p *place) { p.landlock = 0 }, "landlock", Warn, "no Landlock"},
		"no seccomp": {func(p *place) {
			p.files["/proc/1/status"] = strings.Replace(p.files["/proc/1/status"], "Seccomp:\t2", "Seccomp:\t0", 1)
		}, "seccomp", Warn, "no seccomp"},
		"no Yama": {func(p *place) { p.files["/proc/sys/kernel/yama/ptrace_scope"] = "0" }, "ptrace", Warn, "trace each other"},
		"cgroup v1": {func(p *place) {
			delete(p.files, "/sys/fs/cgroup/cgroup.controllers")
			p.files["/sys/fs/cgroup/pids/pids.max"] = "max"
		}, "cgroup", Warn, "cgroup v1"},
		"no pressure": {func(p *place) { delete(p.files, "/sys/fs/cgroup/cpu.pressure") }, "guards", Warn, "jobs.guards.cpu_pressure is not in force"},
		"no cgroup":   {func(p *place) { delete(p.files, "/sys/fs/cgroup/cgroup.controllers") }, "cgroup", Unknown, "no cgroup"},
		"read-only cgroup": {func(p *place) {
			p.writable, p.files["/proc/1/cgroup"] = false, "0::/\n"
		}, "cgroup", Warn, "read-only"},
		"somebody's cgroup": {func(p *place) { p.files["/proc/1/cgroup"] = "0::/\n" }, "cgroup", Warn, "makes no cgroups"},
		"a controller is missing": {func(p *place) {
			p.files["/sys/fs/cgroup/services/cgroup.subtree_control"] = "memory\n"
		}, "cgroup", Warn, "limits of pids and cpu are not in force"},
		"memory is short":   {func(p *place) { p.files["/sys/fs/cgroup/memory.current"] = "950000000" }, "memory", Warn, "950 MB of at most 1 GB"},
		"memory is waited":  {func(p *place) { p.files["/sys/fs/cgroup/memory.pressure"] = "some avg10=0 avg60=40.00" }, "memory", Warn, "40 %"},
		"few pids":          {func(p *place) { p.files["/sys/fs/cgroup/pids.max"] = "15" }, "pids", Fail, "15 processes"},
		"few descriptors":   {func(p *place) { p.files["/proc/1/limits"] = "Max open files  100  100  files" }, "descriptors", Warn, "about 4 services"},
		"runtime on a disk": {func(p *place) { p.set("/run/rlminit", func(s *unix.Statfs_t) { s.Type = unix.OVERLAYFS_SUPER_MAGIC }) }, "runtime", Warn, "on overlay"},
		"runtime is full":   {func(p *place) { p.set("/run/rlminit", func(s *unix.Statfs_t) { s.Bavail = 3 }) }, "runtime", Fail, "12.3 kB free"},
		"no runtime":        {func(p *place) { delete(p.stat, "/run/rlminit") }, "runtime", Fail, "cannot look at"},
		"no volume":         {func(p *place) { delete(p.stat, "/data") }, "volume", Fail, "no such file"},
		"read-only volume":  {func(p *place) { p.set("/data", func(s *unix.Statfs_t) { s.Flags = unix.ST_RDONLY }) }, "volume", Fail, "read-only"},
		"in the layer":      {func(p *place) { p.files["/proc/self/mountinfo"] = "1 0 0:1 / / rw - overlay overlay rw\n" }, "volume", Warn, "lost with the container"},
		"NFS":               {func(p *place) { p.set("/data", func(s *unix.Statfs_t) { s.Type = unix.NFS_SUPER_MAGIC }) }, "volume", Warn, "NFS"},
		"volume is full":    {func(p *place) { p.set("/data", func(s *unix.Statfs_t) { s.Bavail = 100 }) }, "volume", Fail, "410 kB free"},
		"volume fills":      {func(p *place) { p.set("/data", func(s *unix.Statfs_t) { s.Bavail = 1 << 14 }) }, "volume", Warn, "1 %"},
		"no inodes":         {func(p *place) { p.set("/data", func(s *unix.Statfs_t) { s.Ffree = 3 }) }, "volume", Warn, "3 of 1000 inodes"},
		"slow volume":       {func(p *place) { p.fsync = 300 * time.Millisecond }, "volume", Warn, "300 ms"},
		"failing volume":    {func(p *place) { p.fsyncErr = unix.EIO }, "volume", Fail, "cannot be written: input/output error"},
		"no profiles":       {func(p *place) { p.missing = "no profile is here: the volume is another's" }, "volume", Fail, "another's"},
		"stuck volume":      {func(p *place) { p.fsyncErr = errSlow }, "volume", Fail, "within 3 s"},
		"clock of 1970":     {func(p *place) { p.now = time.Unix(5, 0) }, "clock", Fail, "1970-01-01"},
		"clock runs free":   {func(p *place) { p.unsync = true }, "clock", Warn, "nobody keeps"},
		"slow owners":       {func(p *place) { p.steps[0].Took = 20 * time.Minute }, "boot", Warn, "owners took 20m0s"},
		"slow boot step":    {func(p *place) { p.steps[1].Took = 10 * time.Second }, "boot", Warn, "boot step fetch took 10s"},
		"port is taken":     {func(p *place) { p.services[1].Port = 0x23f1 }, "ports", Warn, "port 9201, which is bob's"},
		"port may be taken": {func(p *place) { p.services[1].Port = 40000 }, "ports", Warn, "outgoing connections"},
		"service has failed": {func(p *place) {
			p.services[1] = Service{Name: "bob", State: "failed", Verdict: "ill", Code: "failed", Reason: "exit 1"}
		}, "services", Fail, "bob is ill: failed: exit 1"},
		"service is unhealthy": {func(p *place) {
			p.services[1] = Service{Name: "bob", State: "running", Verdict: "ill", Code: "unhealthy", Reason: "no answer"}
		}, "services", Fail, "bob is ill: unhealthy: no answer"},
		"service is refused": {func(p *place) {
			p.services[1] = Service{Name: "bob", State: "running", Verdict: "ok", Refused: "unknown key"}
		}, "services", Warn, "the newer one is refused: unknown key"},
		"service restarts": {func(p *place) {
			p.services[1] = Service{Name: "bob", State: "running", Verdict: "ok", Flapping: true, Restarts: 84}
		}, "services", Warn, "and 84 times since rlminit started"},
		"service backs off": {func(p *place) {
			p.services[1] = Service{Name: "bob", State: "backoff", Verdict: "ill", Code: "backoff_failed", Reason: "exit 1"}
		}, "services", Fail, "bob is ill: backoff"},
		"zombies": {func(p *place) {
			for i := range 12 {
				p.files[fmt.Sprintf("/proc/%d/stat", 100+i)] = "10 (x) Z 5 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0\n"
			}
		}, "zombies", Warn, "process 5 (careless) does not collect 13"},
	}
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		c := faults[name]
		t.Run(name, func(t *testing.T) {
			p := healthy()
			c.change(p)
			bad := slices.DeleteFunc(p.examine(t), func(f Finding) bool { return f.State == OK })
			if len(bad) != 1 || bad[0].Check != c.check || bad[0].State != c.state || !strings.Contains(bad[0].What, c.what) {
				t.Errorf("found %+v", bad)
			}
			if len(bad) == 1 && bad[0].Remedy == "" {
				t.Errorf("nothing is said of what to do about %q", bad[0].What)
			}
		})
	}
}

// The real kernel answers, wherever this runs.
func TestThisMachine(t *testing.T) {
	findings := Examine(Place{Home: t.TempDir(), Runtime: t.TempDir()})
	if len(findings) < 8 {
		t.Errorf("%+v", findings)
	}
	if took, err := (system{}).FsyncTime("/proc"); err == nil {
		t.Errorf("/proc makes pages durable in %v", took)
	}
}
