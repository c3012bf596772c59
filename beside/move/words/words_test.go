package words

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		``:                         nil,
		`  a  b `:                  {"a", "b"},
		`a 'b c' "d \" e" f\ g`:    {"a", "b c", `d " e`, "f g"},
		`sh -c "echo \$X; exit 1"`: {"sh", "-c", `echo \$X; exit 1`},
		`--name='x y'z ""`:         {"--name=x yz", ""},
		`a;b|c`:                    {"a;b|c"},
	} {
		got, err := Split(line)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
	for _, line := range []string{`'a`, `"a`, `a\`, `"a\"`} {
		if got, err := Split(line); err == nil {
			t.Errorf("%s: %q without an error", line, got)
		}
	}
}

// What Join writes, the shell reads as the same words, and so does Split.
func TestJoin(t *testing.T) {
	all := []string{"plain", "", "two words", `it's`, `"quoted"`, "$HOME", "a\nb", "*", `\`, "~", "a=b;c", "ü"}
	line := Join(all)
	out, err := exec.Command("sh", "-c", `printf '%s\0' `+line).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, all) {
		t.Errorf("the shell reads %q as %q", line, got)
	}
	if got, err := Split(line); err != nil || !slices.Equal(got, all) {
		t.Errorf("Split reads %q as %q, %v", line, got, err)
	}
}
