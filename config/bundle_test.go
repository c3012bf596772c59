package config

import (
	"errors"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/internal/coder/fill"
)

func TestReadBundle(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "rlminit.yaml", "version: 1\n")
	b, err := ReadBundle(path)
	if err != nil || len(b.Files) != 1 {
		t.Fatalf("without services.d: %+v, %v", b, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "services.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b.yaml", "a.yaml", ".hidden.yaml", "a.yaml~", "README"} {
		write(t, dir, "services.d/"+name, "command: [x]\n")
	}
	b, err = ReadBundle(path)
	want := Bundle{Path: path, Files: []File{
		{"rlminit.yaml", []byte("version: 1\n")}, {"services.d/a.yaml", []byte("command: [x]\n")}, {"services.d/b.yaml", []byte("command: [x]\n")},
	}}
	if err != nil || !reflect.DeepEqual(b, want) {
		t.Errorf("%+v, %v", b, err)
	}
	seed := int64(1)
	b.Flags, b.Args = map[string]string{"home": "/x"}, []string{"a", "\xffb", ""}
	for range 20 {
		again, err := DecodeBundle(b.Encode())
		if err != nil || !reflect.DeepEqual(again, b) {
			t.Errorf("%+v, %v\nwant %+v", again, err, b)
		}
		b = Bundle{}
		fill.Random(rand.New(rand.NewSource(seed)), &b, nil)
		seed++
	}
	write(t, dir, "services.d/c.yml", "command: [x]\n")
	_, err = ReadBundle(path)
	if want := "cannot read " + dir + "/services.d/c.yml: only .yaml is read; rename it to c.yaml"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestOthersForSomeServices(t *testing.T) {
	version := func(data string) *Config {
		c, faults := Parse(Bundle{Path: "/x", Files: []File{{"rlminit.yaml", []byte("version: 1\nenvironment: {V: '" + data + "'}\n")}}}, nil)
		if len(faults) > 0 {
			t.Fatal(faults.Err())
		}
		return c
	}
	c := version("1")
	for _, step := range []struct {
		names []string
		files string
		want  string
	}{
		{[]string{"a"}, "1", ""}, // what it has anyway
		{[]string{"a"}, "2", "a=2"},
		{[]string{"b"}, "2", "a,b=2"},
		{nil, "3", "a,b=2"},
		{[]string{"a", "c"}, "3", "a,c=3 b=2"},
		{[]string{"b"}, "1", "a,c=3"},
		{[]string{"d"}, "3", "a,c,d=3"},
		{[]string{"a", "c", "d"}, "1", ""},
	} {
		c = c.With(step.names, version(step.files))
		if v := c.Environment["V"].Text; v != "1" {
			t.Fatalf("all have %s", v)
		}
		b, err := DecodeBundle(c.Bundle().Encode())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, own := range b.Own {
			other, _ := Parse(own.Bundle, nil)
			v := other.Environment["V"].Text
			got = append(got, strings.Join(own.Names, ",")+"="+v)
			for _, name := range own.Names {
				if in := c.For(name).Environment["V"].Text; in != v {
					t.Fatalf("%s has %s, and a successor %s", name, in, v)
				}
			}
		}
		if s := strings.Join(got, " "); s != step.want {
			t.Fatalf("%q have %s: %s, want %s", step.names, step.files, s, step.want)
		}
	}
}

func TestReadBundleRefuses(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadBundle(dir + "/none.yaml")
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != "cannot read "+dir+"/none.yaml: no such file or directory" {
		t.Errorf("%v", err)
	}
	if err := unix.Mkfifo(dir+"/fifo.yaml", 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadBundle(dir + "/fifo.yaml"); err == nil || err.Error() != "cannot read "+dir+"/fifo.yaml: it is no regular file" {
		t.Errorf("%v", err)
	}
	big := write(t, dir, "big.yaml", "version: 1\n"+strings.Repeat("#\n", 1<<19))
	b, err := ReadBundle(big)
	if err != nil {
		t.Fatal(err)
	}
	if _, faults := Parse(b, nil); len(faults) == 0 || faults[0].Error() != "big.yaml:1: the file has 1048577 bytes; 1048576 is the most" {
		t.Errorf("%v", faults)
	}
}

func TestTrust(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can be deceived by another user's file")
	}
	dir := t.TempDir()
	path := write(t, dir, "rlminit.yaml", "version: 1\n")
	const remedy = "; chown root and chmod go-w it, or mount it read-only (:ro)"
	for _, c := range []struct {
		uid  int
		mode os.FileMode
		want string
	}{
		{0, 0o644, ""},
		{0, 0o600, ""},
		{1000, 0o644, "cannot trust " + path + ": it belongs to uid 1000" + remedy},
		{0, 0o664, "cannot trust " + path + ": its mode 0664 lets others than root write it" + remedy},
		{0, 0o602, "cannot trust " + path + ": its mode 0602 lets others than root write it" + remedy},
	} {
		if err := errors.Join(os.Chown(path, c.uid, 0), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		_, err := ReadBundle(path)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("uid %d mode %o: %s, want %s", c.uid, c.mode, got, c.want)
		}
		if _, err := ReadUntrusted(path); err != nil {
			t.Errorf("rlminit check cannot look at it: %v", err)
		}
	}
}

// A directory that others may write is as good as a file that they may write.
func TestTrustDirectories(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can be deceived by another user's directory")
	}
	const remedy = "; chown root and chmod go-w it, or mount it read-only (:ro)"
	for _, c := range []struct {
		below string
		uid   int
		mode  uint32
		want  string
	}{
		{"", 1000, 0o755, "it belongs to uid 1000"},
		{"", 0, 0o777, "its mode 0777 lets others than root write it"},
		{"", 0, 0o775, "its mode 0775 lets others than root write it"},
		{"", 0, 0o1777, ""},
		{"", 0, 0o700, ""},
		{"/services.d", 1000, 0o755, "it belongs to uid 1000"},
		{"/services.d", 0, 0o777, "its mode 0777 lets others than root write it"},
		{"/services.d", 0, 0o755, ""},
	} {
		dir := t.TempDir()
		path := write(t, dir, "rlminit.yaml", "version: 1\n")
		if err := os.Mkdir(dir+"/services.d", 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, dir, "services.d/web.yaml", "command: [x]\n")
		at := dir + c.below
		if err := errors.Join(os.Chown(at, c.uid, 0), unix.Chmod(at, c.mode)); err != nil {
			t.Fatal(err)
		}
		want := ""
		if c.want != "" {
			want = "cannot trust " + at + ": " + c.want + remedy
		}
		got := ""
		if _, err := ReadBundle(path); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: uid %d mode %o: %s, want %s", c.below, c.uid, c.mode, got, want)
		}
		if _, err := ReadUntrusted(path); err != nil {
			t.Errorf("rlminit check cannot look at it: %v", err)
		}
	}
}
