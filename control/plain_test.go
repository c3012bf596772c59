package control

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// lists are answers of a supervisor, and what no supervisor answers.
func lists() []string {
	at, word, two, yes, no, half, uid := time.Date(2026, 5, 24, 18, 5, 33, 120, time.UTC), "alice", 2, true, false, 12.5, uint32(40000)
	odd := "ends in \"quotes\", ünicode <&> and\na line"
	code := 3
	all := []Service{
		{Name: "web", Type: "daemon", State: "running", Desired: "running", PID: &two, Ready: &yes, Since: &at, UptimeS: &half},
		{Name: "gateway-alice", Profile: &word, Type: "daemon", State: "running", Desired: "stopped", Healthy: &no, Restarts: 7, Reason: &word, Port: &two, UID: &uid},
		{Name: "odd", Type: "daemon", State: "failed", Desired: "running", Reason: &odd, LastExit: &Exit{Code: &code, At: at}, LastLines: []string{"a}", "],b"}, LogLostBytes: 9},
		{Name: "web2", Type: "oneshot", State: "exited", Desired: "running", StatusText: &word, Usage: &Usage{MemoryBytes: 1}},
		{Name: "last", Type: "daemon", State: "stopped", Desired: "stopped"},
	}
	var texts []string
	for i := range all {
		for j := i; j <= len(all); j++ {
			text, _ := json.Marshal(all[i:j])
			texts = append(texts, string(text), string(text)+"\n", strings.Replace(string(text), `"pid":2`, `"pid":`+"-0", 1))
		}
	}
	return append(texts, "", "null", "[]", "[ ]", "[{}]", "{}", "[1]", "[{}", "[{},]", `[{"name":"a"},]`, `[{"name":"a"}{"name":"b"}]`, `[{"name":"a"}]]`,
		`[{"name":null}]`, `[{"name":"a","new":{"x":[1,"}"]}},{"name":"b"}]`, `[{"Name":"a"}]`, `[{"name":"a","pid":1.5}]`, `[{"name":"a","pid":007}]`,
		`[{"name":"a","pid":+7}]`, `[{"name":"a","uid":4294967295}]`, `[{"name":"a","uptime_s":1e3}]`, `[{"name":"a","uptime_s":01}]`, `[{"name":"a","uptime_s":.5}]`,
		`[{"name":"a","uptime_s":1.2.3}]`, `[{"name":"a","since":"yesterday"}]`, `[{"name":"a","since":7}]`, `[{"name":"a","ready":1}]`, `[{"name":"a","ready":}]`,
		`[{"name":"a","state":running}]`, `[{"name":"a","reason":"b`, `[{"name":"a","reason":"b"`, `[{"name"`, `[{"name":`, "[{\"name\":\"a\tb\"}]",
		`[{"name":"a","pid":5,"pid":null}]`, `[{ "name" : "a" } , {"name":"b"}]`, `[{"name":"a","nothing":null}]`)
}

// A list of services is read as json.Unmarshal reads it, and refused where that does.
func TestServicesAreReadAsJSON(t *testing.T) {
	for _, text := range lists() {
		sameAsJSON(t, text)
	}
}

func FuzzServices(f *testing.F) {
	for _, text := range lists() {
		f.Add(text)
	}
	f.Fuzz(sameAsJSON)
}

func sameAsJSON(t *testing.T, text string) {
	var want []Service
	wantErr := json.Unmarshal([]byte(text), &want)
	got, err := decodeServices([]byte(text))
	if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		t.Errorf("%q is\n%s, %v, want\n%s, %v", text, a, err, b, wantErr)
	}
}
