package data

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"
)

// Store is a bucket with the data of profiles. Its methods may be called from several
// goroutines at once, but see Restore.
type Store struct {
	bucket bucket

	// For tests: what is called before each step of a restore, and may fail; how long
	// is waited before an attempt; what the time is; how many bytes a save has read.
	step  func(what string) error
	pause func(context.Context, time.Duration) error
	now   func() time.Time
	read  func(bytes int64)
}

// Open opens a bucket: file:///DIRECTORY, which must exist and be the same for all
// members, or s3://BUCKET with the options of gocloud.dev, such as
// ?region=eu-central-1&endpoint=https://HOST&use_path_style=true&prefix=fleet/.
// Credentials are those of the AWS variables and files. It asks nothing of the bucket.
func Open(ctx context.Context, url string) (*Store, error) {
	b, err := openBucket(ctx, url)
	if err != nil {
		return nil, err
	}
	return newStore(b), nil
}

func newStore(b bucket) *Store {
	return &Store{bucket: b, step: func(string) error { return nil }, pause: pause, now: time.Now, read: func(int64) {}}
}

// Close gives the bucket back.
func (s *Store) Close() error { return s.bucket.close() }

// newObject is a key that no object has had.
func newObject(r Ref) string {
	var random [8]byte
	for i, v := 0, rand.Uint64(); i < len(random); i++ {
		random[i] = byte(v >> (8 * i))
	}
	return r.stem() + hex.EncodeToString(random[:]) + archiveSuffix
}

func cannot(do, name string, err error) error {
	return fmt.Errorf("cannot %s the data of %s: %w", do, name, err)
}
