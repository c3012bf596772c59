package profiles

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/service"
)

// empty takes an entry out of the trash for good, which nobody wants back.
func (v *volume) empty(entry string) error {
	_, err := v.Purge(entry, nil, func(_ Trashed, takeOut func() error) error { return takeOut() })
	return err
}

// notesIn is how much a profile that has notes holds.
const notesIn = 5

// binned makes a profile that has notes, and moves it into the trash.
func (v *volume) binned(name string) (entry string) {
	v.t.Helper()
	v.create(name, Creation{Intent: service.Stopped})
	for i := range notesIn {
		v.write(fmt.Sprintf("profiles/%s/notes/%d", name, i), name)
	}
	where, err := v.Delete(name, false, nil)
	must(v.t, err)
	return filepath.Base(where)
}

// lies is each directory of profiles and trash, and how much there is of its notes.
// What has the name of something unfinished is not counted, but left says so.
func (v *volume) lies() (found map[string]int, left []string) {
	v.t.Helper()
	found = map[string]int{}
	for _, dir := range []string{profilesDir, trashDir} {
		entries, err := os.ReadDir(v.path(dir))
		must(v.t, err)
		for _, e := range entries {
			if durable.IsTemp(e.Name()) {
				left = append(left, dir+"/"+e.Name())
				continue
			}
			notes, _ := os.ReadDir(v.path(dir + "/" + e.Name() + "/notes"))
			found[dir+"/"+e.Name()] = len(notes)
		}
	}
	return found, left
}

