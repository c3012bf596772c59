package programs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"rlminit/tests/box"
	"rlminit/tests/contract"
	"rlminit/tests/ns"
)

// A real rsyslog has each line of a service, by TCP and by a socket like /dev/log, though it
// and the supervisor are killed meanwhile.
func TestRsyslog(t *testing.T) {
	for _, c := range []struct{ name, to, input string }{
		{"tcp", "tcp:127.0.0.1:7616", `module(load="imtcp") input(type="imtcp" port="7616" address="127.0.0.1")`},
		{"unix", "unix:%s/sink/log", `module(load="imuxsock" SysSock.Use="off") input(type="imuxsock" Socket="%s/sink/log" UseSpecialParser="off" ParseHostname="on" RateLimit.Interval="0")`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			need(t, "rsyslogd", "rsyslog")
			rsyslog(t, c.to, c.input)
		})
	}
}

func rsyslog(t *testing.T, to, input string) {
	const lines = 2000
	talk := fmt.Sprintf(`for i in $(seq %d); do echo "line $i [\"\\]"; sleep 0.002; done; exec sleep infinity`, lines)
	home := "${RLMINIT_HOME}"
	if strings.Contains(to, "%s") {
		to, input = fmt.Sprintf(to, home), fmt.Sprintf(input, "$RLMINIT_HOME")
	}
	conf := `cd "$RLMINIT_HOME/sink"; rm -f pid log
cat >conf <<END
` + input + `
template(name="kept" type="string" string="%app-name% %procid% %msgid% %structured-data%%msg%\n")
action(type="omfile" file="$RLMINIT_HOME/sink/received" template="kept" asyncWriting="off" flushOnTXEnd="on")
END
exec rsyslogd -n -f conf -i "$RLMINIT_HOME/sink/pid"`
	b := ns.Start(t, box.Spec{Config: "dirs: [{path: sink, mode: \"0755\"}]\n" + contract.Services(
		`rsyslog: {`+script(conf)+`, restart: {delay: 100ms}}`,
		`talker: {`+script(talk)+`, log: {max_size: 20KB, max_files: 100, forward: {to: "`+to+`", format: rfc5424}}}`)})
	file := b.Home() + "/sink/received"
	received := func() map[uint64]string {
		t.Helper()
		all := map[uint64]string{}
		for _, m := range sentLine.FindAllStringSubmatch(b.Shell(box.Root, "cat "+file+" 2>/dev/null || true"), -1) {
			seq, err := strconv.ParseUint(m[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if was, is := all[seq]; is && was != m[2] {
				t.Fatalf("number %d is %q and %q", seq, was, m[2])
			}
			all[seq] = m[2]
		}
		return all
	}
	for i := range 2 {
		box.Eventually(t, long, "some lines", func() (bool, any) {
			n := len(received())
			return n > (i+1)*300, n
		})
		if s := b.Status()["rsyslog"]; s.PID != nil {
			b.Shell(box.Root, fmt.Sprintf("kill -9 %d", *s.PID))
		}
		supervisorKilled(b)
	}
	box.Eventually(t, 3*long, "all lines", func() (bool, any) {
		got := received()
		n := 0
		for _, text := range got {
			if strings.HasPrefix(text, "line ") {
				n++
			}
		}
		return n == lines, n
	})
	got := received()
	for i := 1; i <= lines; i++ {
		want, n := fmt.Sprintf(`line %d ["\]`, i), 0
		for _, text := range got {
			if text == want {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%q is there %d times", want, n)
		}
	}
	if t.Failed() {
		t.Log(b.Shell(box.Root, "head -5 "+file))
	}
}

// sentLine is a line of the talker as rsyslog keeps it.
var sentLine = regexp.MustCompile(`(?m)^talker 1 (?:out|rlminit) \[rlminit@32473 service="talker" run="1" seq="(\d+)"\] ?(.*)$`)
