package document

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// env is a lookup in a few variables.
func env(name string) (string, bool) {
	v, ok := map[string]string{
		"HOME": "/root", "EMPTY": "", "PRICE": "5$", "NESTED": "${HOME}", "LONG": strings.Repeat("x", 100_000),
		"BYTES": "\xff", "NUL": "a\x00b",
	}[name]
	return v, ok
}

func TestExpand(t *testing.T) {
	for _, c := range []struct{ in, want, fault string }{
		{"plain", "plain", ""},
		{"${HOME}/x", "/root/x", ""},
		{"${NONE:-/data}", "/data", ""},
		{"${EMPTY:-/data}", "/data", ""},
		{"${EMPTY}", "", ""},
		{"${NONE:-}", "", ""},
		{"${NONE:-${HOME}}/x", "/root/x", ""},
		{"${NONE:-${NEITHER:-a}}b", "ab", ""},
		{"$$HOME $$${HOME}", "$HOME $/root", ""},
		{"$${HOME}", "${HOME}", ""},
		{"${NONE:-$$}", "$", ""},
		{"${NONE:-$$}}", "$}", ""},
		{"echo $HOME $1 $", "echo $HOME $1 $", ""},
		{"${PRICE}", "5$", ""},
		{"${NESTED}", "${HOME}", ""}, // a value is not expanded again
		{"${NONE:-a:-b}", "a:-b", ""},
		{"${NONE}", "", "${NONE} is not set; set NONE, or write ${NONE:-default}"},
		{"${HOME", "", `"${HOME" has no closing "}"; write ${NAME}, or $${ for the characters themselves`},
		{"${}", "", `"${}" is no expansion; write ${NAME} or ${NAME:-default}, or $${ for the characters themselves`},
		{"${A-b}", "", `"${A-b}" is no expansion; write ${NAME} or ${NAME:-default}, or $${ for the characters themselves`},
		{"${1A}", "", `"${1A}" is no expansion; write ${NAME} or ${NAME:-default}, or $${ for the characters themselves`},
		{"${LONG}${LONG}", "", "expands to more than 131071 bytes, the kernel's limit for one string"},
		{strings.Repeat("${N:-", 20) + strings.Repeat("}", 20), "", "more than 8 defaults are nested"},
	} {
		got, err := Expand(c.in, env)
		fault := ""
		if err != nil {
			fault = err.Error()
		}
		if got != c.want || fault != c.fault {
			t.Errorf("Expand(%q) = %q, %q; want %q, %q", c.in, got, fault, c.want, c.fault)
		}
	}
}

func TestEscapeIsTheInverseOfExpand(t *testing.T) {
	for _, s := range []string{"", "$", "$$", "${HOME}", "a$b", "${A:-}", "$}{"} {
		if got, err := Expand(Escape(s), nil); got != s || err != nil {
			t.Errorf("Expand(Escape(%q)) = %q, %v", s, got, err)
		}
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		word string
		from string
		want string
	}{
		{"enviroment", "environment env_file exits", "environment"},
		{"alcie", "alice bob", "alice"},
		{"Command", "command after", "command"},
		{"comand", "command", "command"},
		{"usre", "user umask", "user"},
		{"web", "db", ""},
		{"zzz", "alice bob", ""},
		{"x", "a", ""},
		{"ready", "ready", "ready"},
		{strings.Repeat("x", 5000), "x", ""},
	} {
		if got := Nearest(c.word, strings.Fields(c.from)); got != c.want {
			t.Errorf("Nearest(%.20q, %s) = %q, want %q", c.word, c.from, got, c.want)
		}
	}
}

// parse reads a file in which any key may stand, and gives its faults.
func parse(text string) []string {
	d, _ := Parse("f.yaml", []byte(text))
	_, r := d.Read(env)
	var lines []string
	for _, f := range r.Faults() {
		lines = append(lines, f.Error())
	}
	return lines
}

