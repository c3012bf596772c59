package move

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/ns"
)

// packages are Debian's with units of every kind.
var packages = []string{
	"nginx", "redis-server", "openssh-server", "cron", "rsyslog", "mariadb-server", "postgresql-common", "apache2", "haproxy", "memcached",
	"dnsmasq", "bind9", "postfix", "chrony", "tor", "mosquitto", "varnish", "squid", "fail2ban", "unbound", "dovecot-core", "syncthing", "nginx-common",
}

// TestDebianUnits imports every unit of these packages, together and each by itself.
func TestDebianUnits(t *testing.T) {
	t.Parallel()
	need(t, "dpkg", "dpkg")
	dir := place(t)
	get := exec.Command("apt-get", append([]string{"-q", "-o", "APT::Sandbox::User=root", "download"}, packages...)...)
	get.Dir = dir
	if out, err := get.CombinedOutput(); err != nil {
		t.Skipf("the packages cannot be downloaded: %v: %s", err, box.Tail(string(out)))
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) != len(packages) {
		t.Fatalf("%d packages: %v", len(debs), err)
	}
	root := filepath.Join(dir, "root")
	for _, deb := range debs {
		if out, err := exec.Command("dpkg", "-x", deb, root).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	units, err := filepath.Glob(filepath.Join(root, "lib/systemd/system/*.service"))
	if more, _ := filepath.Glob(filepath.Join(root, "usr/lib/systemd/system/*.service")); err == nil {
		units = append(units, more...)
	}
	if err != nil || len(units) < 40 {
		t.Fatalf("%d units: %v", len(units), err)
	}
	m := convert(t, dir, root)
	whole := 0
	for _, unit := range units {
		info, err := os.Lstat(unit)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&os.ModeSymlink != 0 {
			continue
		}
		whole++
		one := convert(t, dir, "--from", "systemd", unit)
		if len(one.Services) != 1 {
			t.Errorf("%s: %d services", unit, len(one.Services))
		}
	}
	unknown := 0
	for _, l := range m.Left {
		if l.Reason == "unknown" {
			unknown++
			t.Logf("import does not know %s (%s)", l.What, l.File)
		}
	}
	if len(m.Services) < whole {
		t.Errorf("of %d units %d services were made", whole, len(m.Services))
	}
	if unknown > 0 {
		t.Errorf("%d keys are unknown", unknown)
	}
	t.Logf("figure: systemd: %d units of %d packages, %d imported; left out: %v", whole, len(packages), len(m.Services), m.Counts)
}

// TestUnits starts what was made of units: no systemd runs in a container to run beside it,
// so what its manual says is compared.
func TestUnits(t *testing.T) {
	t.Parallel()
	need(t, "systemd-notify", "systemd")
	dir := place(t)
	write(t, dir, "witness", witness)
	write(t, dir, "default", "# read at each start\nOPTS=\"one two\"\n")
	units := filepath.Join(dir, "units")
	write(t, units, "db.service", "[Unit]\nDescription=ready later\n[Service]\nType=notify\nEnvironment=OWN=%n\nExecStart=/bin/bash -c 'sleep 0.5; systemd-notify --ready; exec "+dir+"/witness db stay'\n[Install]\nWantedBy=multi-user.target\n")
	write(t, units, "web.service", "[Unit]\nRequires=db.service\nAfter=db.service network.target\n[Service]\nWorkingDirectory=/usr\nEnvironmentFile=-"+dir+"/default\nEnvironmentFile=-"+dir+"/none\n"+
		"ExecStartPre=-/bin/false\nExecStartPre=/bin/sh -c 'echo before \"$1\" >>$RECORD' sh ${OPTS}\nExecStart="+dir+"/witness web stay $OPTS\nKillSignal=SIGINT\nRestart=on-failure\nRestartSec=100ms\n[Install]\nWantedBy=multi-user.target\n")
	write(t, units, "job.service", "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo job one >>$$RECORD'\nExecStart=-/bin/false\nExecStart=/bin/sh -c 'echo job two >>$$RECORD'\n[Install]\nWantedBy=multi-user.target\n")
	write(t, units, "static.service", "[Service]\nExecStart="+dir+"/witness static stay\n")
	ours := filepath.Join(dir, "ours")
	m := convert(t, dir, "--root", "/", "--user", "1000:1000", units)
	b := ns.Start(t, box.Spec{Config: m.config, Env: []string{"RECORD=" + ours, "GREETING=hi"}})
	b.Await("web", "running")
	b.Await("job", "exited")
	b.Await("static", "stopped")
	await(t, ours, map[string]int{"start web": 1, "start db": 1, "job two": 1, "before one two": 1})
	first := b.Await("web", "running")
	b.As(box.Root, "kill", "-9", fmt.Sprint(*first.PID))
	b.AwaitThat("web", "is started again", func(s control.Service) bool { return s.State == "running" && s.PID != nil && *s.PID != *first.PID })
	await(t, ours, map[string]int{"start web": 2})
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"db":  "start db uid=1000 dir=/ greeting=hi own=db.service; 1 starts; signals [TERM]",
		"web": "start web uid=1000 dir=/usr greeting=hi own=; 2 starts; signals [INT]",
	}
	same := equal(t, want, summary(lines(ours), 3))
	if n := count(lines(ours), "job "); n == 2 {
		same++
	} else {
		t.Errorf("the oneshot has written %d lines", n)
	}
	t.Logf("figure: systemd: %d units started, %d of them as the manual says", len(want)+1, same)
}
