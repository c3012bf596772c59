package view

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/beside/page/live"
	"rlminit/control"
)

// What a service has written is one harmless line of a bounded length.
func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"plain text":                        "plain text",
		"a\tb\x00c\x07\x7f\r":               "a b␀c␇␡␍",
		"\x1b[1;31mred\x1b[0m, \x1b[2Jgone": "red, ␛[2Jgone",
		"\x1b]0;title\x07":                  "␛]0;title␇",
		"bad \xff\xfe byte":                 `bad \xff\xfe byte`,
		"turned \u202e\u200b\u2066":         `turned \u202e\u200b\u2066`,
		"\u009b31m":                         `\u009b31m`,
		"<script>":                          "<script>", // which the template escapes
		"Grüße 世界 🙂":                        "Grüße 世界 🙂",
	} {
		if got := clean(text); got != want {
			t.Errorf("%q becomes %q, and not %q", text, got, want)
		}
	}
	if got := clean(strings.Repeat("ä", 1<<20)); len(got) > textMost+20 || !strings.HasSuffix(got, "… (cut)") {
		t.Errorf("a line of 2 MB has %d bytes", len(got))
	}
}

// A state is a word and a mark, and what wants attention comes first.
func TestStates(t *testing.T) {
	no, next := false, time.Now()
	for want, s := range map[string]control.Service{
		"failed":    {State: "failed"},
		"unhealthy": {State: "running", Healthy: &no},
		"outdated":  {State: "running", Outdated: true},
		"running":   {State: "running"},
		"scheduled": {State: "stopped", Schedule: &control.Schedule{Next: &next}},
		"stopped":   {State: "stopped", Schedule: &control.Schedule{}},
		"new":       {State: "new"},
	} {
		if got := stateOf(s); got.Word != want || got.Mark == "" || got.Tone == "" {
			t.Errorf("%v is shown as %v", s, got)
		}
	}
	for _, state := range append(slices.Clone(control.ServiceStates), control.Unhealthy, control.Outdated, control.Scheduled) {
		if _, ok := states[state]; !ok {
			t.Errorf("the page does not know the state %s", state)
		}
	}
	for verdict, tone := range tones {
		if got := stateOf(control.Service{State: "running", Verdict: verdict}).Tone; got != tone {
			t.Errorf("the tone of %s is %s", verdict, got)
		}
	}
	marks := map[string]string{}
	for word, s := range states {
		if other, taken := marks[s.Mark]; taken {
			t.Errorf("%s and %s have the same mark", word, other)
		}
		marks[s.Mark] = word
	}
	if a, b := rowOf(control.Service{Name: "z", State: "failed", Verdict: "ill"}).Key(), rowOf(control.Service{Name: "a", State: "running", Verdict: "ok"}).Key(); a > b {
		t.Errorf("what runs comes before what failed: %q, %q", b, a)
	}
}

// A chart has a line for each time in which somebody looked, within its paper.
func TestChart(t *testing.T) {
	at := time.Date(2026, 5, 24, 12, 0, 0, 0, time.UTC)
	var samples []live.Sample
	for i := range 10 {
		samples = append(samples, live.Sample{At: at.Add(time.Duration(i) * 5 * time.Second), Memory: int64(i) << 20, CPU: float64(i) - 1})
	}
	samples = append(samples, live.Sample{At: at.Add(5 * time.Minute), Memory: 20 << 20, CPU: 50})
	charts := chartsOf(samples)
	if memory := charts[0]; len(memory.Lines) != 2 || memory.Latest != "20 MB" || memory.Most != "20 MB" || memory.Empty {
		t.Errorf("the memory's chart is %v", memory)
	}
	if cpu := charts[1]; cpu.Latest != "50 %" || strings.Count(cpu.Lines[0], ",") != 9 { // the first is not known
		t.Errorf("the CPU's chart is %v", cpu)
	}
	for _, c := range charts {
		for point := range strings.FieldsSeq(strings.Join(c.Lines, " ")) {
			x, y, _ := strings.Cut(point, ",")
			if strings.HasPrefix(x, "-") || strings.HasPrefix(y, "-") || len(x) > 5 || len(y) > 5 {
				t.Errorf("%s is beside the paper", point)
			}
		}
	}
	if c := chartsOf(nil)[0]; !c.Empty || c.Words != "Memory: not measured yet" {
		t.Errorf("a chart of nothing is %v", c)
	}
}

