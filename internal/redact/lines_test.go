package redact

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

func maskedBy(t *testing.T, line string, patterns ...string) string {
	t.Helper()
	l, err := NewLines(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(string(l.Mask([]byte("head "+line), 5)), "head ")
}

func TestSecretsInLines(t *testing.T) {
	for line, want := range map[string]string{
		"password=hunter2 user=bob":                                 "password=*** user=bob",
		"password: hunter2":                                         "password: ***",
		"PASSWORD = hunter2":                                        "PASSWORD = ***",
		`{"password": "hun ter2", "user": "bob"}`:                   `{"password": "***", "user": "bob"}`,
		`{"password":"a\"b","user":"bob"}`:                          `{"password":"***","user":"bob"}`,
		`msg="{\"password\":\"a b\",\"user\":\"bob\"}"`:             `msg="{\"password\":\"***\",\"user\":\"bob\"}"`,
		"{'token': 'x'}":                                            "{'token': '***'}",
		"token=abc":                                                 "token=***",
		"access_token=abc&user=1":                                   "access_token=***&user=1",
		"GET /x?api_key=abc&user=1 HTTP/1.1":                        "GET /x?api_key=***&user=1 HTTP/1.1",
		"api-key: abc":                                              "api-key: ***",
		"apikey=abc, user=1":                                        "apikey=***, user=1",
		"x-api-key: abc":                                            "x-api-key: ***",
		"secret=a,b;c) (next)":                                      "secret=***) (next)",
		"client_secret: x":                                          "client_secret: ***",
		"AWS_SECRET_ACCESS_KEY=abc/def+":                            "AWS_SECRET_ACCESS_KEY=***",
		"Authorization: Bearer abc.def-ghi":                         "Authorization: Bearer ***",
		"authorization: basic dXNlcjpw":                             "authorization: basic ***",
		`"Authorization":"Bearer abc"`:                              `"Authorization":"Bearer ***"`,
		"authorization: abc":                                        "authorization: ***",
		"sent bearer abc, and BEARER def":                           "sent bearer ***, and BEARER ***",
		"postgres://app:hunter2@db/x":                               "postgres://app:***@db/x",
		"password := hunter2":                                       "password := ***",
		"'password' => 'x'":                                         "'password' => '***'",
		"password={abc":                                             "password=***",
		`password="unfinished and`:                                  `password="***`,
		"api_key=a api_key=b":                                       "api_key=*** api_key=***",
		"key=abc the_key=abc":                                       "key=abc the_key=***",
		"max_tokens=4096 tokens: 12":                                "max_tokens=4096 tokens: 12",
		"has_token=true token: null":                                "has_token=true token: null",
		"tokio::token::next":                                        "tokio::token::next",
		`{"secrets": {"name": "x"}}`:                                `{"secrets": {"name": "x"}}`,
		"time: 12:30 http://host:80/a:b@c monkey=1 forbearer x":     "time: 12:30 http://host:80/a:b@c monkey=1 forbearer x",
		"password=":                                                 "password=",
		"password= user=bob":                                        "password= user=bob",
		"password= hunter2":                                         "password= ***",
		"password==hunter2 password == x":                           "password==*** password == ***",
		"password: 'a''b' c":                                        "password: '***' c",
		"password='' user='bob'":                                    "password='' user='bob'",
		"\x1b[36mpassword\x1b[0m=\x1b[33mhunter2\x1b[0m user":       "\x1b[36mpassword\x1b[0m=\x1b[33m***\x1b[0m user",
		"\x1b[36mpassword=\x1b[0mhunter2 user":                      "\x1b[36mpassword=\x1b[0m*** user",
		"password=ab\x00cd\x07e f":                                  "password=*** f",
		"Authorization: Digest username=\"bob\", response=\"ab\"":   "Authorization: Digest ***",
		"Authorization: AWS4-HMAC-SHA256 Credential=a, Signature=b": "Authorization: AWS4-HMAC-SHA256 ***",
		"map[Authorization:[Basic dXNl] Host:[x]]":                  "map[Authorization:[Basic ***] Host:[x]]",
		`{"authorization": "Digest username=\"bob\", x", "a": 1}`:   `{"authorization": "Digest ***", "a": 1}`,
		`-H "Authorization: Basic dXNl" http://x`:                   `-H "Authorization: Basic ***" http://x`,
		`bearer "abc def" x`:                                        `bearer "***" x`,
		"postgres://app:p@ss@db/x":                                  "postgres://app:***@db/x",
		"postgres://app:p/a?s#s@db/x":                               "postgres://app:***@db/x",
		"https://u:p@registry/npm/@scope/x":                         "https://u:***@registry/npm/@scope/x",
		"http://[::1]:80/a@b http://u@host:80/a@b":                  "http://[::1]:80/a@b http://u@host:80/a@b",
		"agent --password hunter2 --user x --token -v":              "agent --password *** --user x --token -v",
		"a --api-key 'x y' --max-tokens 12 x--password y":           "a --api-key '***' --max-tokens 12 x--password y",
		"password:":                                                 "password:",
		`["--password", "X", "-v"]`:                                 `["--password", "***", "-v"]`,
		`["--password","-v"]`:                                       `["--password","-v"]`,
		`Authorization: Token token="X", a="b"`:                     `Authorization: Token ***`,
		`Token token="X"`:                                           `Token token="***"`,
		`{"a": "http:\/\/u:X@h\/p"}`:                                `{"a": "http:\/\/u:***@h\/p"}`,
		"":                                                          "",
		"=: bearer ":                                                "=: bearer ",
	} {
		if got := maskedBy(t, line, Secrets); got != want {
			t.Errorf("%s\nis    %s\nnot   %s", line, got, want)
		}
		if again := maskedBy(t, want, Secrets); again != want {
			t.Errorf("%s, once more, is %s", want, again)
		}
	}
}

func TestPatternsInLines(t *testing.T) {
	for _, test := range []struct {
		line     string
		patterns []string
		want     string
	}{
		{"card 4111 here", []string{`\d{4}`}, "card *** here"},
		{"id=7 card=4111", []string{`card=(\d+)`}, "id=7 card=***"},
		{"ab", []string{"a", "b"}, "***"}, // what touches is one
		{"abc", []string{"abc", "b"}, "***"},
		{"x y", []string{"(z)?x"}, "*** y"}, // the group is in no part of it
		{"b=1 a=2", []string{`a=(\d)|b=(\d)`}, "b=*** a=***"},
		{"token=x 4111", []string{Secrets, `\d+`}, "token=*** ***"},
		{"\xff\x00 4111", []string{`\d+`}, "\xff\x00 ***"},
	} {
		if got := maskedBy(t, test.line, test.patterns...); got != test.want {
			t.Errorf("%q is %q, not %q", test.line, got, test.want)
		}
	}
}

// A pattern that matches at each byte, and looks at the whole line for each, does not keep
// other logs waiting: what comes after many matches is masked as a whole.
func TestMatchesOfALineAreBounded(t *testing.T) {
	l, err := NewLines([]string{`a.*b|a`})
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("ac", searchedAtOne/2))
	if got := l.Mask(bytes.Clone(line), 0); bytes.Contains(got, []byte("a")) || !bytes.HasSuffix(got, []byte("c"+Sign)) {
		t.Errorf("%d bytes: %.40q … %q", len(got), got, got[max(0, len(got)-20):])
	}
	if n := len(l.find(line, nil)); n != l.most(line)+1 {
		t.Errorf("%d matches of %d", n, l.most(line))
	}
}

