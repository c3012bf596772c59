package notify

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	m := Parse([]byte("READY=1\nSTATUS=Serving 3 clients\nMAINPID=4711\nX_UNKNOWN=whatever\nERRNO=2\nEXIT_STATUS=255\n"))
	switch {
	case !m.Ready, m.Status == nil || *m.Status != "Serving 3 clients", m.MainPID != 4711,
		m.Errno == nil || *m.Errno != 2, m.ExitStatus == nil || *m.ExitStatus != 255, len(m.Faults) != 0:
		t.Errorf("got %+v", m)
	}
	m = Parse([]byte("RELOADING=1\nMONOTONIC_USEC=5000000"))
	if !m.Reloading || m.Ready {
		t.Errorf("got %+v", m)
	}
	m = Parse([]byte("WATCHDOG=1\nWATCHDOG_USEC=20000000\nEXTEND_TIMEOUT_USEC=18446744073709551615"))
	if !m.Watchdog || m.WatchdogInterval != 20*time.Second || m.ExtendTimeout != math.MaxInt64 {
		t.Errorf("got %+v", m)
	}
	m = Parse([]byte("WATCHDOG=trigger\nSTOPPING=1"))
	if !m.WatchdogTrigger || m.Watchdog || !m.Stopping {
		t.Errorf("got %+v", m)
	}
	m = Parse([]byte("FDSTORE=1\nFDNAME=listener\nFDPOLL=0"))
	if !m.FDStore || m.FDName != "listener" {
		t.Errorf("got %+v", m)
	}
	if m = Parse([]byte("FDSTORE=1")); m.FDName != "stored" {
		t.Errorf("got %+v", m)
	}
	if m = Parse([]byte("FDSTOREREMOVE=1\nFDNAME=a b")); !m.FDStoreRemove || m.FDName != "a b" {
		t.Errorf("got %+v", m)
	}
	if m = Parse([]byte("READY=0")); m.Ready || len(m.Faults) != 0 {
		t.Errorf("READY=0 is no news: %+v", m)
	}
	if m = Parse([]byte("STATUS=")); m.Status == nil || *m.Status != "" {
		t.Errorf("an empty status clears it: %+v", m)
	}
	if m = Parse([]byte("STATUS=one\nSTATUS=two")); *m.Status != "two" {
		t.Errorf("got %q", *m.Status)
	}
}

func TestParseRefusesWhatIsMalformed(t *testing.T) {
	for text, fault := range map[string]string{
		"READY=yes":                    `READY="yes" is not understood`,
		"MAINPID=-1":                   `MAINPID="-1" is not understood`,
		"MAINPID=0":                    `MAINPID="0" is not understood`,
		"MAINPID=+5":                   `MAINPID="+5" is not understood`,
		"MAINPID=99999999999999999999": `MAINPID="99999999999999999999" is not understood`,
		"EXIT_STATUS=256":              `EXIT_STATUS="256" is not understood`,
		"WATCHDOG_USEC=0":              `WATCHDOG_USEC="0" is not understood`,
		"EXTEND_TIMEOUT_USEC=1e6":      `EXTEND_TIMEOUT_USEC="1e6" is not understood`,
		"FDSTORE=1\nFDNAME=a:b":        `FDNAME="a:b" is not understood`,
		"FDSTORE=1\nFDNAME=" + strings.Repeat("n", maxName+1): `FDNAME="` + strings.Repeat("n", 40) + `"… is not understood`,
		"FDSTOREREMOVE=1":                     "FDSTOREREMOVE without FDNAME",
		"FDSTORE=1\nFDSTOREREMOVE=1":          "FDSTORE and FDSTOREREMOVE in one message",
		"hello":                               `"hello" is no assignment`,
		"STATUS=\xff\xfe":                     "STATUS is not UTF-8",
		"READY=1\x00WATCHDOG=trigger":         "the message holds a zero byte",
		"WATCHDOG=" + strings.Repeat("x", 99): `WATCHDOG="` + strings.Repeat("x", 40) + `"… is not understood`,
	} {
		m := Parse([]byte(text))
		if len(m.Faults) != 1 || m.Faults[0] != fault {
			t.Errorf("%q: faults %q, want %q", text, m.Faults, fault)
		}
		if m.Ready || m.MainPID != 0 || m.ExitStatus != nil || m.WatchdogInterval != 0 || m.ExtendTimeout != 0 || m.FDStoreRemove || m.Status != nil {
			t.Errorf("%q was believed: %+v", text, m)
		}
	}
	// What is well formed beside it counts.
	if m := Parse([]byte("MAINPID=x\nREADY=1\x00")); !m.Ready || len(m.Faults) != 1 {
		t.Errorf("got %+v", m)
	}
	if m := Parse([]byte(strings.Repeat("x\n", 1000))); len(m.Faults) != maxFaults {
		t.Errorf("%d faults are told", len(m.Faults))
	}
}

// Nothing that a terminal would obey gets into a status, and no end of text.
func TestStatusIsSafeToPrint(t *testing.T) {
	m := Parse([]byte("STATUS=\x1b[31mred\x07\tand\r gone \u202e\u00a0é"))
	if want := "[31mred  and  gone   é"; *m.Status != want {
		t.Errorf("%q, want %q", *m.Status, want)
	}
	m = Parse([]byte("STATUS=" + strings.Repeat("é", 2000)))
	if n := len(*m.Status); n > maxStatus || n < maxStatus-4 || strings.Contains(*m.Status, "\ufffd") {
		t.Errorf("%d bytes kept", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("READY=1\nSTATUS=x\nFDSTORE=1\nFDNAME=y"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m := Parse(text)
		if m.Status != nil && (len(*m.Status) > maxStatus || strings.ContainsAny(*m.Status, "\x00\x1b\n")) {
			t.Errorf("status %q", *m.Status)
		}
		if m.MainPID < 0 || m.WatchdogInterval < 0 || m.ExtendTimeout < 0 || strings.ContainsAny(m.FDName, ":\n") {
			t.Errorf("%+v", m)
		}
	})
}
