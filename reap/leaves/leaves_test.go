package leaves

import "testing"

// What /proc/PID/cgroup says is taken as it is, and nothing outside of the mount.
func TestOwnCgroup(t *testing.T) {
	for text, want := range map[string]string{
		"0::/\n":          "/",
		"0::/docker/12\n": "/docker/12",
		"4:memory:/a\n1:name=systemd:/b\n0::/c\n": "/c",
		"0::/../other\n": "",
		"4:memory:/a\n":  "",
		"":               "",
		"0::":            "",
	} {
		if got := ownCgroup([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestQuota(t *testing.T) {
	for thousandths, want := range map[int64]string{0: "max", 1: "1000 1000000", 10: "1000 100000", 500: "50000 100000", 2000: "200000 100000"} {
		if got := quota(thousandths); got != want {
			t.Errorf("%d: %q, want %q", thousandths, got, want)
		}
	}
}
