package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
)

// journalAsItIs is the directory of a box's journal, the name of its newest segment,
// and what that holds.
func journalAsItIs(b *box.Box) (dir, segment string, lines []string) {
	b.Helper()
	dir = b.Home() + "/.rlminit/journal/"
	segment = path.Base(strings.TrimSpace(b.Shell(box.Root, `ls "`+dir+`"*.jsonl | tail -1`)))
	return dir, segment, strings.Split(strings.TrimSpace(b.Shell(box.Root, `cat "`+dir+segment+`"`)), "\n")
}

// summed is a record with the checksum that it has to have.
func summed(line string) string {
	covered := line[:strings.LastIndex(line, `,"sum":`)]
	return fmt.Sprintf(`%s,"sum":"%08x"}`, covered, crc32.Checksum([]byte(covered), crc32.MakeTable(crc32.Castagnoli)))
}

// putSegment has a segment be what the next boot finds, and ends the box.
func putSegment(b *box.Box, dir, name string, lines []string) {
	b.Helper()
	b.Write(box.Root, dir+"put", strings.Join(lines, "\n")+"\n")
	b.Shell(box.Root, `cd "`+dir+`" && chown --reference=. put && chmod 600 put && mv put `+name)
	if err := b.Signal(int(unix.SIGKILL)); err != nil {
		b.Fatal(err)
	}
	b.Again()
}

// MissingSegment: the newest segment of the journal removed or emptied, and an older one
// removed, are said by verify and at boot, once, and what is left counts.
func MissingSegment(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Must("profile", "create", "alice")
	verify := func() box.Result { return b.As(box.Root, "rlminit", "journal", "verify", b.Home()) }
	boot := func() {
		b.Helper()
		if err := b.Signal(int(unix.SIGKILL)); err != nil {
			b.Fatal(err)
		}
		b.Again()
		b.Await("gateway-alice", "running")
	}
	for _, c := range []struct{ what, script, says string }{
		{"the newest removed", `rm "$NEWEST"`, "it is missing, and was the newest: of what happened since 2"},
		{"the newest emptied", `: >"$NEWEST"`, "it is empty, which no crash can do: of what happened since 2"},
		{"one between removed", `rm "$(ls "$JOURNAL"/*.jsonl | tail -2 | head -1)"`, "it is missing: of what happened from 2"},
	} {
		boot()
		boot()
		if r := verify(); r.Code != 0 {
			t.Fatalf("before %s: %s", c.what, r)
		}
		b.Shell(box.Root, `JOURNAL="`+b.Home()+`/.rlminit/journal"; NEWEST="$(ls "$JOURNAL"/*.jsonl | tail -1)"; `+c.script)
		if r := verify(); r.Code != 1 || !strings.Contains(r.Err, c.says) {
			t.Errorf("%s: verify: %s", c.what, r)
		}
		said := strings.Count(b.Printed(), c.says)
		boot()
		if now := strings.Count(b.Printed(), c.says); now != said+1 {
			t.Errorf("%s: said %d times at the boot after: %s", c.what, now-said, b.Printed())
		}
		for range 5 { // until no segment is left of before
			boot()
		}
	}
}

// ClockGoesBackwards: a journal whose records are of later than now, for the clock was
// stepped between two boots, says what is wanted as any other does, and goes on.
func ClockGoesBackwards(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Must("profile", "create", "alice")
	b.Must("profile", "create", "bob")
	b.Must("stop", "bob")
	dir, segment, lines := journalAsItIs(b)
	at := regexp.MustCompile(`"at":"(\d{4})-`)
	for i, line := range lines {
		lines[i] = summed(at.ReplaceAllString(line, fmt.Sprintf(`"at":"%d-`, time.Now().Year()+10)))
	}
	putSegment(b, dir, segment, lines)
	b.Await("gateway-alice", "running")
	b.Await("gateway-bob", "stopped")
	b.Must("start", "bob")
	b.Must("stop", "alice")
	if err := b.Signal(int(unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.Await("gateway-bob", "running")
	b.Await("gateway-alice", "stopped")
	b.Shell(box.Root, `rlminit journal verify "`+b.Home()+`"`)
	before, late, now := uint64(0), 0, 0
	for line := range strings.Lines(b.Must("events", "--json", "--type", "operation")) {
		var r struct {
			Seq uint64
			At  time.Time
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Seq <= before {
			t.Errorf("after record %d: %q %v", before, line, err)
		}
		if before = r.Seq; r.At.After(time.Now().AddDate(1, 0, 0)) {
			late++
		} else {
			now++
		}
	}
	if late == 0 || now < 2 {
		t.Errorf("events have %d commands of the future and %d of now", late, now)
	}
}

// JournalOfAnotherVolume: a segment that was copied here from another volume decides
// nothing, whatever its number; it is kept aside, and that is said.
func JournalOfAnotherVolume(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Must("profile", "create", "alice")
	b.Must("profile", "create", "bob", "--stopped")
	dir, segment, lines := journalAsItIs(b)
	foreign := strings.Join(lines, "\n")
	for _, swap := range [][2]string{
		{`"volume":"`, `"volume":"f0`}, {`"desired":"running"`, `"desired":"halted"`}, {`"desired":"stopped"`, `"desired":"running"`}, {`"desired":"halted"`, `"desired":"stopped"`},
	} {
		foreign = strings.ReplaceAll(foreign, swap[0], swap[1])
	}
	number := regexp.MustCompile(`"segment":\d+`)
	var other []string
	for line := range bytes.Lines([]byte(foreign)) {
		other = append(other, summed(number.ReplaceAllString(strings.TrimSpace(string(line)), `"segment":99`)))
	}
	putSegment(b, dir, "00000099.jsonl", other)
	b.Await("gateway-alice", "running")
	b.Await("gateway-bob", "stopped")
	if printed := b.Printed(); !strings.Contains(printed, "00000099.jsonl is not used any more") || !strings.Contains(printed, "another volume") {
		t.Errorf("nobody says what became of it:\n%s", printed)
	}
	if names := b.Shell(box.Root, `ls "`+dir+`"`); !strings.Contains(names, "00000099.jsonl.aside-") || !strings.Contains(names, segment) {
		t.Errorf("there is %s", names)
	}
	b.Shell(box.Root, `rlminit journal verify "`+b.Home()+`"`)
}