// A purge beside whatever else takes from the trash or puts something there, each whole
// before every call of the other that changes the volume: of two that want the same
// entry exactly one has it, the other finds nothing, and nothing is there by halves.
func TestPurgeBesideOthers(t *testing.T) {
	const entry = trashDir + "/dora"
	refused := errors.New("the journal is broken")
	purge := func(v *volume, dora string) error { return v.empty(dora) }
	for _, c := range []struct {
		name   string
		other  func(v *volume, dora string) error
		wins   map[string]int // what there is where the other has the entry
		loses  map[string]int // and where the purge has it
		broken bool           // nothing can be recorded
		apart  bool           // they want different things
		miss   error          // what the other says where the purge has it; nil: ErrNotFound
	}{
		{name: "restore", wins: map[string]int{"profiles/dora": notesIn}, other: func(v *volume, _ string) error {
			_, _, err := v.Create("dora", Creation{Restore: "dora", Intent: service.Running})
			return err
		}},
		{name: "restore of the entry", wins: map[string]int{"profiles/erin": notesIn}, other: func(v *volume, dora string) error {
			_, _, err := v.Create("erin", Creation{Restore: dora, Secrets: map[string]string{"S": "s"}})
			return err
		}},
		{name: "restore that cannot be recorded", broken: true, other: func(v *volume, _ string) error {
			_, _, err := v.Create("dora", Creation{Restore: "dora"})
			return err
		}},
		{name: "take back", miss: os.ErrNotExist, wins: map[string]int{"profiles/dora": notesIn}, other: func(v *volume, dora string) error {
			_, err := v.Restore("dora", dora, map[string]string{"S": "s"}, nil)
			return err
		}},
		{name: "purge", other: purge},
		{name: "delete of the same name", apart: true, loses: map[string]int{"trash/new": 1}, other: func(v *volume, _ string) error {
			v.write("profiles/dora/profile.yaml", "")
			v.write("profiles/dora/notes/new", "")
			_, err := v.Delete("dora", false, nil)
			return err
		}},
		{name: "delete for good of the same name", apart: true, other: func(v *volume, _ string) error {
			v.write("profiles/dora/profile.yaml", "")
			_, err := v.Delete("dora", true, nil)
			return err
		}},
	} {
		for _, within := range []string{"a purge within it", "it within a purge"} {
			t.Run(c.name+", "+within, func(t *testing.T) {
				won := map[string]int{}
				for at, more := 1, true; more; at++ {
					v := newVolume(t, nil)
					dora := v.binned("dora")
					if c.broken {
						v.Records.RefuseIntents(refused)
					}
					outer, inner := c.other, purge
					if within == "it within a purge" {
						outer, inner = purge, c.other
					}
					calls, amid := 0, error(nil)
					more = false
					v.Ours().Fail(func(string) error {
						if calls++; calls == at {
							more = true
							amid = inner(v, dora)
						}
						return nil
					})
					err := outer(v, dora)
					v.Ours().Fail(nil)
					if !more {
						amid = inner(v, dora) // after it
					}
					theirs, ours := err, amid
					if within == "it within a purge" {
						theirs, ours = amid, err
					}
					found, left := v.lies()
					for is := range found { // its name has the date
						if fresh := strings.HasPrefix(is, entry+"-") && found[is] == 1; fresh {
							delete(found, is)
							found["trash/new"] = 1
						}
					}
					want := c.loses
					switch {
					case c.apart:
						if theirs != nil || ours != nil {
							t.Errorf("before call %d: %v, %v", at, theirs, ours)
						}
					case c.broken && ours != nil:
						won["nobody"]++
						want = map[string]int{"trash/" + dora: notesIn}
						if !errors.Is(theirs, refused) || !errors.Is(ours, ErrNotFound) {
							t.Errorf("before call %d: %v, %v", at, theirs, ours)
						}
					case theirs == nil:
						won["other"]++
						if want = c.wins; !errors.Is(ours, ErrNotFound) {
							t.Errorf("before call %d both have it: %v", at, ours)
						}
					default:
						won["purge"]++
						miss := c.miss
						if miss == nil {
							miss = ErrNotFound
						}
						// One that cannot be recorded may have given up before.
						if ours != nil || !errors.Is(theirs, miss) && (!c.broken || !errors.Is(theirs, refused)) {
							t.Errorf("before call %d: %v, %v", at, theirs, ours)
						}
						for _, name := range []string{"dora", "erin"} {
							if secrets, err := v.Secrets.Of(name); err != nil || len(secrets) > 0 {
								t.Errorf("before call %d: %s has secrets %v: %v", at, name, secrets, err)
							}
						}
					}
					if fmt.Sprint(found) != fmt.Sprint(want) && len(found)+len(want) > 0 || len(left) > 0 {
						t.Errorf("before call %d (%v, %v) there is %v, and %q, not %v", at, theirs, ours, found, left, want)
					}
				}
				if !c.apart && len(won) == 0 {
					t.Error("nobody has won")
				}
				t.Logf("figure: who has had it: %v", won)
			})
		}
	}
}

// What is no entry's name reaches nothing, and what is one, but no profile, goes itself.
func TestPurgeOfWhatIsNoProfile(t *testing.T) {
	v := newVolume(t, nil)
	dora, outside := v.binned("dora"), t.TempDir()
	v.create("alice", Creation{})
	must(t, os.WriteFile(outside+"/kept", nil, 0o644))
	for _, link := range []string{"trash/link-20260101T000000Z", "trash/link-revision-3", "trash/other"} {
		must(t, os.Symlink(outside, v.path(link)))
	}
	v.write("trash/file-20260101T000000Z", "")
	v.write("trash/file-revision-3", "")
	before, _ := v.lies()
	for _, name := range []string{
		"", ".", "..", "/", "dora", "other", "../profiles/alice", "../trash/" + dora, dora + "/..", dora + "/", dora + "/notes", "./" + dora, "/" + dora,
		dora + "\n", dora + "\x00", "\xff" + dora, strings.Repeat("a", 70) + "-20260101T000000Z", "erin-20261301T000000Z", "erin-20260101T000000Z",
		"link-revision-3", "file-revision-3", "erin-revision-3", "dora-revision-0", durable.TempName(),
	} {
		if err := v.empty(name); !errors.Is(err, ErrNotFound) || strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if now, left := v.lies(); fmt.Sprint(now) != fmt.Sprint(before) || len(left) > 0 {
		t.Errorf("there is %v, and %q, not %v", now, left, before)
	}
	must(t, v.empty("link-20260101T000000Z"))
	must(t, v.empty("file-20260101T000000Z"))
	must(t, v.empty(dora))
	now, left := v.lies()
	if len(now) != len(before)-3 || len(left) > 0 {
		t.Errorf("there is %v, and %q", now, left)
	}
	if _, err := os.Stat(outside + "/kept"); err != nil {
		t.Error(err)
	}

	// And a trash that leads elsewhere.
	erin := v.binned("erin")
	must(t, os.Rename(v.path("trash"), outside+"/trash"))
	must(t, os.Symlink(outside+"/trash", v.path("trash")))
	if err := v.empty(erin); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("behind a link: %v", err)
	}
	if _, err := os.Stat(outside + "/trash/" + erin + "/notes/0"); err != nil {
		t.Error(err)
	}
}

