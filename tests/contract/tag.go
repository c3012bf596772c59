package contract

import (
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// TagsRunOut: when services have used up all tags, one more is not run without,
// for without a tag it would be taken for somebody who may command.
func TagsRunOut(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`victim: {command: [sleep, infinity]}`,
		`other: {command: [sleep, infinity]}`,
		`zthief: {enabled: false, `+bash(`rlminit stop victim; echo "stop: $?"; exec sleep infinity`)+`}`,
	) + "tags: 50000-50001\n"})
	b.Await("victim", "running")
	b.Await("other", "running")
	b.Fails(1, "zthief cannot be started yet: all tags are in use", "start", "zthief")
	s := b.AwaitThat("zthief", "is not run", func(s control.Service) bool { return s.State == "backoff" })
	if s.Reason == nil || !strings.Contains(*s.Reason, "tags") {
		t.Errorf("the thief: %s", box.Describe(s))
	}
	if s := b.Status()["victim"]; s.State != "running" {
		t.Errorf("the victim is %s", box.Describe(s))
	}
	b.Must("reload")
}

// StatusIsForged: whatever a service writes into what is published of another,
// the next supervisor takes it for nobody else than it is.
func StatusIsForged(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`operator: {control: true, command: [sleep, infinity]}`,
		`victim: {command: [sleep, infinity]}`,
		`thief: {after: [victim, operator], `+bash(`
			mine=$(awk '/^Groups:/ { for (i = 2; i <= NF; i++) if ($i >= 50000 && $i <= 59999) print $i }' /proc/self/status)
			cd /run/rlminit/services/operator
			for round in 1 2 3; do
				sed "s/\"tag\":[0-9]*/\"tag\":$mine/" status.json >forged && mv forged status.json
				for p in /proc/[0-9]*; do
					[ "$(tr '\0' ' ' <$p/cmdline 2>/dev/null)" != "rlminit supervise " ] || kill -9 "$${p#/proc/}"
				done
				rlminit stop victim; echo "stop: $?"
			done
			echo done; exec sleep infinity`)+`}`,
	)})
	var out string
	box.Eventually(b, long, "the thief is through", func() (bool, any) {
		out = b.Run("logs", "thief").Out // which a supervisor that is replaced cuts short
		return strings.Contains(out, "done"), out
	})
	if strings.Contains(out, "stop: 0") {
		t.Errorf("the thief: %s", out)
	}
	if s := b.Status()["victim"]; s.State != "running" {
		t.Errorf("the victim is %s", box.Describe(s))
	}
}