// What has no bound but at its end is found as often as there is.
func TestMatchesWithoutFar(t *testing.T) {
	for text, want := range map[string]bool{
		`sk-[a-z]+`: false, `\b\d{16}\b`: false, `a(b|c+)`: false, `a?(b{2,})`: false, `x(y{1,3}z)?`: false,
		`a.*b|a`: true, `(a+b)+`: true, `(\d{2,}x)?`: true, `[a-z]+@x`: true, `((a+)?b)`: true,
	} {
		if looksFar(text) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
	got := maskedBy(t, strings.Repeat("card 12 ", 5000), `card ([0-9]+)`)
	if got != strings.Repeat("card *** ", 5000) {
		t.Error("not all are masked alone")
	}
}

func TestCheckPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"secrets": "", `sk-([a-z0-9]+)`: "",
		"":   "is empty",
		"a*": "can match an empty text", `\b`: "can match an empty text", `^(a?|b)\b`: "can match an empty text", `\bab*`: "",
		"(":                      "is no regular expression: missing closing )",
		"a\nb":                   "holds a control character",
		"a{600}b{600}":           "is too costly",
		strings.Repeat("a", 513): "has 513 bytes",
	} {
		if _, got := CheckPattern(pattern); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q: %q, not %q", pattern, got, want)
		}
	}
}

