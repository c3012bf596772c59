package ns

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
	"rlminit/tests/load"
)

// TestChaos is half a minute of it, or as long as make chaos wants.
func TestChaos(t *testing.T) {
	if !Privileged() {
		t.Skip("needs root: it fills /run and the volume")
	}
	lasts, seed := 30*time.Second, rand.Uint64()
	if text := os.Getenv("RLMINIT_CHAOS"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("RLMINIT_CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(home); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) { // which root alone could enter
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	trouble := load.Trouble{Seed: seed, Lasts: lasts, Clients: 4, Each: 5, Home: home}
	d := &disk{home: home, image: filepath.Join("/dev/shm", fmt.Sprintf("rlminit-chaos-%d", os.Getpid()))}
	if err := d.make(); err == nil {
		trouble.Fail, trouble.Mend = d.fail, d.mend
	} else {
		t.Logf("figure: chaos: no disk that can fail here: %v", err)
		if err := unix.Mount("tmpfs", home, "tmpfs", 0, fmt.Sprintf("size=64m,mode=755,uid=%d,gid=%d", box.Service.UID, box.Service.GID)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Unmount(home, unix.MNT_DETACH), os.RemoveAll(d.image)); err != nil {
			t.Error(err)
		}
	})
	load.Chaos(t, Start, trouble)
}

// disk is a file system on a file in memory, whose disk can fail.
type disk struct{ home, image string }

func (d *disk) make() error {
	if err := errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, 64<<20)); err != nil {
		return err
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	if err := d.mount(); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(d.home, "lost+found")); err != nil {
		return err
	}
	return os.Chown(d.home, box.Service.UID, box.Service.GID)
}

func (d *disk) mount() error {
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.home).CombinedOutput(); err != nil {
		return fmt.Errorf("mount: %w: %s", err, out)
	}
	return nil
}

// fail has whatever is asked of the file system fail, with nothing more written: not
// what is in its journal either. EXT4_IOC_SHUTDOWN of linux/ext4.h.
func (d *disk) fail() error {
	const shutdown, noLogFlush = 0x8004587d, 2
	root, err := os.Open(d.home)
	if err != nil {
		return err
	}
	defer root.Close()
	return unix.IoctlSetPointerInt(int(root.Fd()), shutdown, noLogFlush)
}

// mend has what is on the disk be there again, by its journal. The kernel lets go of
// what was mounted when the last process of the boxes has gone.
func (d *disk) mend() error {
	var st unix.Stat_t
	if err := unix.Stat(d.home, &st); err != nil {
		return err
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return err
	}
	if err := unix.Unmount(d.home, 0); err != nil {
		return err
	}
	held := filepath.Join("/sys/fs/ext4", filepath.Base(device))
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(held); errors.Is(err, fs.ErrNotExist) {
			return d.mount()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is still there", held)
		}
	}
}
