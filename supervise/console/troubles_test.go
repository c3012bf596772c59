package console

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// One cause that concerns many logs is said once, with how many; another one, more of
// them, and their end, each once too.
func TestTroubleWithLogsIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var printed bytes.Buffer
		defer slog.SetDefault(slog.Default())
		slog.SetDefault(slog.New(NewHandler(&printed)))
		var logs Troubles
		name := func(i int) string { return fmt.Sprintf("s%05d", i) }
		denied := func(i int) error { return fmt.Errorf("cannot open logs/services/%s: %w", name(i), syscall.EACCES) }
		said := func(want ...string) {
			t.Helper()
			time.Sleep(troubleLast)
			synctest.Wait()
			lines := strings.Split(strings.TrimSuffix(printed.String(), "\n"), "\n")
			printed.Reset()
			if len(want) == 0 {
				want = []string{""}
			}
			if len(lines) != len(want) {
				t.Fatalf("said %q, want %q", lines, want)
			}
			for i := range want {
				if !strings.Contains(lines[i], want[i]) {
					t.Errorf("said %q, want %q", lines[i], want[i])
				}
			}
		}
		for i := range 1000 {
			logs.Hear(name(i), denied(i))
			time.Sleep(2 * time.Millisecond)
		}
		logs.Hear("full", fmt.Errorf("cannot write logs/services/full: %w", syscall.ENOSPC))
		logs.Hear("odd", errors.New("cannot write: it is odd"))
		said(`cannot write a log; the newest lines are kept in memory service=odd err="cannot write: it is odd"`,
			`cannot write a log; the newest lines are kept in memory service=full err="cannot write logs/services/full: no space left on device"`,
			`cannot write logs; the newest lines of each are kept in memory services=1000 in_all=1002 such_as=s00000 err="cannot open logs/services/s00000: permission denied"`)

		logs.Hear(name(1), nil)
		logs.Hear(name(1), denied(1)) // as was said
		logs.Hear("brief", denied(0))
		logs.Hear("brief", nil)
		said()

		logs.Hear("more", denied(0))
		logs.Hear("most", denied(0))
		said("services=2 in_all=1004 such_as=more")

		for i := range 1000 {
			logs.Hear(name(i), nil)
		}
		said("logs are written again services=1000 still_not=4")
		logs.Hear("full", nil)
		said("a log is written again service=full")

		// That ever more of them come keeps nobody from hearing of the first.
		for i := range 100 {
			logs.Hear(name(i), denied(i))
			time.Sleep(troubleGap * 7 / 10) // never at the moment at which something is said
		}
		if !strings.Contains(printed.String(), "services=14 ") {
			t.Errorf("said %q", printed.String())
		}
	})
}
