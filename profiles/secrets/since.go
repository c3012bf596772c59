package secrets

import (
	"encoding/json"
	"strconv"
	"time"

	"rlminit/internal/durable"
)

// Given tells since when a secret has its value.
type Given struct {
	Version int       `json:"version"` // the profile's version that brought it
	At      time.Time `json:"at"`
	UID     *uint32   `json:"uid"` // of the caller who gave it; nil: nobody knows
}

const (
	sinceSuffix = ".json"
	maxSince    = 1 << 20
)

func sinceFile(profile string, number int) string {
	return Home + "/" + profile + "/" + strconv.Itoa(number) + sinceSuffix
}

// writeSince writes what Since returns. It is there before the set counts that it is of.
func (s *Sets) writeSince(profile string, number int, since map[string]Given) error {
	b, err := json.Marshal(since)
	if err != nil {
		return err
	}
	return s.dir.WriteFile(sinceFile(profile, number), b, durable.Write{Mode: 0o600})
}

// Since tells of a profile's secrets, by name, since when each has its value. For a set that
// an earlier rlminit has written, that is the set's own version and time.
func (s *Sets) Since(profile string) map[string]Given {
	since := map[string]Given{}
	number, err := s.Version(profile)
	if err != nil || number == 0 {
		return since
	}
	if b, err := s.dir.ReadFile(sinceFile(profile, number), maxSince); err == nil && json.Unmarshal(b, &since) != nil {
		since = map[string]Given{}
	}
	names, _ := s.Names(profile)
	info, _ := s.dir.Lstat(versionDir(profile, number))
	told := make(map[string]Given, len(names))
	for _, name := range names {
		given, known := since[name]
		if !known {
			given = Given{Version: number, At: info.Changed.UTC().Truncate(time.Second)}
		}
		told[name] = given
	}
	return told
}
