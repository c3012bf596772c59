package profiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"
	"time"

	"rlminit/service"
)

// maxStateFile is the size of the largest state file that is read, in bytes.
const maxStateFile = 64 << 10

// maxReason is the length of the longest exit_reason that is written, in bytes.
const maxReason = 1024

// stateFile is a state file as read: what is ours, and the keys that are not,
// which are kept as they stand.
type stateFile struct {
	service.Record
	version int64
	others  []member
}

type member struct {
	key   string
	value json.RawMessage
}

// seenWord is what gateway_state may look like; the word ends up in
// container-boot.log.
var seenWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`) })

// parseState reads a state file, ours or an application's. What decides about
// starting (desired_state) must be right; a wrong pid or time is taken as none.
func parseState(data []byte) (stateFile, error) {
	f := stateFile{version: 1}
	members, err := splitObject(data)
	if err != nil {
		return f, err
	}
	for _, m := range members {
		switch m.key {
		case "version":
			if n, err := strconv.ParseInt(string(m.value), 10, 32); err == nil && n > 1 {
				f.version = n
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
		case "updated_at":
			f.UpdatedAt, _ = time.Parse(time.RFC3339, asString(m.value))
		default:
			f.others = append(f.others, m)
		}
	}
	return f, nil
}

// splitObject cuts a JSON object into its members, in order. Of a key that
// stands twice the last value counts.
func splitObject(data []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	open, err := d.Token()
	if err == io.EOF {
		return nil, errors.New("it is empty")
	}
	if err != nil {
		return nil, atOffset(d, err)
	}
	if open != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var members []member
	at := map[string]int{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, atOffset(d, err)
		}
		m := member{key: key.(string)} // the decoder lets nothing else be a key
		if err := d.Decode(&m.value); err != nil {
			return nil, atOffset(d, err)
		}
		if i, twice := at[m.key]; twice {
			members[i] = m
			continue
		}
		at[m.key] = len(members)
		members = append(members, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, atOffset(d, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the JSON object at byte %d", d.InputOffset())
	}
	return members, nil
}

func atOffset(d *json.Decoder, err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("it ends in the middle")
	}
	return fmt.Errorf("%s at byte %d", printable(err.Error(), 120), d.InputOffset())
}

func asString(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// asInt is a number from 0 to max, else 0.
func asInt(raw json.RawMessage, max int) int {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 || n > max {
		return 0
	}
	return n
}

// encode writes the file: our keys in their order, then the others in theirs.
// desired_state is left out where nobody has said.
func (f stateFile) encode() []byte {
	var b bytes.Buffer
	put := func(key string, value any) {
		if b.Len() == 0 {
			b.WriteByte('{')
		} else {
			b.WriteByte(',')
		}
		b.Write(compact(key))
		b.WriteByte(':')
		b.Write(compact(value))
	}
	put("version", f.version)
	put("profile", f.Profile)
	if f.Desired != service.IntentNone {
		put("desired_state", f.Desired)
	}
	put("gateway_state", f.Seen)
	put("pid", f.PID)
	put("start_time", f.StartTime)
	put("port", f.Port)
	put("exit_reason", printable(f.ExitReason, maxReason))
	put("restarts", f.Restarts)
	put("updated_at", f.UpdatedAt.UTC().Format(time.RFC3339))
	for _, m := range f.others {
		put(m.key, m.value)
	}
	b.WriteString("}\n")
	return b.Bytes()
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
