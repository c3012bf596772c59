// Package statefile is the form of a state file: the keys that are ours, and those that
// are not, which are kept. It decides nothing by what a file says.
package statefile

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/service"
)

// Max is the size of the largest state file that is read, in bytes.
const Max = 64 << 10

// maxReason is the length of the longest exit_reason that is written, in bytes.
const maxReason = 1024

// File is a state file as read: what is ours, and the keys that are not,
// which are kept as they stand.
type File struct {
	service.Record
	Version int64
	Others  []Member
}

// Member is a key that is not ours, and its value.
type Member struct {
	key   string
	value json.RawMessage
}

// seenWord is what gateway_state may look like; the word ends up in
// container-boot.log.
var seenWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`) })

// parseState reads a state file, ours or an application's. What decides about
// starting (desired_state) must be right; a wrong pid or time is taken as none.
func parseState(data []byte) (File, error) {
	f := File{Version: 1}
	members, err := splitObject(data)
	if err != nil {
		return f, err
	}
	for _, m := range members {
		switch m.key {
		case "version":
			if n, err := strconv.ParseInt(string(m.value), 10, 32); err == nil && n > 1 {
				f.Version = n
			}
		case "profile":
			f.Profile = asString(m.value)
		case "desired_state":
			f.Desired = service.Intent(asString(m.value))
			if string(m.value) == "null" {
				continue
			}
			if f.Desired != service.Running && f.Desired != service.Stopped {
				return f, fmt.Errorf("desired_state is %s, not running or stopped", printable(string(m.value), 40))
			}
		case "gateway_state":
			f.Seen = service.Seen(asString(m.value))
			if f.Seen != service.SeenNone && !seenWord().MatchString(string(f.Seen)) {
				f.Seen = "unknown"
			}
		case "pid":
			f.PID = asInt(m.value, 1<<22)
		case "start_time":
			f.StartTime, _ = strconv.ParseUint(string(m.value), 10, 64)
		case "port":
			f.Port = asInt(m.value, 65535)
		case "exit_reason":
			f.ExitReason = printable(asString(m.value), maxReason)
		case "restarts":
			f.Restarts = asInt(m.value, 1<<31-1)
		case "started_with":
			f.Started = startOf(asString(m.value))
		case "updated_at":
			f.UpdatedAt, _ = time.Parse(time.RFC3339, asString(m.value))
		default:
			f.Others = append(f.Others, m)
		}
	}
	return f, nil
}

// splitObject cuts a JSON object into its members, in order. Of a key that
// stands twice the last value counts.
func splitObject(data []byte) ([]Member, error) {
	if !json.Valid(data) {
		return nil, notJSON(data)
	}
	rest := bytes.TrimSpace(data)
	if rest[0] != '{' {
		return nil, errors.New("it is not a JSON object")
	}
	var members []Member
	at := map[string]int{}
	for rest = bytes.TrimSpace(rest[1:]); rest[0] != '}'; rest = bytes.TrimSpace(rest) {
		if rest[0] == ',' {
			rest = bytes.TrimSpace(rest[1:])
		}
		n := valueLen(rest)
		key := asString(rest[:n])
		rest = bytes.TrimSpace(bytes.TrimSpace(rest[n:])[1:]) // behind its colon
		n = valueLen(rest)
		m := Member{key, rest[:n:n]}
		rest = rest[n:]
		if i, twice := at[key]; twice {
			members[i] = m
			continue
		}
		at[key] = len(members)
		members = append(members, m)
	}
	return members, nil
}

// valueLen is how long the value is with which a text begins that is JSON, in bytes.
func valueLen(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // of what it stands in
				return i
			}
			depth--
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(text)
}

// notJSON is why a text is not JSON, or not one value.
func notJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	err := d.Decode(new(json.RawMessage))
	var at *json.SyntaxError
	switch {
	case err == nil:
		return fmt.Errorf("something follows the JSON object at byte %d", d.InputOffset())
	case err == io.EOF:
		return errors.New("it is empty")
	case errors.As(err, &at):
		return fmt.Errorf("%s at byte %d", printable(err.Error(), 120), at.Offset)
	}
	return errors.New("it ends in the middle")
}

// asString is what a JSON string says; "" if it is another value.
func asString(raw json.RawMessage) string {
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// maxStart is the length of the longest Start that is read, in bytes.
const maxStart = 1024

// startOf is what a text says of the start of a run; "": nothing.
func startOf(text string) service.Start {
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(b) > maxStart {
		return ""
	}
	return service.Start(b)
}

// asInt is a number from 0 to max, else 0.
func asInt(raw json.RawMessage, max int) int {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 || n > max {
		return 0
	}
	return n
}

// Encode writes the file: our keys in their order, then the others in theirs.
// desired_state is left out where nobody has said.
func (f File) Encode() []byte {
	b := fmt.Appendf(make([]byte, 0, 256), `{"version":%d,"profile":%s`, f.Version, compact(f.Profile))
	if f.Desired != service.IntentNone {
		b = fmt.Appendf(b, `,"desired_state":%s`, compact(f.Desired))
	}
	b = fmt.Appendf(b, `,"gateway_state":%s,"pid":%d,"start_time":%d,"port":%d,"exit_reason":%s,"restarts":%d,"updated_at":"%s"`,
		compact(f.Seen), f.PID, f.StartTime, f.Port, compact(printable(f.ExitReason, maxReason)), f.Restarts,
		f.UpdatedAt.UTC().Format(time.RFC3339))
	if f.Started != "" {
		b = fmt.Appendf(b, `,"started_with":"%s"`, base64.RawStdEncoding.EncodeToString([]byte(f.Started)))
	}
	for _, m := range f.Others {
		b = fmt.Appendf(b, `,%s:%s`, compact(m.key), compact(m.value))
	}
	return append(b, "}\n"...)
}

// compact is json.Marshal without making < and > unreadable. The values are
// strings, numbers and what the decoder has accepted: it cannot fail.
func compact(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("profiles: cannot encode a state file: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// printable makes text from a file fit for a line that a person reads.
func printable(s string, max int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > max {
		s = strings.ToValidUTF8(s[:max], "")
	}
	return s
}

// Read reads a state file below dir. What cannot be used is a record too,
// a corrupt one; an error is the system's (EIO, too many open files, a file of
// somebody else's), and says nothing about what is in the file.
func Read(dir *durable.Dir, file string) (File, error) {
	data, err := dir.ReadFile(file, Max)
	return Understood(data, err)
}

// Understood is what was read of a state file, or why it could not be, as a record.
func Understood(data []byte, err error) (File, error) {
	f := File{Version: 1}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case errors.Is(err, durable.ErrNotRegular), errors.Is(err, durable.ErrTooBig), errors.Is(err, unix.ELOOP):
		f.Origin, f.Fault = service.Corrupt, durable.Cause(err)
		return f, nil
	case err != nil:
		return f, err
	}
	f, err = parseState(data)
	f.Origin = service.Recorded
	if err != nil {
		f = File{Version: 1}
		f.Origin, f.Fault = service.Corrupt, "corrupt: "+err.Error()
	}
	return f, nil
}
