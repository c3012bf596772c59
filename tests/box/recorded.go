package box

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/profiles"
	"rlminit/service"
)

// Recorded is what the journal of a volume has of what is wanted, by service: what a boot
// makes of a copy of it. It is nil where there is no journal yet.
func Recorded(t *testing.T, home string) map[string]service.Intent {
	t.Helper()
	copied, err := os.MkdirTemp(filepath.Dir(filepath.Clean(home)), "recorded-") // in memory, where that is
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(copied) // there are many in one test
	if err := os.CopyFS(filepath.Join(copied, journal.Home), os.DirFS(filepath.Join(home, journal.Home))); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	d, err := durable.Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	intents := profiles.NewIntents()
	j, err := journal.Open(d, journal.Options{Boot: "0123abcd", Folds: map[string]journal.Fold{"intents": intents}})
	if err != nil {
		t.Error(err)
		return nil
	}
	defer j.Close()
	return intents.Snapshot().(map[string]service.Intent)
}
