package profiles

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

// repairing are Owners that carry out what they are asked for, and note it.
type repairing struct {
	anybody
	at    *Ownership
	asked []string
}

func (r *repairing) Settle() error             { return nil }
func (r *repairing) Range() (low, high uint32) { return 40000, 40999 }

func (r *repairing) Give(uid uint32, directory int) (durable.Handed, error) {
	hand := durable.Hand{From: r.services, UID: uid, GID: uid}
	if uid == 0 {
		hand.UID, hand.GID = r.services, r.services
	}
	return durable.HandOver(directory, "top", hand)
}

func (r *repairing) Own(name string) (did durable.Handed, err error) {
	if unlock, free := r.at.tree.names.tryLock(name); free {
		unlock()
		name += " unlocked"
	}
	r.asked = append(r.asked, name)
	err = filepath.WalkDir(r.at.tree.home.Path(dirOf(name)), func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil && unix.Lstat(path, &st) == nil && st.Uid == 0 {
			did.Changed++
			err = os.Lchown(path, int(r.services), int(r.services))
		}
		return err
	})
	if err == nil {
		err = os.Chown(r.at.tree.home.Path(profilesDir), int(r.services), int(r.services))
	}
	return did, err
}

// A repair by root takes root's directories, each with its name's lock, and puts right the
// files of those that have users of their own; of one profile it touches no other.
func TestRepairByRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change owners")
	}
	const services = 1000
	v := newVolume(t, nil)
	owners := &repairing{anybody: anybody{services}, at: v.Ownership}
	v.Ownership.owners = owners
	whose := map[string]int{"alice": 0, "bob": services, "carol": 40001, "dave": 40002}
	lay := func() {
		t.Helper()
		for name, uid := range whose {
			dir := v.tree.home.Path(dirOf(name))
			file := filepath.Join(dir, "roots")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for path, uid := range map[string]int{dir: uid, file: 0} {
				if path == file {
					if err := os.WriteFile(file, nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Chown(path, uid, uid); err != nil {
					t.Fatal(err)
				}
			}
		}
		owners.asked = nil
	}
	fileOf := func(name string) uint32 {
		there, err := v.tree.home.Lstat(dirOf(name) + "/roots")
		if err != nil {
			t.Fatal(err)
		}
		return there.UID
	}

	lay()
	if err := os.Chown(v.tree.home.Path(profilesDir), services, services); err != nil {
		t.Fatal(err)
	}
	if did, err := v.Ownership.Repair("bob", true); err != nil || did.Changed != 1 || len(owners.asked) != 0 {
		t.Errorf("the services' own: %+v, %v, asked %q", did, err, owners.asked)
	}
	if did, err := v.Ownership.Repair("alice", false); err == nil {
		t.Errorf("root's, and not root asks: %+v", did)
	}
	if did, err := v.Ownership.Repair("alice", true); err != nil || did.Changed != 2 || !slices.Equal(owners.asked, []string{"alice"}) {
		t.Errorf("root's: %+v, %v, asked %q", did, err, owners.asked)
	}
	if fileOf("carol") != 0 || fileOf("dave") != 0 {
		t.Error("others are repaired with it")
	}

	lay()
	names, did, err := v.Ownership.Repairable()
	slices.Sort(names)
	if err != nil || did.Changed != 0 || fmt.Sprint(names) != "[alice bob carol dave]" {
		t.Fatalf("%q, %+v, %v", names, did, err)
	}
	for _, name := range names {
		if did, err := v.Ownership.Repair(name, true); err != nil || did.Changed == 0 {
			t.Errorf("%s: %+v, %v", name, did, err)
		}
		want := whose[name]
		if want == 0 {
			want = services
		}
		if got := fileOf(name); int(got) != want {
			t.Errorf("the file of %s is %s's", name, strconv.Itoa(int(got)))
		}
	}
	if !slices.Equal(owners.asked, []string{"alice"}) {
		t.Errorf("asked %q", owners.asked)
	}
}

// A person names a profile, and nothing more by mistake.
func TestFindProfileToRepair(t *testing.T) {
	v := newVolume(t, nil)
	for _, name := range []string{"alice", "gateway-old"} {
		if err := os.MkdirAll(v.tree.home.Path(dirOf(name)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"alice": "alice", "gateway-alice": "alice", "gateway-old": "gateway-old", "gateway-gateway-old": "gateway-old", "old": "",
		"": "", "gateway-": "", "*": "", "alice*": "", "gateway-*": "", "default": "", "..": "", "alice/x": "", "nobody": "",
	} {
		if got, there := v.Ownership.Find(name); got != want || there != (want != "") {
			t.Errorf("%q: %q, %t", name, got, there)
		}
	}
}
