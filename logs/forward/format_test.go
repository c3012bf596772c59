package forward

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"rlminit/logs"
)

// Whatever a service writes, what is sent is one line of JSON that says so, and one message
// of syslog, without a character that does something to a terminal or ends a line.
func TestWhateverIsWritten(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", " ", "\t", "\x00", "\x1b[31m", "\x7f", "\xff", "\xc3", "é", "\u0085", "\u2028", "🙂", `"`, `\`, "]", "\r"}
	for range 5000 {
		var text strings.Builder
		for range random.IntN(12) {
			text.WriteString(parts[random.IntN(len(parts))])
		}
		e := entry{Parts: logs.Parts{Time: []byte("2026-05-24T18:05:33.123456Z"), Stream: "out", Text: []byte(text.String())}, service: "web", seq: 7}
		line := string(e.appendJSON(nil))
		var got struct {
			Message string
			Seq     uint64
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil || got.Message != string([]rune(text.String())) || got.Seq != 7 {
			t.Fatalf("%q became %s (%v)", text.String(), line, err)
		}
		bad := func(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 || r == '\u2028' }
		if i := strings.IndexFunc(strings.TrimSuffix(line, "\n"), bad); i >= 0 {
			t.Fatalf("%q has %q", line, line[i])
		}
		if message := strings.ReplaceAll(string(e.appendSyslog(nil)), "\t", ""); strings.IndexFunc(message, bad) >= 0 {
			t.Fatalf("%q became %q", text.String(), message)
		}
	}
}