func TestFormOfADocument(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", nil},
		{"comments only", "# nothing\n", nil},
		{"marker", "---\na: 1\n", nil},
		{"byte order mark", "\ufeffa: 1\n", nil},
		{"second document", "a: 1\n---\nb: 2\n", []string{`f.yaml:2: a second document begins here; a file holds one, so remove the "---"`}},
		{"duplicate key", "a: 1\nb:\n  c: 1\n  c: 2\n", []string{`f.yaml:4: b: key "c" is here twice; the first is on line 3`}},
		{"anchor and alias", "a: &x 1\nb: *x\n", []string{
			"f.yaml:1: a: anchors (&x) are not accepted; write the value out where it is needed",
			"f.yaml:2: b: aliases (*x) are not accepted; write the value out",
		}},
		{"alias bomb", "a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]\n", []string{
			"f.yaml:1: a: anchors (&a) are not accepted; write the value out where it is needed",
			"f.yaml:2: b: anchors (&b) are not accepted; write the value out where it is needed",
			"f.yaml:2: b[0]: aliases (*a) are not accepted; write the value out",
			"f.yaml:2: b[1]: aliases (*a) are not accepted; write the value out",
			"f.yaml:2: b[2]: aliases (*a) are not accepted; write the value out",
			"f.yaml:3: c[0]: aliases (*b) are not accepted; write the value out",
			"f.yaml:3: c[1]: aliases (*b) are not accepted; write the value out",
			"f.yaml:3: c[2]: aliases (*b) are not accepted; write the value out",
		}},
		{"unknown alias", "a: 1\nb: *x\n", []string{"f.yaml:2: aliases (*x) are not accepted; write the value out"}},
		{"tag", "a: !!binary aGk=\n", []string{"f.yaml:1: a: tags (!!binary) are not accepted; put text in quotes"}},
		{"key that is a list", "? [a]\n: 1\n", []string{"f.yaml:1: a list or mapping is no key"}},
		{"NUL byte", "a: 1\nb: x\x00y\n", []string{"f.yaml:2: a NUL byte; this is no text file"}},
		{"escaped NUL", "a: 1\nb: \"x\\0y\"\n", []string{"f.yaml:2: b: holds a NUL byte, which no argument, path or variable can hold"}},
		{"control character", "a: \x01\n", []string{`f.yaml:1: a control character; write "\x01" in double quotes`}},
		{"not UTF-8", "a: 1\nb: \xff\n", []string{"f.yaml:2: byte 0xff is not UTF-8; save the file as UTF-8"}},
		{"UTF-16", "\xff\xfea\x00", []string{"f.yaml:1: the file is UTF-16; save it as UTF-8"}},
		{"too long", "a: " + strings.Repeat("x", MaxSize), []string{"f.yaml:1: the file has 1048579 bytes; 1048576 is the most"}},
		{"too deep", strings.Repeat("[", 40) + strings.Repeat("]", 40), []string{
			"f.yaml:1: " + deep(33) + ": lists and mappings are nested more than 32 deep",
		}},
		{"tab behind a mapping", "a: 1\nb: 2\n\tc: 3\n", []string{"f.yaml:3: not YAML: found a tab character that violates indentation; indent with spaces, not tabs"}},
		{"tab", "a:\n\tb: 1\n", []string{"f.yaml:2: not YAML: found character that cannot start any token; indent with spaces, not tabs"}},
		{"colon in a value", "a: 1\nb: c: d\n", []string{`f.yaml:2: not YAML: mapping values are not allowed in this context; put a value that holds ": " in quotes, and indent alike`}},
		{"at sign", "a: @x\n", []string{"f.yaml:1: not YAML: found character that cannot start any token; put the value in quotes"}},
		{"open bracket", "a: [1, 2\nb: 3\n", []string{"f.yaml:1: not YAML: did not find expected ',' or ']'; look at the indentation, the quotes and the brackets"}},
		{"open quote", "a: 1\nb: 'x\nc: d\n", []string{"f.yaml:2: not YAML: found unexpected end of stream; a quote is not closed"}},
		{"list in a mapping", "a: 1\nb: 2\n- c\n", []string{"f.yaml:3: not YAML: did not find expected key; look at the indentation, the quotes and the brackets"}},
		{"bad indentation", "x: 1\ny:\n  a: 1\n  b: 2\n - c\nz: 1\n", []string{"f.yaml:5: not YAML: did not find expected key; look at the indentation, the quotes and the brackets"}},
	} {
		if got := parse(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
		}
	}
}

func deep(n int) string { return strings.Repeat("[0]", n) }

// one reads a: VALUE with a setter and gives what it made of it.
func one[T any](value string, setter func(*T) Setter) (got T, fault string) {
	d, _ := Parse("f.yaml", []byte("a: "+value+"\n"))
	n, r := d.Read(env)
	Fields{"a": setter(&got)}.Read(n)
	for _, f := range r.Faults() {
		fault += strings.TrimPrefix(f.Error(), "f.yaml:1: a: ")
	}
	return got, fault
}

// is holds one value against what should be made of it.
func is[T any](t *testing.T, value string, setter func(*T) Setter, want T, wantFault string) {
	t.Helper()
	if got, fault := one(value, setter); fmt.Sprint(got) != fmt.Sprint(want) || fault != wantFault {
		t.Errorf("%s: %v, %q; want %v, %q", value, got, fault, want, wantFault)
	}
}

