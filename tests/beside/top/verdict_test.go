package top

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/tests/box"
	"rlminit/tests/contract"
	"rlminit/tests/ns"
)

// TestOneVerdict holds that top lists first the services of which all others say that they are
// ill, and counts them at its head and in the title of the window.
func TestOneVerdict(t *testing.T) {
	t.Parallel()
	b := ns.Start(t, box.Spec{Config: contract.Config(contract.RowsConfig())})
	counts := contract.Judge(b)
	s := open(t, b, size{160, 40}, box.Root, nil, append(verb(), "--every", "200ms")...)
	ill := fmt.Sprintf(": %d ill", counts["ill"])
	s.reads("rlminit top", ill)
	box.Eventually(t, long, "the window's title says so", func() (bool, any) {
		title := s.tmux("display-message", "-p", "#{pane_title}")
		return strings.Contains(title, ill), title
	})
	s.shows("those that are ill first", func(screen string) bool {
		first := strings.Join(strings.Split(screen, "\n")[:3+counts["ill"]], "\n") // below the two lines at the head and the titles
		for _, r := range contract.Rows {
			if r.Verdict == "ill" && !strings.Contains(first, " "+r.Name+" ") {
				return false
			}
		}
		return true
	})
	b.Must("stop", "--all", "--state", "ill")
	s.misses(" ill")
}
