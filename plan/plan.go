package plan

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gowebpki/jcs"

	"rlminit/control"
)

// Version is that of a plan's format.
const Version = 1

// GoodFor is how long a plan can be applied.
const GoodFor = time.Hour

// MaxSize is the longest plan, in bytes.
const MaxSize = 24 << 20

// Plan is what an apply does, and all that it was decided from.
type Plan struct {
	Version int       `json:"version"`
	Hash    string    `json:"hash"` // of all the rest, in its canonical form
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Scope   Scope     `json:"scope"`
	Source  Origin    `json:"source"`
	Base    Base      `json:"base"`
	// Allow has the users that may apply it, as the configuration had them when it was made;
	// null: every user that may command.
	Allow     []Rule   `json:"allow"`
	Salt      string   `json:"salt"` // of the digests
	Changes   []Change `json:"changes"`
	Unchanged []string `json:"unchanged"` // declared, and so already
	Summary   Summary  `json:"summary"`
}

// Origin is where a plan comes from.
type Origin struct {
	File     string `json:"file"` // absolute; "-": standard input
	Digest   string `json:"digest"`
	Revision string `json:"revision"` // as its author calls it; "": not said
	Clean    bool   `json:"clean"`    // it was looked at, and nothing in it is uncommitted
}

// Base is a plan's starting point.
type Base struct {
	Volume   string `json:"volume"`   // which one
	Revision int    `json:"revision"` // the last that was applied; 0: none
	Digest   string `json:"digest"`   // DigestOf the profiles in its scope
}

// Rule lets a uid apply changes within a scope.
type Rule struct {
	UID   uint32 `json:"uid"`
	Scope string `json:"scope"`
}

// Summary counts.
type Summary = control.PlanSummary

// Sum counts the changes of a plan.
func Sum(changes []Change, declared int) Summary {
	s := Summary{Profiles: declared}
	for _, c := range changes {
		switch c.Action {
		case Create:
			s.Create++
		case Update:
			s.Update++
		case Start:
			s.Start++
		case Stop:
			s.Stop++
		case Delete:
			s.Delete++
		}
		switch {
		case c.Kind == KindConfiguration:
			for _, a := range c.Services {
				s.Restarts += map[string]int{Restarts: 1}[a.Effect]
			}
		case c.Effect == Restarts:
			s.Restarts++
		}
	}
	return s
}

// Empty tells whether nothing is to be done.
func (p *Plan) Empty() bool { return len(p.Changes) == 0 }

// Deletes are the profiles that the plan deletes.
func (p *Plan) Deletes() (names []string) {
	for _, c := range p.Changes {
		if c.Action == Delete {
			names = append(names, c.Name)
		}
	}
	return names
}

// Encode sets the plan's hash, and is its text: canonical JSON.
func (p *Plan) Encode() ([]byte, error) {
	p.Hash = ""
	b, err := canonical(p)
	if err != nil {
		return nil, fmt.Errorf("cannot write the plan: %w", err)
	}
	parts, err := split(b)
	if err != nil {
		return nil, err
	}
	p.Hash = parts.hash()
	parts["hash"] = json.RawMessage(`"` + p.Hash + `"`)
	return parts.join(), nil
}

// members are those of a JSON object in canonical form, each with its text. A
// plan is long, and it is put into canonical form only once.
type members map[string]json.RawMessage

func split(canonical []byte) (members, error) {
	m := members{}
	if err := json.Unmarshal(canonical, &m); err != nil {
		return nil, fmt.Errorf("cannot read the plan: %w", err)
	}
	return m, nil
}

// join is the object again. The keys of a plan are ASCII: their order is that
// of their bytes.
func (m members) join() []byte {
	var out bytes.Buffer
	for i, key := range slices.Sorted(maps.Keys(m)) {
		out.WriteByte("{,"[min(i, 1)])
		out.WriteString(strconv.Quote(key) + ":")
		out.Write(m[key])
	}
	out.WriteByte('}')
	return out.Bytes()
}

// hash is that of all but the key hash.
func (m members) hash() string {
	rest := maps.Clone(m)
	delete(rest, "hash")
	sum := sha256.Sum256(rest.join())
	return hashPrefix + hex.EncodeToString(sum[:])
}

const hashPrefix = "sha256:"

// ErrAltered is a text that is no plan, or not the one that Encode wrote.
var ErrAltered = errors.New("the plan is not what rlminit plan wrote")

// ErrApproval is an approval that is missing, or of another plan.
var ErrApproval = errors.New("not approved")

// Verify reads a plan, and makes sure that it is, byte for byte, one that
// Encode wrote and that approved is its hash. The errors are ErrAltered and
// ErrApproval.
func Verify(text []byte, approved string) (*Plan, error) {
	p, err := Read(text)
	if err != nil {
		return nil, err
	}
	if approved == "" {
		return nil, fmt.Errorf("%w: its hash is missing; write --approve %s once you have read it", ErrApproval, p.Hash)
	}
	given := hashPrefix + strings.TrimPrefix(strings.ToLower(approved), hashPrefix)
	if subtle.ConstantTimeCompare([]byte(given), []byte(p.Hash)) != 1 {
		return nil, fmt.Errorf("%w: the hash that was approved is of another plan; this one's is %s", ErrApproval, p.Hash)
	}
	return p, nil
}

// Read is Verify for a reader of the plan. The error is ErrAltered.
func Read(text []byte) (*Plan, error) {
	altered := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s; make it again with rlminit plan", ErrAltered, fmt.Sprintf(format, args...))
	}
	if len(text) > MaxSize {
		return nil, altered("it has more than %d bytes", MaxSize)
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	form, err := jcs.Transform(bytes.Clone(text))
	if err != nil {
		return nil, altered("it is no JSON, or cut short, or has a key twice")
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, altered("it is no plan")
	}
	if head.Version > Version {
		return nil, altered("it is of version %d, which a newer rlminit has written; this one reads %d", head.Version, Version)
	}
	if !bytes.Equal(form, text) {
		return nil, altered("it is not in canonical form (RFC 8785)")
	}
	p := &Plan{}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(p); err != nil {
		return nil, altered("%v", err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, altered("something follows it")
	}
	parts, err := split(text)
	if err != nil || parts.hash() != p.Hash || p.Version != Version {
		return nil, altered("its content does not have the hash that it bears")
	}
	if at := slices.IndexFunc(p.Changes, func(c Change) bool { return !c.sound() }); at >= 0 {
		return nil, altered("change %d makes no sense", at+1)
	}
	return p, nil
}

// sound tells whether a change is one that Compare could have made.
func (c Change) sound() bool {
	known := slices.Contains([]string{Create, Update, Start, Stop, Delete}, c.Action)
	if c.Kind == KindConfiguration {
		return c.Action == Update && IsConfiguration(c.Name) && c.After != nil && len(c.After.Sealed) == 1
	}
	return known && c.Kind == KindProfile && c.Name != "" && !IsConfiguration(c.Name) && c.Service == serviceOf(c.Name) && (c.After == nil) == (c.Action == Delete)
}

// MayApply tells whether somebody may apply the plan, by rules of apply.allow:
// root may; another one each of whose changes a rule of theirs covers. The
// configuration is root's alone.
func (p *Plan) MayApply(rules []Rule, uid uint32) bool {
	if uid == 0 {
		return true
	}
	mine := slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.UID != uid })
	if len(mine) == 0 {
		return false
	}
	for _, c := range p.Changes {
		if c.Kind == KindConfiguration || !slices.ContainsFunc(mine, func(r Rule) bool { return Covers(r.Scope, c.Subject()) }) {
			return false
		}
	}
	return true
}
