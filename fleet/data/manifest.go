package data

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Format is what is written, and the only one that is read.
const Format = 1

// Bounds of a manifest, which has to fit into a value of etcd.
const (
	maxManifest = 64 << 10
	maxNames    = 20 // of files that a manifest names
	maxText     = 300
)

// Ref says of which profile a save is, and which save of it.
type Ref struct {
	Name    string // of the profile
	Cluster string // the id of the etcd cluster, of which Fence is a revision
	Fence   int64  // the create revision of the claim, above 0
	Seq     int    // counts the saves under one fence; each has a higher one
}

// Manifest is what a restore must know of a save. It is what etcd has, too.
type Manifest struct {
	Format  int       `json:"format"`
	Name    string    `json:"name"`
	Cluster string    `json:"cluster"`
	Fence   int64     `json:"fence"`
	Seq     int       `json:"seq"`
	Object  string    `json:"object"` // its key in the bucket
	Stored  int64     `json:"stored"` // bytes of the object
	Size    int64     `json:"size"`   // bytes of the archive
	SHA256  string    `json:"sha256"` // of the archive
	Entries int       `json:"entries"`
	At      time.Time `json:"at"` // when the save began

	// Files of which the object has a mixture of two moments, since they were
	// overwritten during each attempt. Those that only grew are not among them.
	Changed      []string `json:"changed,omitempty"`
	ChangedCount int      `json:"changed_count,omitempty"`
	// Sentences, each of what was left out and why.
	LeftOut      []string `json:"left_out,omitempty"`
	LeftOutCount int      `json:"left_out_count,omitempty"`
}

// Ref is the save that a manifest is of.
func (m Manifest) Ref() Ref { return Ref{m.Name, m.Cluster, m.Fence, m.Seq} }

// Encode is a manifest as etcd and the bucket have it.
func (m Manifest) Encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	return json.Marshal(m)
}

// ParseManifest reads a manifest. It may come from anybody: what it returns names no
// object but one of the profile, the cluster, the fence and the number that it says.
func ParseManifest(text []byte) (Manifest, error) {
	var m Manifest
	if len(text) > maxManifest {
		return m, fmt.Errorf("cannot use a manifest of %d bytes: %d are allowed", len(text), maxManifest)
	}
	// The format first: another one may have other keys.
	var format struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &format); err != nil {
		return m, fmt.Errorf("cannot read a manifest: %w", err)
	}
	if format.Format != Format {
		return m, fmt.Errorf("cannot use a manifest of format %d: this rlminit-fleet reads %d; use the version that wrote it", format.Format, Format)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("cannot read a manifest: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Manifest{}, fmt.Errorf("cannot read a manifest: something follows it")
	}
	if err := m.check(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

// check says what is wrong with a manifest.
func (m Manifest) check() error {
	if err := m.Ref().check(); err != nil {
		return fmt.Errorf("cannot use a manifest: %w", err)
	}
	wrong := ""
	switch sum, err := hex.DecodeString(m.SHA256); {
	case m.Format != Format:
		wrong = fmt.Sprintf("its format is %d, not %d", m.Format, Format)
	case err != nil || len(sum) != 32 || strings.ToLower(m.SHA256) != m.SHA256:
		wrong = "its sha256 is not 64 hexadecimal digits"
	case !isObjectOf(m.Object, m.Ref()):
		wrong = fmt.Sprintf("its object %q is no object of that save", m.Object)
	case m.Stored <= 0 || m.Size <= 0 || m.Entries <= 0:
		wrong = "its stored, size and entries must be above 0"
	case m.At.Year() < 1970 || m.At.Year() > 9999:
		wrong = "its time is out of range"
	case len(m.Changed) > maxNames || len(m.LeftOut) > maxNames:
		wrong = fmt.Sprintf("it names more than %d files", maxNames)
	case m.ChangedCount < len(m.Changed) || m.LeftOutCount < len(m.LeftOut):
		wrong = "it names more files than it counts"
	}
	if wrong != "" {
		return fmt.Errorf("cannot use a manifest of %s: %s", m.Name, wrong)
	}
	return nil
}

// partName is what a profile's name and a cluster's id may be: a part of a key that
// every bucket takes as it is.
var partName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`) })

func (r Ref) check() error {
	switch {
	case !partName().MatchString(r.Name):
		return fmt.Errorf("%q is no name of a profile", clip(r.Name))
	case !partName().MatchString(r.Cluster):
		return fmt.Errorf("%q is no id of a cluster: use lower-case letters, digits, - and _", clip(r.Cluster))
	case r.Fence <= 0:
		return fmt.Errorf("the fence of %s is %d: it must be above 0", r.Name, r.Fence)
	case r.Seq < 0 || int64(r.Seq) > maxSeq:
		return fmt.Errorf("the number of a save of %s is %d: it must be 0 to %d", r.Name, r.Seq, int64(maxSeq))
	}
	return nil
}

const (
	maxSeq         = 9_999_999_999
	archiveSuffix  = ".tar.zst"
	manifestSuffix = ".json"
)

// stem is the beginning of a save's keys. The digits are padded, so that a listing is
// in the order of fences and numbers.
func (r Ref) stem() string {
	return fmt.Sprintf("%s/%s/%019d/%010d-", r.Name, r.Cluster, r.Fence, r.Seq)
}

// keyForm is what the fence's and the number's part of a key look like. What follows is
// an object's suffix, or that of a file which a killed save has left.
var keyForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d{19})/(\d{10})-[0-9a-f]{16}\.`) })

func isObjectOf(key string, r Ref) bool {
	rest, ok := strings.CutPrefix(key, r.stem())
	random, suffixed := strings.CutSuffix(rest, archiveSuffix)
	raw, err := hex.DecodeString(random)
	return ok && suffixed && err == nil && len(raw) == 8 && random == hex.EncodeToString(raw) && path.Clean(key) == key
}

// manifestKey is where the manifest of an object is.
func manifestKey(object string) string {
	return strings.TrimSuffix(object, archiveSuffix) + manifestSuffix
}

// clip is a text that a manifest, or a message, can hold.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxText {
		return s
	}
	s = s[:maxText]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// appendClipped adds to the names of a manifest, as many as it may have.
func appendClipped(names []string, s string) []string {
	if len(names) < maxNames {
		names = append(names, clip(s))
	}
	return names
}
