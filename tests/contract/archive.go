package contract

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"rlminit/tests/box"
)

// ProfileTravels: a profile that is exported, purged and imported is what it was:
// its files, its intent, its port and its log. What is no whole archive is refused
// with one line and leaves nothing, and so does a kill of the supervisor while one
// comes in.
func ProfileTravels(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	home := b.Home()
	b.Shell(box.Service, "cd "+home+"/profiles/alice; mkdir -p d/e; echo deep >d/e/file; ln -s d/e/file link; mkfifo pipe; ln -s /etc out")
	r := b.As(box.Service, "rlminit", "profile", "export", "alice", "-o", home+"/alice.tar")
	if want := " is left out: "; r.Code != 0 || r.Out != "" || strings.Count(r.Err, want) != 2 {
		t.Fatalf("export: %s", r)
	}
	exportsWhatChanges(t, b)
	b.Must("profile", "create", "carol")
	b.Must("stop", "carol")
	b.Must("profile", "export", "carol", "--no-log", "-o", home+"/carol.tar")
	b.Must("profile", "delete", "--purge", "alice", "carol")

	b.Must("profile", "import", home+"/alice.tar")
	back := b.Await("gateway-alice", "running")
	if *back.Port != *s.Port {
		t.Errorf("imported as %s", box.Describe(back))
	}
	if text := b.Shell(box.Service, "cat "+home+"/profiles/alice/link"); text != "deep\n" {
		t.Errorf("its file holds %q", text)
	}
	if log := b.Must("logs", "alice"); strings.Count(log, "--- starting ") != 2 {
		t.Errorf("its log is %q", log)
	}
	b.Must("profile", "import", home+"/carol.tar")
	if back := b.Status()["gateway-carol"]; back.State != "stopped" || back.Desired != "stopped" {
		t.Errorf("imported as %s", box.Describe(back))
	}
	b.Fails(17, "/profiles/alice exists already; --as NEW gives what is imported another name", "profile", "import", home+"/alice.tar")
	b.Must("profile", "import", home+"/alice.tar", "--as", "bob", "--stopped")
	if bob := b.Status()["gateway-bob"]; bob.State != "stopped" || *bob.Port == *s.Port {
		t.Errorf("imported as %s", box.Describe(bob))
	}
	if r := b.As(box.Service, "sh", "-c", "rlminit profile export alice | gzip | rlminit profile import - --as dora"); r.Code != 2 || !strings.Contains(r.Err, "it is compressed") {
		t.Errorf("%s", r)
	}

	// What is not whole.
	lies := func() string {
		return b.Shell(box.Service, "cd "+home+"; ls -A profiles logs/gateways; ls -A profiles/*/ | wc -l")
	}
	before := lies()
	for cut, want := range map[string]string{
		"head -c 3000 alice.tar": "it is cut short; export the profile again",
		"head -c 100 alice.tar":  "it is cut short",
		"echo hello":             "it is no tar archive",
		"true":                   "there is nothing in it",
		"tar -c profiles/bob":    "it is no export of a profile",
	} {
		r := b.As(box.Service, "sh", "-c", "cd "+home+"; "+cut+" | rlminit profile import - --as erin")
		if r.Code != 2 || r.Out != "" || strings.Count(r.Err, "\n") != 1 || !strings.Contains(r.Err, "rlminit: the archive cannot be used: ") || !strings.Contains(r.Err, want) {
			t.Errorf("%s: %s", cut, r)
		}
	}
	b.Fails(2, "is not a profile name", "profile", "import", home+"/carol.tar", "--as", "No Name")
	b.Fails(1, "cannot read "+home+"/nosuch.tar: no such file or directory", "profile", "import", home+"/nosuch.tar")
	b.Fails(2, "it is no tar archive", "profile", "import", home+"/profiles/alice/profile.yaml", "--as", "erin")
	if after := lies(); after != before {
		t.Errorf("there was\n%s\nand is\n%s", before, after)
	}

	// A supervisor that is killed while the archive comes in.
	b.Shell(box.Service, "cd "+home+"; dd if=/dev/zero of=profiles/alice/big bs=1M count=8 2>/dev/null; rlminit profile export alice -o big.tar")
	big := b.Shell(box.Service, "head -c 4000000 "+home+"/big.tar")
	in, feed := io.Pipe()
	done := make(chan box.Result, 1)
	go func() {
		r, err := b.Exec(box.Service, in, []string{"rlminit", "profile", "import", "-", "--as", "frank"})
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	go io.WriteString(feed, big)
	temps := func() string {
		return b.Shell(box.Service, "cd "+home+"; ls -A profiles logs/gateways | grep '^[.]rlminit-' || true")
	}
	box.Eventually(b, 20*time.Second, "the import has begun", func() (bool, any) { return temps() != "", nil })
	old := b.Supervisor().PID
	kill(b, "KILL", old)
	replaced(b, old)
	feed.Close()
	if r := <-done; r.Code == 0 || r.Out != "" || strings.Count(r.Err, "\n") != 1 {
		t.Errorf("the import that was cut off: %s", r)
	}
	box.Eventually(b, 20*time.Second, "nothing of it is left", func() (bool, any) { now := temps(); return now == "", fmt.Sprint(now) })
	if _, there := b.Status()["gateway-frank"]; there {
		t.Error("there is half a profile")
	}
	b.Must("profile", "import", home+"/big.tar", "--as", "frank")
	b.Await("gateway-frank", "running")
}

// exportsWhatChanges exports alice many times while her files are exchanged for links,
// for directories and for others.
func exportsWhatChanges(t *testing.T, b *box.Box) {
	r := b.As(box.Service, "bash", "-c", `cd `+b.Home()+`/profiles/alice || exit 9
(while [ ! -e over ]; do ln -sf d x; rm x; echo file >x; rm x; mkdir x; echo in >x/in; rm -r x; mv d/e/file d/e/else; mv d/e/else d/e/file; done) & 
failed=0
for i in $(seq 40); do rlminit profile export alice --no-log >/dev/null 2>>../../said || failed=$((failed+1)); done
touch over; wait; rm -rf over x
echo $failed; [ $failed = 0 ] || cat ../../said`)
	if r.Code != 0 || r.Out != "0\n" {
		t.Errorf("of 40 exports of a profile whose files change failed: %s", r)
	}
}