// What cannot be moved is not removed by halves, nor what nothing can be written beside.
func TestPurgeThatIsRefused(t *testing.T) {
	v := &volume{t: t, home: onTmpfs(t, "size=2m")}
	v.reopen(nil)
	dora, erin := v.binned("dora"), v.binned("erin")
	must(t, unix.Mount("tmpfs", v.path("trash/"+erin), "tmpfs", 0, ""))
	if err := v.empty(erin); err == nil || !strings.Contains(err.Error(), "mount point") {
		t.Errorf("a mount point: %v", err)
	}
	must(t, unix.Unmount(v.path("trash/"+erin), unix.MNT_DETACH))
	stays := errors.New("it stays")
	if _, err := v.Purge(erin, nil, func(t Trashed, _ func() error) error {
		if t.Entry == erin && t.Profile == "erin" && t.Revision == 0 {
			return stays
		}
		return nil
	}); !errors.Is(err, stays) {
		t.Error(err)
	}
	v.unjournaled()
	must(t, unix.Mount("", v.home, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if err := v.empty(erin); err == nil || !strings.HasSuffix(err.Error(), "read-only file system; mount the volume read-write") {
		t.Errorf("read-only: %v", err)
	}
	must(t, unix.Mount("", v.home, "", unix.MS_REMOUNT, ""))
	if found, left := v.lies(); found["trash/"+erin] != notesIn || found["trash/"+dora] != notesIn || len(left) > 0 {
		t.Errorf("there is %v, and %q", found, left)
	}

	// A full disk is what it is for.
	fill, err := os.Create(v.path("fill"))
	must(t, err)
	if _, err = io.Copy(fill, io.LimitReader(zeroes{}, 4<<20)); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("it is not full: %v", err)
	}
	must(t, fill.Close())
	must(t, v.empty(dora))
	if found, left := v.lies(); len(found) != 1 || len(left) > 0 {
		t.Errorf("there is %v, and %q", found, left)
	}
}

// A purge that is killed at any call that changes the volume, and then again in the
// middle of the removal: the entry is there and whole, or nobody can have it back, and
// the next start removes what is left.
func TestPurgeKilledAnywhere(t *testing.T) {
	type kill struct{}
	gone, whole := 0, 0
	for at, killed := 1, true; killed; at++ {
		v := newVolume(t, nil)
		dora := v.binned("dora")
		killed = false
		calls := 0
		v.Ours().Fail(func(string) error {
			if calls++; calls == at {
				killed = true
				panic(kill{})
			}
			return nil
		})
		func() {
			defer func() {
				if r := recover(); r != nil && r != (kill{}) {
					panic(r)
				}
			}()
			must(t, v.empty(dora))
		}()
		v.Ours().Fail(nil)
		_, left := v.lies()
		for _, dir := range left { // half of it is gone
			must(t, os.RemoveAll(v.path(dir+"/notes/0")))
		}
		v.reopen(nil)
		found, _ := v.lies()
		switch list, err := v.Trash.List(); {
		case err != nil:
			t.Error(err)
		case len(list) == 0 && len(found) == 0:
			gone++
			if _, _, err := v.Create("dora", Creation{Restore: dora}); !errors.Is(err, ErrNotFound) {
				t.Errorf("killed at call %d: it is restored: %v", at, err)
			}
		case len(list) == 1 && found["trash/"+dora] == notesIn && len(found) == 1:
			whole++
		default:
			t.Errorf("killed at call %d: there is %v, and %q", at, found, left)
		}
		v.PrepareBoot(nil)
		if _, left := v.lies(); len(left) > 0 {
			t.Errorf("killed at call %d: after the next start there is %q", at, left)
		}
	}
	if gone < 2 || whole == 0 {
		t.Errorf("%d times it was gone, %d times whole", gone, whole)
	}
}

// A deletion that a disk refuses is refused before the gateway is stopped, and has left
// nothing; one that is only full keeps nobody from deleting.
func TestADeletionIsRefusedAtOnce(t *testing.T) {
	for _, c := range []struct {
		step string
		err  error
		want error
	}{
		{"mkdir", unix.EIO, unix.EIO}, {"sync", unix.EIO, unix.EIO}, {"mkdir", unix.EROFS, unix.EROFS}, {"mkdir", unix.ENOSPC, nil}, {"sync", unix.EDQUOT, nil}, {"", nil, nil},
	} {
		for _, purge := range []bool{false, true} {
			v := newVolume(t, nil)
			_, _, err := v.Create("dora", Creation{})
			must(t, err)
			v.Ours().Fail(func(step string) error {
				if step == c.step {
					return c.err
				}
				return nil
			})
			err = v.CheckDelete("dora", purge)
			v.Ours().Fail(nil)
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s fails with %v: %v, want %v", c.step, c.err, err, c.want)
			}
			left, err := os.ReadDir(v.path(profilesDir))
			if err != nil || len(left) != 1 {
				t.Errorf("%s fails with %v: %v, %v", c.step, c.err, left, err)
			}
		}
	}
}

