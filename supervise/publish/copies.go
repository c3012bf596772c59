package publish

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"

	"rlminit/internal/durable"
	"rlminit/profiles"
	"rlminit/supervise/threads"
)

// copiesAtOnce is how many copies of what was seen are under way at a time.
// None waits for the disk, and all are behind what people ask for.
const copiesAtOnce = 2

// recordPause is how long what was seen waits for what is seen next: most states
// on the way to another last for less.
const recordPause = 100 * time.Millisecond

// Copies are the state files of profiles on the volume, by profile.
type Copies = Newest[string, profiles.Seen]

// NewCopies writes the state files of profiles, while store returns where. What cannot be
// written, which is said once, is tried again until the disk is well.
func NewCopies(store func() *profiles.Store) *Copies {
	failing := map[string]bool{}
	return newNewest(recordPause, func(batch map[string]profiles.Seen) (failed map[string]profiles.Seen) {
		to := store()
		if to == nil {
			return nil
		}
		names := slices.Collect(maps.Keys(batch))
		seen := make([]profiles.Seen, len(names))
		for i, name := range names {
			seen[i] = batch[name]
		}
		failures := to.Records.SaveSeen(names, seen, min(copiesAtOnce, threads.Share()))
		failed = map[string]profiles.Seen{}
		unsaid := map[string][]string{} // profiles, by what is the same of several
		said := map[string]error{}
		for i, of := range names {
			err := failures[i]
			if err == nil || errors.Is(err, profiles.ErrNotFound) || errors.Is(err, fs.ErrNotExist) { // deleted since it was seen
				delete(failing, of)
				continue
			}
			failed[of] = batch[of]
			if !failing[of] {
				failing[of] = true
				why := durable.Cause(err)
				unsaid[why], said[why] = append(unsaid[why], of), err
			}
		}
		for _, why := range slices.Sorted(maps.Keys(unsaid)) {
			if all := unsaid[why]; len(all) == 1 {
				slog.Warn("cannot write the state file of a profile", "profile", all[0], "err", said[why])
			} else {
				slog.Warn("cannot write the state files of profiles", "profiles", len(all), "such_as", all[len(all)-1], "err", said[why])
			}
		}
		return failed
	})
}
