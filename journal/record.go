package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"
)

// Entry is the input of a record. Body is marshalled to a JSON object, whose
// keys stand in the record beside the journal's own: "seq", "at", "boot", "type"
// and "sum" are taken. A nil Body is an empty object.
type Entry struct {
	Type string // lower-case letters, digits and underscores
	Body any
	// Told is given the line of a note once it is written, or nil if it never will
	// be. The writer calls it: it returns at once. nil: nobody is told.
	Told func(line []byte)
}

// Record is one entry of the journal.
type Record struct {
	Seq  uint64
	At   time.Time // UTC, with microseconds
	Boot string    // the start of the container that wrote it
	Type string
	// Line is the whole record as it stands in the journal, without its newline.
	// It belongs to the journal: a caller that keeps it copies it.
	Line []byte
}

// Decode puts the record's own keys into v, a pointer to a struct with JSON tags.
func (r Record) Decode(v any) error {
	if err := json.Unmarshal(r.Line, v); err != nil {
		return fmt.Errorf("cannot decode record %d (%s): %w", r.Seq, r.Type, err)
	}
	return nil
}

// maxRecord bounds one record, in bytes; a snapshot may be larger.
const (
	maxRecord   = 8 << 20
	maxSnapshot = 256 << 20
)

const timeFormat = "2006-01-02T15:04:05.000000Z"

// castagnoli is made when it is needed first: that takes 0.2 ms, and a client that
// needs none has begun and ended in 3.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// reserved are the keys that every record has.
var reserved = []string{"seq", "at", "boot", "type", "sum"}

// encodeBody makes the keys of an entry: the inside of a JSON object.
func encodeBody(e Entry) ([]byte, error) {
	if !isType(e.Type) {
		return nil, fmt.Errorf("cannot record %q: a type is lower-case letters, digits and underscores", e.Type)
	}
	if e.Body == nil {
		return nil, nil
	}
	b, err := json.Marshal(e.Body)
	if err != nil {
		return nil, fmt.Errorf("cannot record a %s: %w", e.Type, err)
	}
	inside, ok := bytes.CutPrefix(b, []byte("{"))
	if !ok {
		return nil, fmt.Errorf("cannot record a %s: its body is no JSON object", e.Type)
	}
	if key := ownKey(b); key != "" {
		return nil, fmt.Errorf("cannot record a %s: its body has the journal's own key %q", e.Type, key)
	}
	return bytes.TrimSuffix(inside, []byte("}")), nil
}

// ownKey is a reserved key of an object; "": it has none.
func ownKey(object []byte) string {
	var keys map[string]json.RawMessage
	for _, key := range reserved {
		if !bytes.Contains(object, []byte(`"`+key+`":`)) { // as a rule
			continue
		}
		if keys == nil {
			_ = json.Unmarshal(object, &keys) // it is an object
		}
		if _, taken := keys[key]; taken {
			return key
		}
	}
	return ""
}

func isType(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return s != ""
}

// appendRecord adds a record with its newline to b.
func appendRecord(b []byte, seq uint64, at time.Time, boot, kind string, body []byte) []byte {
	begin := len(b)
	b = append(b, `{"seq":`...)
	b = strconv.AppendUint(b, seq, 10)
	b = append(b, `,"at":"`...)
	b = at.UTC().AppendFormat(b, timeFormat)
	b = append(b, `","boot":"`...)
	b = append(b, boot...)
	b = append(b, `","type":"`...)
	b = append(b, kind...)
	b = append(b, '"')
	if len(body) > 0 {
		b = append(b, ',')
		b = append(b, body...)
	}
	sum := crc32.Checksum(b[begin:], castagnoli())
	return fmt.Appendf(b, `,"sum":"%08x"}`+"\n", sum)
}

var errBad = errors.New("it is damaged")

const sumLength = len(`,"sum":"01234567"}`)

// parseRecord reads a line without its newline. Keys stand in the order that
// appendRecord writes them, so most of a journal is read without a JSON parser.
func parseRecord(line []byte) (Record, error) {
	r := Record{Line: line}
	if len(line) < sumLength {
		return r, errBad
	}
	covered, tail := line[:len(line)-sumLength], line[len(line)-sumLength:]
	if !bytes.HasPrefix(tail, []byte(`,"sum":"`)) || !bytes.HasSuffix(tail, []byte(`"}`)) {
		return r, errBad
	}
	var sum [8]byte
	copy(sum[:], tail[len(`,"sum":"`):])
	want, err := strconv.ParseUint(string(sum[:]), 16, 32)
	if err != nil || uint32(want) != crc32.Checksum(covered, castagnoli()) {
		return r, errBad
	}
	rest, ok := bytes.CutPrefix(covered, []byte(`{"seq":`))
	if !ok {
		return r, errBad
	}
	number, rest, ok := bytes.Cut(rest, []byte(`,"at":"`))
	if !ok {
		return r, errBad
	}
	if r.Seq, err = strconv.ParseUint(string(number), 10, 64); err != nil {
		return r, errBad
	}
	at, rest, ok := bytes.Cut(rest, []byte(`","boot":"`))
	if !ok {
		return r, errBad
	}
	if r.At, err = time.Parse(timeFormat, string(at)); err != nil {
		return r, errBad
	}
	boot, rest, ok := bytes.Cut(rest, []byte(`","type":"`))
	if !ok {
		return r, errBad
	}
	kind, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return r, errBad
	}
	r.Boot, r.Type = string(boot), string(kind)
	return r, nil
}
