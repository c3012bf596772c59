package move

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"rlminit/tests/box"
	"rlminit/tests/ns"
)

const supervisorConfig = `; programs of each kind of end
[unix_http_server]
file=%(here)s/supervisor.sock
[supervisord]
nodaemon=true
logfile=%(here)s/supervisord.log
pidfile=%(here)s/supervisord.pid
childlogdir=%(here)s/logs
environment=GREETING="good day"
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[include]
files = conf.d/*.conf
[program:second]
command=%(here)s/witness second stay
directory=/usr
priority=20
stopsignal=INT
[program:first]
command=%(here)s/witness first stay
priority=10
environment=OWN="a %(program_name)s, %%"
directory=%(here)s
stopsignal=HUP
autorestart=true
`

const supervisorMore = `[program:pair]
command=%(here)s/../witness pair_%(process_num)02d stay
process_name=%(program_name)s_%(process_num)02d
numprocs=2
priority=30
[program:crashes] ; again and again
command=%(here)s/../witness crashes exit 3 1.3
priority=30
directory=/
[program:done]
command=%(here)s/../witness done exit 0 1.3
priority=30
directory=/
[program:hopeless]
command=%(here)s/../witness hopeless exit 1 0
startretries=2
startsecs=4
priority=30
directory=/
[program:once]
command=%(here)s/../witness once exit 4 1.3
autorestart=false
priority=30
directory=/
[program:fine]
command=%(here)s/../witness fine exit 7 1.3
exitcodes=7
priority=30
directory=/
[program:coded] ; 78 is as any other
command=%(here)s/../witness coded exit 78 1.3
autorestart=true
priority=40
[program:named]
command=%(here)s/../witness named stay %(ENV_GREETING)s
priority=1
[group:several] ; the group's priority counts
programs=coded,named
priority=40
[program:never]
command=%(here)s/../witness never stay
autostart=false
directory=/
[eventlistener:mail]
command=/bin/cat
events=TICK_3600
autostart=false
`

// TestSupervisord runs supervisord beside what was made of its configuration.
func TestSupervisord(t *testing.T) {
	t.Parallel()
	need(t, "supervisord", "supervisor")
	dir := place(t)
	write(t, dir, "supervisord.conf", supervisorConfig)
	write(t, dir, "conf.d/more.conf", supervisorMore)
	write(t, dir, "witness", witness)
	write(t, dir, "logs/empty", "")
	theirs, ours := filepath.Join(dir, "theirs"), filepath.Join(dir, "ours")

	m := convert(t, dir, "--user", "1000:1000", filepath.Join(dir, "supervisord.conf"))
	for what, reason := range map[string]string{"[eventlistener:mail]": "no-equal", "[unix_http_server]": "no-equal", "user": "rights"} {
		if !m.left(what, reason) {
			t.Errorf("%s is not named as %s in %+v", what, reason, m.Left)
		}
	}
	d := original(t, "/", theirs, nil, "supervisord", "-c", filepath.Join(dir, "supervisord.conf"))
	b := ns.Start(t, box.Spec{Config: m.config, Env: []string{"RECORD=" + ours}})

	want := map[string]int{
		"start first": 1, "start second": 1, "start pair_00": 1, "start pair_01": 1, "start crashes": 3, "start done": 1, "start hopeless": 3, "start once": 1, "start fine": 1, "start coded": 3, "start named": 1,
	}
	for _, record := range []string{theirs, ours} {
		await(t, record, want)
	}
	// A program that gives up is FATAL there and failed here, after the same number of starts.
	b.Await("hopeless", "failed")
	box.Eventually(t, long, "supervisord gives up", func() (bool, any) {
		log, err := os.ReadFile(filepath.Join(dir, "supervisord.log"))
		return strings.Contains(string(log), "gave up: hopeless entered FATAL state"), err
	})
	for name, state := range map[string]string{"first": "running", "pair_01": "running", "done": "exited", "once": "exited", "fine": "exited", "never": "stopped"} {
		b.Await(name, state)
	}
	// What a program wrote is in a log of each.
	written, err := filepath.Glob(filepath.Join(dir, "logs", "first-stdout*"))
	if err != nil || len(written) != 1 {
		t.Fatalf("supervisord's log of first: %q, %v", written, err)
	}
	if data, err := os.ReadFile(written[0]); err != nil || string(data) != "first says hello\n" {
		t.Errorf("%q, %v", data, err)
	}
	if out := b.Must("logs", "first"); strings.Count(out, " out first says hello\n") != 1 {
		t.Errorf("logs first: %q", out)
	}

	if err := d.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := d.Wait(); err != nil {
		t.Error(err)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	// crashes is in the middle of a run or of a wait when it is stopped.
	programs := []string{"first", "second", "pair_00", "pair_01", "done", "hopeless", "once", "fine", "crashes", "coded", "named"}
	same := equal(t, summary(lines(theirs), 3), summary(lines(ours), 3))
	for _, record := range []string{theirs, ours} {
		if got := order(lines(record)); len(got) != len(programs) || !slices.Equal(got[:2], []string{"first", "second"}) {
			t.Errorf("%s: started as %q", filepath.Base(record), got)
		} else if slices.Index(got, "named") < slices.Index(got, "second") {
			t.Errorf("%s: a program of a group is started by its own priority: %q", filepath.Base(record), got)
		}
	}
	t.Logf("figure: supervisord: %d programs imported, %d started, %d equal; left out: %v", len(m.Services), len(summary(lines(ours), 3)), same, m.Counts)
}