// A command is one of three, on services that are named one by one or by their state.
func TestDeed(t *testing.T) {
	for form, fragment := range map[string]string{
		"verb=stop&name=a&name=b": "", "verb=restart&state=failed": "", "verb=start&name=a": "",
		"": "no such command", "verb=shutdown&name=a": "no such command", "verb=stop": "no service is named", "verb=stop&name=": "by its whole name",
		"verb=stop&name=*": "by its whole name", "verb=stop&state=gone": "never in this state", "verb=stop" + strings.Repeat("&name=a", 1001): "more than 1000",
	} {
		values, err := url.ParseQuery(form)
		if err != nil {
			t.Fatal(err)
		}
		if _, why := deedOf(values); (why == "") != (fragment == "") || !strings.Contains(why, fragment) {
			t.Errorf("%.40s: %q; want %q", form, why, fragment)
		}
	}
}

// Of a record only what cannot be a secret is shown.
func TestEventShowsNoSecret(t *testing.T) {
	e := control.Event{Seq: 7, Type: "job_submitted", Raw: []byte(`{"seq":7,"type":"job_submitted","job":"3","kind":"run","profile":"alice","actor":123456,"command":["curl","-H","hunter2"],"again":{"environment":{"TOKEN":"hunter2"}},"key":"hunter2"}`)}
	got, _ := new(askers).body(e)
	if strings.Contains(got.Words, "hunter2") || got.Words != "job submitted, profile alice, job 3, of kind run" || got.By != "uid 123456" {
		t.Errorf("it is shown as %+v", got)
	}
	failed, _ := new(askers).body(control.Event{Type: "transition", Service: "a", From: "running", To: "failed", Cause: "exit \x1b[31m3"})
	if failed.Words != "running → failed: exit 3" || failed.Tone != ill {
		t.Errorf("it is shown as %+v", failed)
	}
}

// Names and texts are escaped wherever they are put.
func TestEscaped(t *testing.T) {
	p, err := New(nil, nil, Approve, "")
	if err != nil {
		t.Fatal(err)
	}
	const nasty = `"><script>alert(1)</script><a href='javascript:x`
	profile := nasty
	s := control.Service{Name: nasty, Profile: &profile, Kind: &profile, State: "failed", Reason: &profile, StatusText: &profile}
	var out bytes.Buffer
	for _, render := range []func() error{
		func() error { return p.part(&out, "overview", "row", rowOf(s)) },
		func() error { return p.part(&out, "overview", "gone", nasty) },
		func() error { return p.part(&out, "overview", "only", []control.Service{s}) },
		func() error {
			return p.part(&out, "service", "about", aboutBody{row: row{Service: s, Is: stateOf(s), Why: nasty, Said: nasty}, Retry: nasty})
		},
		func() error {
			bodies := p.askers.bodies([]control.Event{{Service: nasty, To: nasty, Cause: nasty}})
			return errors.Join(p.part(&out, "events", "event", bodies[0]), p.part(&out, "service", "happened", aboutBody{Events: bodies}))
		},
		func() error {
			return p.part(&out, "operation", "operation", p.operationOf(control.Operation{Verb: nasty, State: nasty, Reason: nasty + "; see rlminit logs x\"><script>y", Members: []control.OperationMember{{Name: nasty, State: nasty, Reason: nasty}}}))
		},
		func() error {
			return p.part(&out, "revision", "revision", p.planned.revisionOf(control.Revision{By: nasty, Source: nasty, State: nasty, Steps: []control.RevisionStep{{Name: nasty, Note: nasty}}}))
		},
		func() error {
			return p.part(&out, "jobs", "jobs", jobsBody{Jobs: []jobBody{jobOf(control.Job{Job: nasty, Command: []string{nasty}, Profile: &profile})}})
		},
	} {
		if err := render(); err != nil {
			t.Fatal(err)
		}
	}
	out.Write(p.logLines([][]byte{[]byte(nasty), []byte("2026-05-24T18:05:33.000000Z out " + nasty)}, 1))
	html := out.String()
	if strings.Contains(html, "<script") || strings.Contains(html, `"><`+"script") || strings.Contains(html, `href="javascript:`) || strings.Contains(html, `<a href='`) {
		t.Errorf("something is not escaped: %s", html)
	}
	if n := strings.Count(html, "script"); n < 20 {
		t.Errorf("only %d of the names were rendered", n)
	}
}
