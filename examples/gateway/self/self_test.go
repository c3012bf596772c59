package self

import (
	"os"
	"slices"
	"testing"
)

func TestReadSeesThisProcess(t *testing.T) {
	r, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	if r.PID != os.Getpid() || r.UID[1] != os.Geteuid() || r.GID[1] != os.Getegid() {
		t.Errorf("pid %d uid %v gid %v; want %d %d %d", r.PID, r.UID, r.GID, os.Getpid(), os.Geteuid(), os.Getegid())
	}
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(groups)
	if !slices.Equal(slices.Sorted(slices.Values(r.Groups)), groups) {
		t.Errorf("groups %v, want %v", r.Groups, groups)
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if _, ok := r.Capabilities[set]; !ok {
			t.Errorf("no %s", set)
		}
	}
	if r.Descriptors[1] == "" || len(r.Limits) != len(limits) || r.Threads < 1 || r.Umask == "" {
		t.Errorf("incomplete: %+v", r)
	}
}

func TestDescriptorsAreThoseThatAreOpen(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if got := descriptors()[int(f.Fd())]; got != os.DevNull {
		t.Errorf("descriptor %d is %q", f.Fd(), got)
	}
	fd := int(f.Fd())
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got, open := descriptors()[fd]; open && got == os.DevNull {
		t.Errorf("descriptor %d is still %q", fd, got)
	}
}

func TestBadStatusIsAnError(t *testing.T) {
	var r Report
	if err := r.parseStatus("Uid:\t0\t0\n"); err == nil {
		t.Error("two uids were taken for four")
	}
}