// A profile that is made where another was, whose end was cut off before it was recorded,
// has nothing of that one's intent, though its own beginning is cut off in its turn.
func TestANewProfileHasNoIntentOfAnother(t *testing.T) {
	for how, begin := range map[string]func(*volume) error{
		"created": func(v *volume) error {
			_, _, err := v.Create("web", Creation{Intent: service.Stopped})
			return err
		},
		"cloned": func(v *volume) error {
			_, _, err := v.Create("web", Creation{Clone: "other", Intent: service.Stopped})
			return err
		},
		"restored": func(v *volume) error {
			_, _, err := v.Create("web", Creation{Restore: "binned"})
			return err
		},
		"renamed": func(v *volume) error {
			_, err := v.Rename("other", "web", nil)
			return err
		},
	} {
		v := newVolume(t, nil)
		v.create("other", Creation{Intent: service.Stopped})
		v.binned("binned")
		v.create("web", Creation{Intent: service.Running})
		must(t, v.wants("web", service.Running))
		must(t, os.RemoveAll(v.path("profiles/web"))) // a purge that was cut off
		v.failFrom(func(step string) error {          // before it is recorded
			if _, err := os.Stat(v.path("profiles/web/profile.yaml")); err == nil {
				panic(unix.EINTR)
			}
			return nil
		})
		func() {
			defer func() { recover() }()
			if err := begin(v); err == nil {
				t.Errorf("%s: it was not cut off", how)
			}
		}()
		v.failFrom(nil)
		intent, known := v.Records.ledger.Load().known(GatewayName("web"))
		if _, err := os.Stat(v.path("profiles/web")); err != nil || known {
			t.Errorf("%s: it is there: %v; recorded of it is %q", how, err == nil, intent)
		}
	}
}
