package output

import (
	"bytes"
	"strings"
	"testing"
)

// Whole lines are handed on as they come, and where the next begins; from there another
// goes on without a gap, and what was begun at the end is a line too.
func TestLines(t *testing.T) {
	s, w := opened(t, Open(t.TempDir(), nil), 64<<10)
	go s.pump()
	long := strings.Repeat("x", 3*mostLine)
	go func() {
		for _, piece := range []string{"one\ntw", "o\n", long, "\nend"} {
			w.WriteString(piece)
		}
		w.Close()
		<-s.pumped
		s.finish()
	}()
	var got bytes.Buffer
	var ends []int64
	if err := s.Lines(0, func(lines []byte, next int64) error {
		if lines[len(lines)-1] != '\n' {
			t.Errorf("half a line is handed on: %.20q", lines)
		}
		got.Write(lines)
		ends = append(ends, next)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	all := "one\ntwo\n" + long + "\nend"
	if text := got.String(); !strings.HasPrefix(text, "one\ntwo\nx") || !strings.HasSuffix(text, "x\nend\n") || strings.ReplaceAll(text, "\n", "") != strings.ReplaceAll(all, "\n", "") {
		t.Errorf("handed on: %d bytes of %d", len(text), len(all))
	}
	if last := ends[len(ends)-1]; last != int64(len(all)) {
		t.Errorf("it ends at %d of %d", last, len(all))
	}
	var rest bytes.Buffer
	if err := s.Lines(4, func(lines []byte, _ int64) error {
		rest.Write(lines)
		return nil
	}); err != nil || !strings.HasPrefix(rest.String(), "two\n") {
		t.Errorf("%v: from the second line %.20q", err, rest.String())
	}
}
