package logs

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestSlotsWithin: the area of the last slot that is given ends within the largest file, and
// that of one more would not.
func TestSlotsWithin(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_FSIZE, &was) }()
	for _, limit := range []uint64{1 << 20, 32 << 20, 1 << 30, areasAt + 7*areaSize - 1, areasAt + 7*areaSize, 1 << 45} {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
		most, of := slotsWithin()
		if end := areasAt + uint64(most)*areaSize; of != limit || most > maxSlots || most > 0 && end > limit || most < maxSlots && end+areaSize <= limit {
			t.Errorf("of %d bytes %d slots are given, whose areas end at %d", limit, most, end)
		}
	}
	_ = unix.Setrlimit(unix.RLIMIT_FSIZE, &was)
	if most, _ := slotsWithin(); was.Cur == unix.RLIM_INFINITY && most != maxSlots {
		t.Errorf("without a limit %d slots are given", most)
	}
}
