package text

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// FuzzHarmless: whatever comes in, what comes out is one line of characters that can be
// printed, is not much longer, and comes out the same when it goes in again.
func FuzzHarmless(f *testing.F) {
	for _, s := range []string{
		"", "plain", "a\x1b[31mred\x1b[0m", "\x1b]0;title\a", "\x9b1m", "\u202egnp.exe", "e" + strings.Repeat("\u0301", 500),
		"a\tb\nc\r", "\xff\xfe", "漢字", "\u200b\u200d\ufeff", "☎\ufe0f", "\x7f\x00", strings.Repeat("x", 9000), strings.Repeat("é", 4000), strings.Repeat("\t", 5000), "\u2028\u2029",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, out := range map[string]string{"Line": Line(s), "LogLine": LogLine([]byte(s))} {
			if len(out) > 9*longest {
				t.Errorf("%s(%q) has %d bytes", name, s, len(out))
			}
			marks := 0
			for _, r := range out {
				if !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r) {
					t.Errorf("%s(%q) has %U", name, s, r)
				}
				if marks++; !unicode.Is(unicode.M, r) {
					marks = 0
				}
				if marks > marksMost {
					t.Errorf("%s(%q) has %d marks on end", name, s, marks)
				}
			}
			if !utf8.ValidString(out) {
				t.Errorf("%s(%q) is no UTF-8", name, s)
			}
		}
		// A byte that is no UTF-8 becomes three.
		if once := Line(s); len(s) <= longest/3 && Line(once) != once {
			t.Errorf("Line(%q) = %q, which becomes %q", s, once, Line(once))
		}
		for _, width := range []int{0, 1, 2, 7} {
			for name, out := range map[string]string{"Cut": Cut(Line(s), width), "Left": Left(Line(s), width), "Right": Right(Line(s), width)} {
				if w := Width(out); w > width || name != "Cut" && w != width {
					t.Errorf("%s(%q, %d) = %q, which is %d wide", name, s, width, out, w)
				}
			}
		}
	})
}

func TestLogLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n":              "plain",
		"a\x1b[31mred\r\n":     "a^[[31mred",
		"\x1b]0;title\a":       "^[]0;title^G",
		"\x9b and \u009b":      "\\x9b and \\u009b",
		"\u202eabc":            "\\u202eabc",
		"a\tb\t\tc":            "a       b               c",
		"\x7f\x00":             "^?^@",
		"e\u0301\u0301x":       "e\u0301\u0301x",
		strings.Repeat("y", 9): "yyyyyyyyy",
	} {
		if is := LogLine([]byte(in)); is != want {
			t.Errorf("LogLine(%q) = %q, not %q", in, is, want)
		}
	}
	if long := LogLine([]byte(strings.Repeat("z", 1<<20))); len(long) != longest+len("…") {
		t.Errorf("a line of 1 MB is shown with %d bytes", len(long))
	}
}

func TestFigures(t *testing.T) {
	for is, want := range map[string]string{
		Size(-1): "-", Size(0): "0.0K", Size(1023): "1.0K", Size(12 << 10): "12K", Size(1023 << 10): "1.0M", Size(3 << 29): "1.5G", Size(1 << 62): "4096P",
		Percent(-1): "-", Percent(0): "0", Percent(0.04): "0", Percent(3.21): "3.2", Percent(9.97): "10", Percent(250): "250",
		Age(-time.Hour): "0s", Age(59 * time.Second): "59s", Age(61 * time.Second): "1m", Age(90 * time.Minute): "1h", Age(47 * time.Hour): "47h", Age(49 * time.Hour): "2d",
		Number(0): "0", Number(999): "999", Number(1000): "1,000", Number(1234567): "1,234,567", Number(-1000): "-1,000",
		Count(1, "line"): "1 line", Count(0, "line"): "0 lines",
		Names([]string{"a", "b", "c"}, 2): "a, b, c", Names([]string{"a", "b", "c", "d"}, 2): "a, b and 2 others",
		Spark([]float32{0, 50, 100, -1}, 100, 6): "  ▁▅█ ", Spark([]float32{1, 2, 3}, 0, 2): "▁▁", Spark(nil, 1, 0): "",
		From("漢字abc", 2): "字abc", From("abc", 0): "abc", From("abc", 9): "",
	} {
		if is != want {
			t.Errorf("%q is wanted, and not %q", want, is)
		}
	}
}
