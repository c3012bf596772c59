// Package keep has the data of a member's profiles follow them: it saves what lies in the
// directory of one, and restores it where the profile runs next.
//
// What is current is what etcd says: data/NAME, which is written only under the claim of
// the one who saved. A file in the directory says under which claim the data there was
// used last, so that a profile that stays where it is keeps what is newer than the last
// save.
package keep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"rlminit/config"
	"rlminit/control"
	"rlminit/fleet/data"
	"rlminit/fleet/local"
	"rlminit/fleet/store"
	"rlminit/internal/durable"
)

// Keeper keeps the data of the profiles of one member.
type Keeper struct {
	Data   *data.Store
	Store  *store.Store
	Client *control.Client
	Log    *log.Logger

	mu        sync.Mutex
	last      int                  // the number of the latest save
	transfers map[string]*transfer // the latest of each profile
}

// transfer is a save or a restore.
type transfer struct {
	fence  int64
	cancel func()
	done   chan struct{}
}

// markName is the file that says whose the data is.
const markName = ".rlminit-fleet.json"

// mark is the claim under which the data of a directory was used last.
type mark struct {
	Cluster string `json:"cluster"`
	Fence   int64  `json:"fence"`
}

// Restore puts the current data of a profile in place, unless what is there was used under
// a claim that is as new. It returns how many bytes it has read of the bucket. The gateway
// does not run. told is told how much of how much has been read.
func (k *Keeper) Restore(ctx context.Context, name string, fence int64, told func(done, all int64)) (bytes int64, err error) {
	ctx, done, err := k.begin(ctx, name, fence)
	if err != nil {
		return 0, err
	}
	defer done()
	text, _, err := k.Store.Manifest(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("cannot ask etcd for its data: %w", err)
	}
	dir, err := k.dir(ctx, name)
	switch foreign := (*foreign)(nil); {
	case text == "" && errors.As(err, &foreign):
		return 0, nil // nothing else is known of it: its start gives it to the service user
	case err != nil:
		return 0, err
	}
	if text != "" {
		m, err := data.ParseManifest([]byte(text))
		if err != nil {
			return 0, err
		}
		have, err := readMark(dir)
		if err != nil {
			return 0, err
		}
		if have.Cluster != m.Cluster || have.Fence < m.Fence {
			if err := k.Data.Restore(ctx, m, dir, func(read int64) { told(read, m.Stored) }); err != nil {
				return 0, err
			}
			if _, err := k.Client.Reload(ctx, control.Reload{Names: []string{name}}); err != nil {
				return 0, err
			}
			bytes = m.Stored
		}
	}
	return bytes, writeMark(dir, mark{k.Store.Cluster(), fence})
}

// Save saves the data of a profile, and has etcd name it as the current one, if the claim
// is still there. It returns how many bytes it has written into the bucket.
//
// unsure: nobody knows whether anything ran under the claim. The directory may be older then
// than what etcd names, so it is saved only if its mark is this claim's, or if etcd names
// nothing. A directory that is new is not saved over what etcd names: somebody has deleted the
// profile.
func (k *Keeper) Save(ctx context.Context, name string, fence int64, unsure bool) (bytes int64, err error) {
	ctx, done, err := k.begin(ctx, name, fence)
	if err != nil {
		return 0, err
	}
	defer done()
	current, base, err := k.Store.Manifest(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("cannot ask etcd for its data: %w", err)
	}
	is, have := mark{k.Store.Cluster(), fence}, mark{}
	dir, err := k.dir(ctx, name)
	if err == nil {
		have, err = readMark(dir)
	}
	switch {
	case err != nil && isNone(err, unsure):
		return 0, nil
	case err != nil:
		return 0, err
	case have != is && current != "" && (unsure || isNew(dir)):
		return 0, nil
	case have != is:
		if err := writeMark(dir, is); err != nil {
			return 0, err
		}
	}
	m, err := k.Data.Save(ctx, dir, data.Ref{Name: name, Cluster: k.Store.Cluster(), Fence: fence, Seq: k.next()})
	if err != nil {
		return 0, err
	}
	text, err := m.Encode()
	if err != nil {
		return 0, err
	}
	ok, err := k.Store.SetManifest(ctx, name, fence, base, string(text))
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return 0, errors.New("its claim is gone, or an earlier save has come late")
	}
	if err := k.Data.Collect(ctx, name, m); err != nil {
		k.Log.Printf("%s: its data is saved, and what is older cannot be dropped: %v", name, err)
	}
	return m.Stored, nil
}

// begin begins a save or a restore of a directory, when there is no other: one of an earlier claim
// goes on for a while after that was lost, and is ended. done is to be called at its end.
func (k *Keeper) begin(ctx context.Context, name string, fence int64) (_ context.Context, done func(), _ error) {
	ctx, cancel := context.WithCancel(ctx)
	t := &transfer{fence, cancel, make(chan struct{})}
	k.mu.Lock()
	before := k.transfers[name]
	if before != nil && before.fence > fence {
		k.mu.Unlock()
		cancel()
		return nil, nil, errors.New("its claim is over: there is a later one")
	}
	if k.transfers == nil {
		k.transfers = map[string]*transfer{}
	}
	k.transfers[name] = t
	k.mu.Unlock()
	over := func() { cancel(); close(t.done) }
	if before == nil {
		return ctx, over, nil
	}
	if before.fence < fence {
		before.cancel()
	}
	select {
	case <-before.done:
		return ctx, over, nil
	case <-ctx.Done():
		go func() { <-before.done; over() }() // who comes next waits for both
		return nil, nil, ctx.Err()
	}
}

// isNone tells whether an error says that no directory is there that the agent has used: the
// profile is gone, or, where it is not known that it was, its directory is gone or another user's.
func isNone(err error, unsure bool) bool {
	foreign := (*foreign)(nil)
	return local.Is(err, control.KindNoSuchName) || unsure && (errors.As(err, &foreign) || errors.Is(err, fs.ErrNotExist))
}

// isNew tells whether a directory has only what rlminit puts into that of a new profile.
func isNew(dir string) bool {
	all, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(all, func(e fs.DirEntry) bool { return e.Name() != config.ProfileFile })
}

// next numbers the saves, over restarts of the agent too.
func (k *Keeper) next() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = max(k.last+1, int(time.Now().Unix()))
	return k.last
}

// dir is the directory of a profile, which must be that of the agent's user.
func (k *Keeper) dir(ctx context.Context, name string) (string, error) {
	p, err := k.Client.Profile(ctx, name)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(p.Dir)
	if err != nil {
		return "", err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return "", &foreign{p.Dir, int(st.Uid), name}
	}
	return p.Dir, nil
}

// foreign is that a directory is not that of the agent's user.
type foreign struct {
	dir  string
	uid  int
	name string
}

func (f *foreign) Error() string {
	return fmt.Sprintf("%s belongs to uid %d, and the agent is uid %d, which must own it; rlminit profile delete %s puts it into the trash there, and then the last save is restored", f.dir, f.uid, os.Geteuid(), f.name)
}

// readMark is the zero value where there is none, or none that can be understood.
func readMark(dir string) (m mark, err error) {
	text, err := os.ReadFile(filepath.Join(dir, markName))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil && json.Unmarshal(text, &m) != nil {
		return mark{}, nil
	}
	return m, err
}

// writeMark is durable before it returns: it says that what lies beside it may be newer
// than anything else.
func writeMark(dir string, m mark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	d, err := durable.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.WriteFile(markName, text, durable.Write{Mode: 0o600, Names: true})
}