func TestBool(t *testing.T) {
	for _, s := range []string{"1", "true", "True", "TRUE", "yes", "Yes", "on", "ON", `"1"`, `"on"`, "${NONE:-true}"} {
		is(t, s, Bool, true, "")
	}
	for _, s := range []string{"0", "false", "no", "off", "OFF", `"no"`, "${EMPTY:-off}"} {
		is(t, s, Bool, false, "")
	}
	is(t, "maybe", Bool, false, `"maybe" is no boolean; write true or false`)
	is(t, "2", Bool, false, `"2" is no boolean; write true or false`)
	is(t, "y", Bool, false, `"y" is no boolean; write true or false`)
	is(t, `"${HOME}"`, Bool, false, `"/root" (from "${HOME}") is no boolean; write true or false`)
	is(t, `"${NONE}"`, Bool, false, "${NONE} is not set; set NONE, or write ${NONE:-default}")
	is(t, "[true]", Bool, false, "is a list; write a single value")
	is(t, "{b: true}", Bool, false, "is a mapping; write a single value")
	is(t, `""`, Bool, false, `"" is no boolean; write true or false`)
}

func TestDuration(t *testing.T) {
	duration := func(p *time.Duration) Setter { return Duration(p, 0) }
	second := func(p *time.Duration) Setter { return Duration(p, time.Second) }
	is(t, "9s", duration, 9*time.Second, "")
	is(t, "1m30s", duration, 90*time.Second, "")
	is(t, "100ms", duration, 100*time.Millisecond, "")
	is(t, "1.5h", duration, 90*time.Minute, "")
	is(t, "0", duration, 0, "")
	is(t, `"${NONE:-9s}"`, duration, 9*time.Second, "")
	is(t, "9", duration, 0, `"9" has no unit; write 9s`)
	is(t, "1.5", duration, 0, `"1.5" has no unit; write 1.5s`)
	is(t, "-9s", duration, 0, `"-9s" is negative; write 9s`)
	is(t, "2d", duration, 0, `"2d" is no duration; write 48h`)
	is(t, "soon", duration, 0, `"soon" is no duration; write 9s, 1m30s or 100ms`)
	is(t, "999999h", duration, 0, `"999999h" is too long; write at most 87600h`)
	is(t, "9999999999h", duration, 0, `"9999999999h" is no duration; write 9s, 1m30s or 100ms`)
	is(t, "-9223372036854775808ns", duration, 0, `"-9223372036854775808ns" is negative; write 9223372036854775808ns`)
	is(t, "NaN", duration, 0, `"NaN" is no duration; write 9s, 1m30s or 100ms`)
	is(t, "10ms", second, 0, `"10ms" is too short; write 1s or more`)
	is(t, "[9s]", duration, 0, "is a list; write a single value")
}

func TestSize(t *testing.T) {
	size := func(p *int64) Setter { return Size(p, 1) }
	is(t, "1MB", size, 1_000_000, "")
	is(t, "64KiB", size, 65536, "")
	is(t, "64kib", size, 65536, "")
	is(t, "1.5GiB", size, 3<<29, "")
	is(t, "10 MB", size, 10_000_000, "")
	is(t, "1048577", size, 1048577, "")
	is(t, "512B", size, 512, "")
	is(t, "900719925474099267", size, 900719925474099267, "") // no float64
	is(t, "512m", size, 0, `"512m" is ambiguous; write 512MiB (powers of 1024) or 512MB (of 1000)`)
	is(t, "1XB", size, 0, `"1XB" has an unknown unit; write 1MB, 64KiB or a number of bytes`)
	is(t, "big", size, 0, `"big" is no size; write 1MB, 64KiB or a number of bytes`)
	is(t, "-1MB", size, 0, `"-1MB" is negative; write 1MB`)
	is(t, "1.0000001KB", size, 0, `"1.0000001KB" is no whole number of bytes`)
	is(t, "9999999TB", size, 0, `"9999999TB" is too large; write less than 1152921504606846976`)
	is(t, "0x10", size, 0, `"0x10" is no size; write 1MB, 64KiB or a number of bytes`)
	is(t, "inf", size, 0, `"inf" is no size; write 1MB, 64KiB or a number of bytes`)
	is(t, "0", size, 0, `"0" is too small; write 1 or more`)
}

