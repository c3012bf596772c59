package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/s3blob" // s3://
	"gocloud.dev/gcerrors"
)

// bucket is what is asked of a bucket.
type bucket interface {
	// create begins an object. It is there when Close has returned nil, and then it
	// is durable; where ctx ends before, it never is.
	create(ctx context.Context, key string) (io.WriteCloser, error)
	// open reads an object from an offset on.
	open(ctx context.Context, key string, offset int64) (io.ReadCloser, error)
	// size is how long an object is.
	size(ctx context.Context, key string) (int64, error)
	// list calls f with every key below a prefix, until f fails.
	list(ctx context.Context, prefix string, f func(key string) error) error
	// remove removes an object; one that is not there is no error.
	remove(ctx context.Context, key string) error
	close() error
}

// How an object is sent to S3: memory is a part for each that is under way, and one
// that is being filled.
const (
	partSize  = 16 << 20
	partsOnce = 2
)

// checksums is an option of an s3:// URL: which answers the client checks by itself.
const checksums = "response_checksum_validation"

// cloud is a bucket of gocloud.dev. What it is called is in errors, so it has no
// credentials.
type cloud struct {
	*blob.Bucket
	root string // of a file://, the directory; else ""
}

// openBucket opens a file:/// or an s3:// bucket.
func openBucket(ctx context.Context, at string) (bucket, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("cannot open the bucket: its URL cannot be read; write file:///DIRECTORY or s3://BUCKET")
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" {
			return nil, fmt.Errorf("cannot open the bucket %s: write file:/// and an absolute path, and nothing behind it", u.Redacted())
		}
		root := filepath.Clean(u.Path)
		// Beside the objects, for a rename does not leave a file system. Attributes
		// would be a second file, of which nothing is needed.
		b, err := fileblob.OpenBucket(root, &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite, DirFileMode: 0o700})
		if err != nil {
			return nil, fmt.Errorf("cannot open the bucket %s: %w; make the directory, or mount what it is on", u.Redacted(), err)
		}
		return cloud{b, root}, nil
	case "s3":
		if u.User != nil {
			return nil, fmt.Errorf("cannot open the bucket %s: credentials do not belong into its URL; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", u.Redacted())
		}
		// The archive has a digest of its own, and the client would write a line for
		// each object of several parts that it cannot check with one of S3's.
		if q := u.Query(); !q.Has(checksums) {
			q.Set(checksums, "when_required")
			u.RawQuery = q.Encode()
		}
		b, err := blob.OpenBucket(ctx, u.String())
		if err != nil {
			return nil, fmt.Errorf("cannot open the bucket %s: %w", u.Redacted(), err)
		}
		return cloud{b, ""}, nil
	}
	return nil, fmt.Errorf("cannot open the bucket %s: write file:///DIRECTORY or s3://BUCKET", u.Redacted())
}

func (c cloud) close() error { return c.Bucket.Close() }

func (c cloud) create(ctx context.Context, key string) (io.WriteCloser, error) {
	o := &object{cloud: c, key: key}
	w, err := c.NewWriter(ctx, key, &blob.WriterOptions{
		BufferSize: partSize, MaxConcurrency: partsOnce,
		ContentType: "application/octet-stream", // or the first bytes are held back for a guess
		BeforeWrite: func(as func(any) bool) error {
			if c.root == "" || !as(&o.file) {
				return nil
			}
			return o.file.Chmod(0o600) // it has the profile's secrets
		},
	})
	if err != nil {
		return nil, err
	}
	o.Writer = w
	return o, nil
}

// object is one that is being written.
type object struct {
	*blob.Writer
	cloud cloud
	key   string
	file  *os.File // of a file://
}

// Close makes the object durable. A rename alone is not: after a power cut the name
// may be there without the content, or not at all.
func (o *object) Close() error {
	if o.file == nil {
		return o.Writer.Close()
	}
	synced := o.file.Sync()
	if err := errors.Join(synced, o.Writer.Close()); err != nil {
		return err
	}
	for dir := filepath.Dir(filepath.Join(o.cloud.root, filepath.FromSlash(o.key))); ; dir = filepath.Dir(dir) {
		if err := syncDirectory(dir); err != nil {
			return err
		}
		if dir == o.cloud.root || !strings.HasPrefix(dir, o.cloud.root) {
			return nil
		}
	}
}

func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (c cloud) open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	return c.NewRangeReader(ctx, key, offset, -1, nil)
}

func (c cloud) size(ctx context.Context, key string) (int64, error) {
	a, err := c.Attributes(ctx, key)
	if err != nil {
		return 0, err
	}
	return a.Size, nil
}

func (c cloud) list(ctx context.Context, prefix string, f func(key string) error) error {
	for all := c.List(&blob.ListOptions{Prefix: prefix}); ; {
		o, err := all.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = f(o.Key)
		}
		if err != nil {
			return err
		}
	}
}

func (c cloud) remove(ctx context.Context, key string) error {
	if err := c.Delete(ctx, key); gcerrors.Code(err) != gcerrors.NotFound {
		return err
	}
	return nil
}

// resumed reads an object, and goes on where it was when a connection breaks.
type resumed struct {
	ctx    context.Context
	from   bucket
	key    string
	total  int64         // bytes that are read; what lies behind them is not
	at     int64         // 0 <= at <= total
	body   io.ReadCloser // nil: not open
	pause  func(context.Context, time.Duration) error
	told   func(at int64) // nil: nobody is
	broken error          // what Read has returned, but for io.EOF
}

// Attempts to read on, and how long is waited before each: 0.1 s, then twice as long.
const (
	readAttempts = 6
	firstPause   = 100 * time.Millisecond
)

func (r *resumed) Read(p []byte) (int, error) {
	if r.at == r.total {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.total-r.at)]
	for failed := 1; ; failed++ {
		n, err := r.read(p)
		if r.at += int64(n); n > 0 || err == nil {
			if r.told != nil {
				r.told(r.at)
			}
			return n, nil // an error comes again
		}
		r.Close()
		switch {
		case err == io.EOF:
			err = fmt.Errorf("%w: it has %d bytes, not %d", ErrDamaged, r.at, r.total)
		case r.ctx.Err() != nil:
			err = r.ctx.Err()
		case failed < readAttempts && !isFinal(err) && r.pause(r.ctx, firstPause<<(failed-1)) == nil:
			continue
		}
		r.broken = err
		return 0, err
	}
}

// isFinal tells whether another attempt would be answered alike.
func isFinal(err error) bool {
	code := gcerrors.Code(err)
	return code == gcerrors.NotFound || code == gcerrors.PermissionDenied || code == gcerrors.InvalidArgument
}

func (r *resumed) read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.body == nil {
		body, err := r.from.open(r.ctx, r.key, r.at)
		if err != nil {
			return 0, err
		}
		r.body = body
	}
	return r.body.Read(p)
}

func (r *resumed) Close() error {
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}

// pause waits, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