// Wherever a long line is cut, no secret in it comes to be in two parts.
func TestCutLeavesSecretsWhole(t *testing.T) {
	l, err := NewLines([]string{Secrets})
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.Repeat("s3cr3t", 20)
	for shift := range 300 {
		line := []byte(strings.Repeat("x", 20_000) + " password: " + secret + strings.Repeat(" y", 2000))
		line = line[shift*16:]
		cut := l.Cut(line)
		if cut <= len(line)/2 || cut > len(line) {
			t.Fatalf("shift %d: cut at %d of %d", shift, cut, len(line))
		}
		both := append(l.Mask(bytes.Clone(line[:cut]), 0), l.Mask(bytes.Clone(line[cut:]), 0)...)
		if bytes.Contains(both, []byte("s3cr3t")) || bytes.Count(both, []byte(Sign)) != 1 {
			t.Fatalf("shift %d: cut at %d of %d", shift, cut, len(line))
		}
	}
}

func BenchmarkMask(b *testing.B) {
	line := []byte(`time=2026-05-24T18:05:33Z level=info msg="request done" path=/v1/items status=200 took=12ms user=alice` + " xxxxx")
	for name, patterns := range map[string][]string{"secrets": {Secrets}, "pattern": {`sk-[A-Za-z0-9]{20,}`}} {
		l, err := NewLines(patterns)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				l.Mask(line, 0)
			}
		})
	}
}

// No line makes the named set slow: what begins often is looked at for a bounded number of
// bytes.
func BenchmarkNastyLines(b *testing.B) {
	l, err := NewLines([]string{Secrets})
	if err != nil {
		b.Fatal(err)
	}
	for _, part := range []string{"://a:b", "authorization:[) ", "password=)", "--token ", "bearer ", "token='", `token=\"`, "tokens=1", "\x1b[0m=", " "} {
		line := []byte(strings.Repeat(part, 1<<20/len(part)))
		b.Run(part, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				l.find(line, nil)
			}
		})
	}
}

// Whatever a line is made of, the secret behind a name is masked, and nothing is read beyond
// the line's ends.
func TestSecretsInAnyLine(t *testing.T) {
	parts := []string{
		"password", "token", "authorization", "bearer", "--", "=", ":", "==", ":=", "=>", "://", "@", "/", "[", "]", "{", `"`, "'", `\`, `\"`,
		" ", "\t", "\x1b[0m", "\x1b[", "\x1b", "m", "\x00", "&", "x", "12", "''", "digest", "basic", "tokens",
	}
	l, err := NewLines([]string{Secrets})
	if err != nil {
		t.Fatal(err)
	}
	draw := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		var line []byte
		for range 1 + draw.IntN(10) {
			line = append(line, parts[draw.IntN(len(parts))]...)
		}
		got := l.Mask(bytes.Clone(line), 0)
		got = l.Mask(append(append(got, line...), " password=s3cr3t"...), len(got))
		if bytes.Contains(got, []byte("=s3cr3t")) && !bytes.ContainsAny(line, "\"'") {
			t.Fatalf("%q is %q", line, got)
		}
	}
}
