package main

import (
	"strings"
	"testing"

	"rlminit/control"
)

func TestAnalyze(t *testing.T) {
	events := `{"seq":0,"at":"1971-05-24T18:05:34.2Z","type":"booted","generation":1,"services":2,"steps":[{"step":"owners","ms":91},{"step":"boot step <a>","ms":1200}]}
{"seq":1,"at":"1971-05-24T18:05:33.1Z","service":"db","from":"stopped","to":"starting"}
{"seq":2,"at":"1971-05-24T18:05:33.4Z","service":"db","from":"starting","to":"running"}
{"seq":3,"at":"1971-05-24T18:05:33.4Z","service":"web","from":"waiting","to":"starting"}
{"seq":4,"at":"1971-05-24T18:05:34.1Z","service":"web","from":"starting","to":"running"}
`
	b := newBox(t, map[string]any{
		"GET /v1/events":       text(events),
		"GET /v1/dependencies": []control.Dependencies{{Service: "web", Requires: []string{"db"}}},
	})
	want := `the boot of 1971-05-24T18:05:33.100Z took 1.200s for 2 services

STEP           AT      TOOK
owners         0.000s  0.091s
boot step <a>  0.091s  1.109s

SERVICE  WAITED  TOOK    AT      OUTCOME  AFTER
db       0.000s  0.300s  0.300s  running
web      0.000s  0.700s  1.000s  running  db

CRITICAL CHAIN
web at 1.000s, took 0.700s
└─ db at 0.300s, took 0.300s
`
	if r := b.rlminit(t, "analyze"); r.out != want || r.code != 0 {
		t.Errorf("%d %s%s", r.code, r.out, r.err)
	}
	if r := b.rlminit(t, "analyze", "--svg"); !strings.HasPrefix(r.out, "<svg ") || !strings.Contains(r.out, "boot step &lt;a&gt; (1.109 s)") || !strings.HasSuffix(r.out, "</svg>\n") {
		t.Errorf("%s%s", r.out, r.err)
	}
	if r := b.rlminit(t, "analyze", "--json"); !strings.Contains(r.out, `"chain": [`) || !strings.Contains(r.out, `"took_s": 1.109`) {
		t.Errorf("%s%s", r.out, r.err)
	}
	tell(t, map[string]any{"GET /v1/events": text(""), "GET /v1/dependencies": []control.Dependencies{}}, []story{
		{args: []string{"analyze", "--json", "--svg"}, code: 2, err: "rlminit: --json and --svg exclude each other; give one of them; see rlminit help analyze\n"},
		{args: []string{"analyze"}, code: 1, err: "rlminit: nothing is known of the boot: no service was started by it, or the supervisor was replaced since and its events begin later\n"},
	})
}
