package process

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Room refuses what would take descriptors of the last quarter, says how many there are
// and how many are needed, and says it as something that no retry mends.
func TestRoom(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = 80
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	refused := 0
	for range 80 {
		err := Room(5)
		f, openErr := os.Open("/dev/null")
		if openErr != nil {
			if err == nil {
				t.Error("there is room where nothing can be opened: ", openErr)
			}
			break
		}
		files = append(files, f)
		if err == nil {
			if refused > 0 || f.Fd()+5 > 60 {
				t.Errorf("there is room for 5 beside %d, after %d refusals", f.Fd(), refused)
			}
			continue
		}
		refused++
		if kept := RoomKeptBack(5); (kept == nil) != (f.Fd()+6 <= 75) {
			t.Errorf("of what is kept back there is room for 5 beside %d: %v", f.Fd(), kept)
		}
		if !strings.Contains(err.Error(), "would need 5 more, where it may have 60 of 80") || errors.Is(err, unix.EMFILE) {
			t.Errorf("refused with %v", err)
		}
	}
	if refused < 20 || len(files) <= refused {
		t.Errorf("%d of %d were refused", refused, len(files))
	}
}
