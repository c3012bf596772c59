package redact

import (
	"bytes"
	"strings"
	"testing"
)

func masked(t *testing.T, line string, patterns ...string) string {
	t.Helper()
	l, err := NewLines(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(string(l.Mask([]byte("head "+line), 5)), "head ")
}

func TestSecretsInLines(t *testing.T) {
	for line, want := range map[string]string{
		"password=hunter2 user=bob":                             "password=*** user=bob",
		"password: hunter2":                                     "password: ***",
		"PASSWORD = hunter2":                                    "PASSWORD = ***",
		`{"password": "hun ter2", "user": "bob"}`:               `{"password": "***", "user": "bob"}`,
		`{"password":"a\"b","user":"bob"}`:                      `{"password":"***","user":"bob"}`,
		`msg="{\"password\":\"a b\",\"user\":\"bob\"}"`:         `msg="{\"password\":\"***\",\"user\":\"bob\"}"`,
		"{'token': 'x'}":                                        "{'token': '***'}",
		"token=abc":                                             "token=***",
		"access_token=abc&user=1":                               "access_token=***&user=1",
		"GET /x?api_key=abc&user=1 HTTP/1.1":                    "GET /x?api_key=***&user=1 HTTP/1.1",
		"api-key: abc":                                          "api-key: ***",
		"apikey=abc, user=1":                                    "apikey=***, user=1",
		"x-api-key: abc":                                        "x-api-key: ***",
		"secret=a,b;c) (next)":                                  "secret=***) (next)",
		"client_secret: x":                                      "client_secret: ***",
		"AWS_SECRET_ACCESS_KEY=abc/def+":                        "AWS_SECRET_ACCESS_KEY=***",
		"Authorization: Bearer abc.def-ghi":                     "Authorization: Bearer ***",
		"authorization: basic dXNlcjpw":                         "authorization: basic ***",
		`"Authorization":"Bearer abc"`:                          `"Authorization":"Bearer ***"`,
		"authorization: abc":                                    "authorization: ***",
		"sent bearer abc, and BEARER def":                       "sent bearer ***, and BEARER ***",
		"postgres://app:hunter2@db/x":                           "postgres://app:***@db/x",
		"password := hunter2":                                   "password := ***",
		"'password' => 'x'":                                     "'password' => '***'",
		"password={abc":                                         "password=***",
		`password="unfinished and`:                              `password="***`,
		"api_key=a api_key=b":                                   "api_key=*** api_key=***",
		"key=abc the_key=abc":                                   "key=abc the_key=***",
		"max_tokens=4096 tokens: 12":                            "max_tokens=4096 tokens: 12",
		"has_token=true token: null":                            "has_token=true token: null",
		"tokio::token::next":                                    "tokio::token::next",
		`{"secrets": {"name": "x"}}`:                            `{"secrets": {"name": "x"}}`,
		"time: 12:30 http://host:80/a:b@c monkey=1 forbearer x": "time: 12:30 http://host:80/a:b@c monkey=1 forbearer x",
		"password=":                                             "password=",
		"password= user=bob":                                    "password= user=bob",
		"password:":                                             "password:",
		"":                                                      "",
		"=: bearer ":                                            "=: bearer ",
	} {
		if got := masked(t, line, Secrets); got != want {
			t.Errorf("%s\nis    %s\nnot   %s", line, got, want)
		}
		if again := masked(t, want, Secrets); again != want {
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
		{"x y", []string{"(z)?x"}, "x y"}, // the group is in no part of it
		{"token=x 4111", []string{Secrets, `\d+`}, "token=*** ***"},
		{"\xff\x00 4111", []string{`\d+`}, "\xff\x00 ***"},
	} {
		if got := masked(t, test.line, test.patterns...); got != test.want {
			t.Errorf("%q is %q, not %q", test.line, got, test.want)
		}
	}
}

func TestCheckPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"secrets": "", `sk-([a-z0-9]+)`: "",
		"":                       "is empty",
		"a*":                     "matches an empty text",
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
