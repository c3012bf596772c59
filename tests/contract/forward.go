package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// sentOn is a line as a receiver has it.
type sentOn struct {
	Service, Stream, Message string
	Profile                  *string
	Run, Seq                 uint64
}

// receivedBy are the lines of a service that a receiver has put into a file, by their
// numbers. Two lines of one number are a fault.
func receivedBy(b *box.Box, file, service string) map[uint64]sentOn {
	b.Helper()
	all := map[uint64]sentOn{}
	for text := range strings.Lines(b.Shell(box.Root, "cat "+file+" 2>/dev/null || true")) {
		var line sentOn
		if json.Unmarshal([]byte(text), &line) != nil || line.Service != service {
			continue // cut by the end of a receiver
		}
		if was, is := all[line.Seq]; is && was != line {
			b.Fatalf("number %d is %+v and %+v", line.Seq, was, line)
		}
		all[line.Seq] = line
	}
	return all
}

// noGap checks that numbers follow one another.
func noGap(b *box.Box, all map[uint64]sentOn) {
	b.Helper()
	least, most := ^uint64(0), uint64(0)
	for seq := range all {
		least, most = min(least, seq), max(most, seq)
	}
	if len(all) > 0 && most-least+1 != uint64(len(all)) {
		b.Errorf("%d lines have the numbers %d to %d", len(all), least, most)
	}
}

// LogsAreSentOn: each line comes to the receiver, over rotations, a supervisor and a
// receiver that are killed again and again, and a container that is started anew; what is
// sent twice has one number.
func LogsAreSentOn(t *testing.T, start New) {
	const lines = 1200
	for _, to := range []string{"tcp:127.0.0.1:7614", "unix:"} {
		network, _, _ := strings.Cut(to, ":")
		t.Run(network, func(t *testing.T) {
			socket, listen := to, to
			if network == "unix" {
				socket, listen = `"unix:${RLMINIT_HOME}/sink/socket"`, `"unix:${RLMINIT_HOME}/sink/socket"`
			}
			talk := bash(fmt.Sprintf(`for i in $(seq %d); do echo "line $i"; sleep 0.002; done; exec sleep infinity`, lines))
			b := start(t, box.Spec{Config: "dirs: [{path: sink, mode: \"0755\"}]\n" + Services(
				`sink: {command: [nasty, receive, `+listen+`, "${RLMINIT_HOME}/sink/received"], restart: {delay: 100ms}}`,
				`talker: {`+talk+`, log: {max_size: 20KB, max_files: 100, redact: ["line 77$"], forward: {to: `+socket+`}}}`)})
			file := b.Home() + "/sink/received"
			b.Await("talker", "running")
			for i := range 4 {
				box.Eventually(b, long, "some lines", func() (bool, any) {
					n := len(receivedBy(b, file, "talker"))
					return n > i*200, n
				})
				sink, old := b.Status()["sink"], b.Supervisor()
				if i%2 == 0 && sink.PID != nil {
					kill(b, "KILL", *sink.PID)
				}
				kill(b, "KILL", old.PID)
				replaced(b, old.PID)
			}
			if s := b.Status()["talker"]; s.Restarts != 0 {
				t.Errorf("the service noticed: %s", box.Describe(s))
			}
			var got map[uint64]sentOn
			box.Eventually(b, long, "all lines", func() (bool, any) {
				got = receivedBy(b, file, "talker")
				n := 0
				for _, line := range got {
					if line.Stream == "out" {
						n++
					}
				}
				return n == lines, n
			})
			noGap(b, got)
			masked := 0
			for _, line := range got {
				if line.Run != 1 || line.Profile != nil {
					t.Errorf("%+v", line)
				}
				if line.Message == "***" {
					masked++
				}
			}
			if masked != 1 {
				t.Errorf("%d lines are masked", masked)
			}
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
			b.Again()
			box.Eventually(b, long, "the next run", func() (bool, any) {
				got = receivedBy(b, file, "talker")
				for _, line := range got {
					if line.Run == 2 && line.Message == "line 100" {
						return true, nil
					}
				}
				return false, len(got)
			})
			noGap(b, got)

			// What a service at rest has left is sent by the next supervisor too.
			b.Must("stop", "sink")
			b.Must("stop", "talker")
			old := b.Supervisor()
			kill(b, "KILL", old.PID)
			replaced(b, old.PID)
			b.Must("start", "sink")
			box.Eventually(b, long, "how it ended", func() (bool, any) {
				got = receivedBy(b, file, "talker")
				for _, line := range got {
					if line.Run == 2 && line.Stream == "rlminit" && strings.Contains(line.Message, "TERM") {
						return true, nil
					}
				}
				return false, len(got)
			})
			noGap(b, got)
		})
	}
}

