package data

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func aManifest() Manifest {
	r := Ref{Name: "alice", Cluster: "14841639068965178418", Fence: 17, Seq: 3}
	return Manifest{
		Format: 1, Name: r.Name, Cluster: r.Cluster, Fence: r.Fence, Seq: r.Seq, Object: newObject(r), Stored: 10, Size: 20,
		SHA256: strings.Repeat("0a", 32), Entries: 3, At: time.Unix(1e9, 0).UTC(),
	}
}

func TestManifestThereAndBack(t *testing.T) {
	m := aManifest()
	m.Changed, m.ChangedCount = []string{"a.db"}, 1
	m.LeftOut, m.LeftOutCount = []string{"/p/s is left out: it is neither a file nor a directory nor a link"}, 1
	text, err := m.Encode()
	must(t, err)
	got, err := ParseManifest(text)
	must(t, err)
	if !reflect.DeepEqual(got, m) {
		t.Errorf("%+v, want %+v", got, m)
	}
}

// What a manifest may not say, whoever wrote it.
func TestManifestsThatAreRefused(t *testing.T) {
	for why, change := range map[string]func(m *Manifest){
		"is no name of a profile":   func(m *Manifest) { m.Name = "../bob" },
		"is no id of a cluster":     func(m *Manifest) { m.Cluster = "A" },
		"the fence of alice is 0":   func(m *Manifest) { m.Fence = 0 },
		"is -1: it must be":         func(m *Manifest) { m.Seq = -1 },
		"sha256 is not 64":          func(m *Manifest) { m.SHA256 = "ab" },
		"is no object of that save": func(m *Manifest) { m.Object = strings.Replace(m.Object, "alice", "bob", 1) },
		`is no object of that`:      func(m *Manifest) { m.Object = m.Ref().stem() + "../../../x.tar.zst" },
		"must be above 0":           func(m *Manifest) { m.Size = 0 },
		"out of range":              func(m *Manifest) { m.At = time.Time{} },
		"more files than it counts": func(m *Manifest) { m.Changed = []string{"a"} },
		"names more than 20":        func(m *Manifest) { m.LeftOut = make([]string, 21) },
	} {
		m := aManifest()
		change(&m)
		if _, err := m.Encode(); err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, why)
		}
	}
	good, err := aManifest().Encode()
	must(t, err)
	for why, text := range map[string]string{
		"format 2: this rlminit-fleet reads 1": strings.Replace(string(good), `"format":1`, `"format":2,"new":1`, 1),
		"unknown field":                        strings.Replace(string(good), `"format":1`, `"format":1,"new":1`, 1),
		"cannot read a manifest: ":             string(good) + "{}",
		"unexpected end":                       string(good[:40]),
		"65536 are allowed":                    string(good) + strings.Repeat(" ", maxManifest),
	} {
		if _, err := ParseManifest([]byte(text)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
}

// Whatever is read names an object of its own save alone, and is read the same again.
func FuzzParseManifest(f *testing.F) {
	good, err := aManifest().Encode()
	must(f, err)
	f.Add(good)
	f.Add([]byte(`{"format":1,"name":"a","cluster":"b","fence":1,"seq":0,"object":"a/b/../c.tar.zst"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseManifest(text)
		if err != nil {
			return
		}
		if !strings.HasPrefix(m.Object, m.Name+"/"+m.Cluster+"/") || strings.Contains(m.Object, "..") || manifestKey(m.Object) == m.Object {
			t.Errorf("object %q of %+v", m.Object, m)
		}
		again, err := m.Encode()
		must(t, err)
		got, err := ParseManifest(again)
		must(t, err)
		if !got.At.Equal(m.At) || got.Object != m.Object || got.Ref() != m.Ref() {
			t.Errorf("%+v, then %+v", m, got)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
