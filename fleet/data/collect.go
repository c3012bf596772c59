package data

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Collect drops the saves of a profile that nobody needs once current is: those of the
// same cluster with a lower fence, or the same fence and a lower number, and what
// attempts of then have left. It never touches current, or what a higher fence writes at
// this moment, or what another cluster has saved: after etcd was restored from a
// backup, the old cluster's saves may be somebody's last, so a person must remove them.
//
// Call it when etcd has taken current. It may end anywhere, and be called again.
func (s *Store) Collect(ctx context.Context, name string, current Manifest) error {
	if err := current.check(); err != nil {
		return err
	}
	if current.Name != name {
		return fmt.Errorf("cannot collect the data of %s: the manifest is of %s", clip(name), current.Name)
	}
	prefix := current.Name + "/" + current.Cluster + "/"
	var manifests, rest []string
	err := s.bucket.list(ctx, prefix, func(key string) error {
		switch {
		case !isOlder(strings.TrimPrefix(key, prefix), current.Ref()):
		case strings.HasSuffix(key, manifestSuffix):
			manifests = append(manifests, key)
		default:
			rest = append(rest, key)
		}
		if len(manifests)+len(rest) >= collectOnce {
			return errEnough
		}
		return nil
	})
	if err != nil && err != errEnough {
		return cannot("collect", name, err)
	}
	// First those that say that the others are there.
	for _, key := range append(manifests, rest...) {
		if err := s.bucket.remove(ctx, key); err != nil {
			return cannot("collect", name, err)
		}
	}
	return nil
}

// collectOnce is how much one Collect drops; the next drops more.
const collectOnce = 1000

var errEnough = fmt.Errorf("that is enough for once")

// isOlder tells whether a key, below the profile and cluster, is of a save before current.
// Of a key that no save makes it is not told.
func isOlder(key string, current Ref) bool {
	m := keyForm().FindStringSubmatch(key)
	if m == nil {
		return false
	}
	fence, err1 := strconv.ParseInt(m[1], 10, 64)
	seq, err2 := strconv.ParseInt(m[2], 10, 64)
	if err1 != nil || err2 != nil {
		return false
	}
	return fence < current.Fence || fence == current.Fence && seq < int64(current.Seq)
}