// ForwardIsReloaded: where lines go is changed without a restart; one that is down is said
// once, and in the way of nobody; on stdout lines are as the format has them.
func ForwardIsReloaded(t *testing.T, start New) {
	talk := bash(`i=0; while :; do i=$((i+1)); echo "line $i"; sleep 0.01; done`)
	config := func(forward string) string {
		return "dirs: [{path: sink, mode: \"0755\"}]\n" + Services(
			`sink: {command: [nasty, receive, "unixgram:${RLMINIT_HOME}/sink/log", "${RLMINIT_HOME}/sink/received"]}`,
			`talker: {`+talk+`, log: {`+forward+`}}`)
	}
	b := start(t, box.Spec{Config: config("forward: {to: tcp:127.0.0.1:7615}")})
	pid := *b.Await("talker", "running").PID
	box.Eventually(b, long, "it is said that nobody is there", func() (bool, any) {
		said := b.Printed()
		return strings.Contains(said, "logs cannot be sent on") && strings.Contains(said, "connection refused"), said
	})
	if out := b.Run("status"); !strings.Contains(out.Err, "logs cannot be sent on to tcp:127.0.0.1:7615 since ") {
		t.Errorf("status does not say so: %s", out)
	}
	if out := b.Run("doctor"); !strings.Contains(out.Out, "logs cannot be sent on to tcp:127.0.0.1:7615") {
		t.Errorf("doctor does not say so: %s", out)
	}
	box.Eventually(b, long, "its lines that wait are counted", func() (bool, any) {
		n := b.Status()["talker"].LogUnsentLines
		return n != nil && *n > 5, n
	})
	reload := func(forward string) {
		t.Helper()
		b.Write(box.Root, strings.TrimSpace(b.Shell(box.Root, `echo "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`)), config(forward))
		b.Must("reload")
		if s := b.Status()["talker"]; s.PID == nil || *s.PID != pid {
			t.Errorf("%s restarts the service: %s", forward, box.Describe(s))
		}
	}
	reload(`forward: {to: "unix:${RLMINIT_HOME}/sink/log", format: rfc5424}`)
	box.Eventually(b, long, "the first line, as syslog has it", func() (bool, any) {
		got := b.Shell(box.Root, "cat "+b.Home()+"/sink/received 2>/dev/null || true")
		return strings.Contains(got, `service="talker" run="1" seq="`) && strings.Contains(got, "] line 1\n"), got
	})
	reload(`forward: {to: stdout}`)
	box.Eventually(b, long, "lines on stdout", func() (bool, any) {
		said := b.Printed()
		return strings.Contains(said, `"service":"talker","profile":null,"run":1,"seq":`), said
	})
	before := strings.Count(b.Printed(), "talker | ")
	box.Eventually(b, long, "twenty lines more", func() (bool, any) {
		n := strings.Count(b.Printed(), `"service":"talker"`)
		return n > 20, n
	})
	if after := strings.Count(b.Printed(), "talker | "); after != before {
		t.Errorf("the tee goes on beside it: %d lines more", after-before)
	}
	if n := strings.Count(b.Printed(), "logs cannot be sent on"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
	if out := b.Must("health", "--json"); strings.Contains(out, "unsent") {
		t.Errorf("it is told of a destination that nobody has any more: %s", out)
	}
}

// LinesHaveOneNumber: files are rotated away faster than cursors are written, the receiver
// is away at times, and the supervisor is killed again and again. A line that is sent again
// has the number that it had.
func LinesHaveOneNumber(t *testing.T, start New) {
	talk := bash(`i=0; while :; do i=$((i+1)); echo "line $i of the talker, which has much to say"; [ $((i % 20)) != 0 ] || sleep 0.005; done`)
	b := start(t, box.Spec{Config: "dirs: [{path: sink, mode: \"0755\"}]\n" + Services(
		`sink: {command: [nasty, receive, "tcp:127.0.0.1:7615", "${RLMINIT_HOME}/sink/received"]}`,
		`talker: {`+talk+`, log: {max_size: 20KB, max_files: 2, forward: {to: "tcp:127.0.0.1:7615"}}}`)})
	file := b.Home() + "/sink/received"
	b.Await("talker", "running")
	for i := range 5 {
		n := len(receivedBy(b, file, "talker"))
		box.Eventually(b, long, "more lines", func() (bool, any) {
			now := len(receivedBy(b, file, "talker"))
			return now > n+500, now
		})
		if i%2 == 1 {
			b.Must("stop", "sink")
		}
		old := b.Supervisor()
		kill(b, "KILL", old.PID)
		replaced(b, old.PID)
		b.Must("start", "sink")
	}
	b.Must("stop", "talker")
	numbers := map[string]uint64{}
	for _, line := range receivedBy(b, file, "talker") {
		if was, is := numbers[line.Message]; is && was != line.Seq && line.Stream == "out" {
			t.Fatalf("%q has the numbers %d and %d", line.Message, was, line.Seq)
		}
		numbers[line.Message] = line.Seq
	}
}
