package console

import (
	"bytes"
	"log/slog"
	"testing"
)

// What a service has named itself, or a file, is neither a line of its own among
// ours nor a command for the terminal of who reads them.
func TestOurLinesAreHarmless(t *testing.T) {
	for name, want := range map[string]string{
		"web":          "rlminit: cannot read web service=web\n",
		"\x1b]0;x\a":   `rlminit: cannot read �]0;x� service="\x1b]0;x\a"` + "\n",
		"x\rrlminit:y": `rlminit: cannot read x�rlminit:y service="x\rrlminit:y"` + "\n",
		"x\ny":         `rlminit: cannot read x; y service="x\ny"` + "\n",
		"\x9b31m":      `rlminit: cannot read �31m service="\x9b31m"` + "\n",
		"\u009b31m":    `rlminit: cannot read �31m service="\u009b31m"` + "\n",
		"\u202ex":      `rlminit: cannot read �x service="\u202ex"` + "\n",
	} {
		var out bytes.Buffer
		slog.New(NewHandler(&out)).Warn("cannot read "+name, "service", name)
		if got := out.String(); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
