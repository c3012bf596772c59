package keep

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"rlminit/control"
)

// TestOneTransferAtATime: a transfer of a later claim ends that of an earlier one and waits for
// its end; one of an earlier claim is refused; who gives up waiting is in nobody's way, and lets
// nobody come too early.
func TestOneTransferAtATime(t *testing.T) {
	k := &Keeper{}
	first, done, err := k.begin(t.Context(), "p", 5)
	if err != nil {
		t.Fatal(err)
	}
	if _, done, err := k.begin(t.Context(), "other", 5); err != nil {
		t.Error("another profile waits")
	} else {
		done()
	}
	begun := func(fence int64) chan func() {
		out := make(chan func(), 1)
		go func() {
			_, done, err := k.begin(context.Background(), "p", fence)
			if err != nil {
				t.Error(err)
			}
			out <- done
		}()
		return out
	}
	same, quit := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, _, err := k.begin(same, "p", 5)
		gaveUp <- err
	}()
	quit()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if first.Err() != nil {
		t.Error("one of the same claim has ended it")
	}
	second := begun(6)
	select {
	case <-second:
		t.Fatal("two at once")
	default:
	}
	done()
	after := <-second
	if _, _, err := k.begin(t.Context(), "p", 5); err == nil {
		t.Error("one of an earlier claim begins")
	}
	after()
	third, done, err := k.begin(t.Context(), "p", 7)
	if err != nil {
		t.Fatal(err)
	}
	fourth := begun(8)
	<-third.Done() // a later claim ends it
	done()
	(<-fourth)()
}

// TestIsNone: of which errors a save says that there is nothing to save.
func TestIsNone(t *testing.T) {
	for _, c := range []struct {
		err          error
		sure, unsure bool
	}{
		{control.NoSuchProfile("p", nil), true, true},
		{&foreign{"/x", 5, "p"}, false, true},
		{&fs.PathError{Op: "stat", Path: "/x", Err: fs.ErrNotExist}, false, true},
		{control.Failed("no"), false, false},
		{errors.New("no"), false, false},
	} {
		if isNone(c.err, false) != c.sure || isNone(c.err, true) != c.unsure {
			t.Errorf("%v", c.err)
		}
	}
}

func TestIsNew(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		want bool
	}{{"", true}, {"profile.yaml", true}, {"note", false}} {
		if c.name != "" {
			if err := os.WriteFile(filepath.Join(dir, c.name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if isNew(dir) != c.want {
			t.Errorf("with %q it is not %v", c.name, c.want)
		}
	}
	if isNew(filepath.Join(dir, "none")) {
		t.Error("what cannot be read is new")
	}
}
