package open

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Of one run so many complaints are said, and of the next one again.
func TestOneComplaintTooMany(t *testing.T) {
	var said bytes.Buffer
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&said, nil)))
	defer slog.SetDefault(was)
	e := &endpoints{}
	for e.Run = range uint64(2) {
		for range complaintsMax + 1 {
			e.complain("it sends rubbish")
		}
	}
	if n := strings.Count(said.String(), "rubbish"); n != 2*complaintsMax {
		t.Errorf("%d complaints of two runs are said", n)
	}
}