func TestOtherValues(t *testing.T) {
	number := func(p *int) Setter { return Int(p, 1, 10) }
	is(t, "7", number, 7, "")
	is(t, "11", number, 0, `"11" is refused; write a whole number from 1 to 10`)
	is(t, "1.5", number, 0, `"1.5" is refused; write a whole number from 1 to 10`)
	is(t, "99999999999999999999", number, 0, `"99999999999999999999" is refused; write a whole number from 1 to 10`)
	factor := func(p *float64) Setter { return Float(p, 1, 100) }
	is(t, "1.5", factor, 1.5, "")
	is(t, "NaN", factor, 0, `"NaN" is refused; write a number from 1 to 100`)
	is(t, "inf", factor, 0, `"inf" is refused; write a number from 1 to 100`)

	is(t, "/a/../b/", Path, "/b", "")
	is(t, "./b", Path, "", `"./b" is no absolute path; write /b`)
	is(t, "${HOME}/x", Path, "/root/x", "")
	is(t, `""`, Path, "", `"" is no absolute path; write /`)

	word := func(p *string) Setter { return OneOf(p, "always", "on-failure", "no") }
	is(t, "no", word, "no", "")
	is(t, "on-failue", word, "", `"on-failue" is refused; did you mean "on-failure"?`)
	is(t, "unless-stopped", word, "", `"unless-stopped" is refused; write always, on-failure or no`)

	is(t, "[a, 5, true, 1.10]", Strings, []string{"a", "5", "true", "1.10"}, "")
	is(t, "[]", Strings, nil, "")
	is(t, "db web", Strings, nil, `"db web" is a string; write [db, web]`)
	is(t, `"* a:"`, Strings, nil, `"* a:" is a string; write ["*", a:]`)
	is(t, "5", Strings, nil, `5 is a number; write [5]`)
	is(t, "{a: 1}", Strings, nil, `is a mapping; write a list, [a, b]`)

	is(t, "8080", String, "8080", "")
	is(t, "0x1F", String, "0x1F", "")
	is(t, "2001-01-01", String, "2001-01-01", "")
	is(t, `"${BYTES}"`, String, "", `"${BYTES}" expands to a text that is not UTF-8`)
	is(t, `"${NUL}"`, String, "", `"${NUL}" expands to a text with a NUL byte`)
}

func TestExpansionOfAWholeFileIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "k%d: ${LONG}\n", i)
	}
	d, _ := Parse("f.yaml", []byte(b.String()))
	n, r := d.Read(env)
	total := 0
	n.Each(func(_, v Node) {
		s, _ := v.Text()
		total += len(s)
	})
	if total > maxExpanded {
		t.Errorf("%d bytes were expanded, more than %d", total, maxExpanded)
	}
	if len(r.Faults()) == 0 || r.Faults()[0].Line != 84 {
		t.Errorf("first fault: %v", r.Faults()[:1])
	}
}

func TestFaultsAreNotEndless(t *testing.T) {
	got := parse(strings.Repeat("a: 1\n", 5000))
	if len(got) != 101 || got[100] != "f.yaml:102: more faults follow; these are the first 100" {
		t.Errorf("%d faults, the last %q", len(got), got[len(got)-1])
	}
}

func TestUnknownKeys(t *testing.T) {
	d, _ := Parse("f.yaml", []byte("comand: x\nzzz: 1\nafter:\nin:\n  x: 1\n"))
	n, r := d.Read(nil)
	ignore := func(Node) {}
	Fields{"command": ignore, "after": ignore, "in": Fields{"y": ignore}.Read}.Read(n)
	want := `f.yaml:1: unknown key "comand"; did you mean "command"?
f.yaml:2: unknown key "zzz"; the keys here are after, command, in
f.yaml:5: in: unknown key "x"; the keys here are y`
	if got := r.Faults().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// FuzzParse: no input makes the reader panic, and every fault has a line.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"a: 1", "a: &x [*x]", "? {a: b}\n: c", "a: |\n  x\n", "{a: [1, {b: c}]}", "%YAML 1.2\n---\n", "a: \"\\x00\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, _ := Parse("f.yaml", data)
		n, r := d.Read(env)
		var walk func(Node)
		walk = func(n Node) {
			switch {
			case n.IsMapping():
				n.Each(func(_, v Node) { walk(v) })
			case n.IsList():
				items, _ := n.Items()
				for _, i := range items {
					walk(i)
				}
			default:
				n.Text()
			}
		}
		walk(n)
		for _, fault := range r.Faults() {
			if fault.Line < 1 || fault.Line > len(data)+1 || strings.ContainsAny(fault.Error(), "\n\x00") {
				t.Errorf("fault %q at line %d", fault.Error(), fault.Line)
			}
		}
	})
}
