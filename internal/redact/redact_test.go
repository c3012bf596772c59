package redact

import (
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	for name, secret := range map[string]bool{
		"TOKEN": true, "GITHUB_TOKEN": true, "github_token": true, "client-secret": true, "DB_PASSWORD": true, "PGPASSWORD": true,
		"API_KEY": true, "api.key": true, "OPENAI_APIKEY": true, "SSH_PASSPHRASE": true, "SSH_PRIVATE_KEY_PEM": true, "DB_PASS": true, "db.pass": true,
		"PORT": false, "KEYBOARD": false, "HOME": false, "MONKEY": false, "CREDENTIALS_DIRECTORY": false, "KEY_FILE": false, "PASS": false, "COMPASS": false, "PASSES": false, "": false,
	} {
		if Name(name) != secret {
			t.Errorf("Name(%q) is %v", name, !secret)
		}
	}
}

func TestValues(t *testing.T) {
	for _, c := range []struct{ name, value, shown string }{
		{"TOKEN", "abc", Sign},
		{"TOKEN", "", ""},
		{"PORT", "80", "80"},
		{"DATABASE_URL", "postgres://app:hunter2@db:5432/x?a=b@c", "postgres://app:***@db:5432/x?a=b@c"},
		{"DATABASE_URL", "postgres://app:p@ss@db/x", "postgres://app:***@db/x"},
		{"URL", "https://user@host/", "https://user@host/"},
		{"URL", "http://host:80/a@b:c", "http://host:80/a@b:c"},
		{"OPTIONS", "-v --password abc -H 'Authorization: Bearer abc'", "-v --password *** -H 'Authorization: Bearer ***'"},
		{"TEXT", "a://b@ %zz", "a://b@ %zz"},
	} {
		if shown := Value(c.name, c.value); shown != c.shown {
			t.Errorf("Value(%q, %q) is %q", c.name, c.value, shown)
		}
	}
}

func TestNothingIsChangedInPlace(t *testing.T) {
	environment := map[string]string{"TOKEN": "abc"}
	environ, argv := []string{"TOKEN=abc", "odd"}, []string{"x", "--token", "abc"}
	if got := NewSet("abcdef").Map(environment)["TOKEN"]; got != Sign || environment["TOKEN"] != "abc" {
		t.Errorf("Map: %q, %v", got, environment)
	}
	if got := NewSet("abcdef").Environ(environ); !slices.Equal(got, []string{"TOKEN=***", "odd"}) || environ[0] != "TOKEN=abc" {
		t.Errorf("Environ: %q, %q", got, environ)
	}
	if got := Command(argv); got[2] != Sign || argv[2] != "abc" {
		t.Errorf("Command: %q, %q", got, argv)
	}
}

func TestCommands(t *testing.T) {
	for _, c := range []struct{ argv, shown []string }{
		{[]string{"agent", "--token", "abc", "--port", "80"}, []string{"agent", "--token", "***", "--port", "80"}},
		{[]string{"agent", "--api-key=abc"}, []string{"agent", "--api-key=***"}},
		{[]string{"agent", "--key", "abc"}, []string{"agent", "--key", "***"}},
		{[]string{"agent", "--token", "--verbose"}, []string{"agent", "--token", "--verbose"}},
		{[]string{"env", "TOKEN=abc", "x"}, []string{"env", "TOKEN=***", "x"}},
		{[]string{"curl", "https://u:p@h/"}, []string{"curl", "https://u:***@h/"}},
	} {
		if shown := Command(c.argv); !slices.Equal(shown, c.shown) {
			t.Errorf("Command(%q) is %q", c.argv, shown)
		}
	}
}

func TestTexts(t *testing.T) {
	s := Of([]string{"TOKEN=tok-123456", "NAME=alice-and-bob"}, "tok-123456789", "short", "-----BEGIN\nMIIEvQIBADANBg\n")
	for text, shown := range map[string]string{
		"cannot use tok-123456789 or tok-123456": "cannot use *** or ***",
		"alice-and-bob, short":                   "alice-and-bob, short",
		"it begins with MIIEvQIBADANBg":          "it begins with ***",
		"":                                       "",
	} {
		if got := s.Text(text); got != shown {
			t.Errorf("Text(%q) is %q", text, got)
		}
	}
	var none Set
	if none.Text("text") != "text" {
		t.Error("an empty set changes a text")
	}
}

// A secret that colours or control characters split is masked: who takes them out would show
// it.
func TestSecretsAcrossColours(t *testing.T) {
	s := NewSet("hunter2-secret")
	for text, want := range map[string]string{
		"a \x1b[31mhunter2\x1b[0m-secret b":           "a \x1b[31m*** b",
		"hunter2\x00-sec\bret":                        "***",
		"hunter2\x1b[1;38;5;7m-secret hunter2-secret": "*** ***",
		"\x1b[31mhunter2\x1b[0m and -secret":          "\x1b[31mhunter2\x1b[0m and -secret",
		"hunter2\x1b-secret hunter2\x1b[":             "*** hunter2\x1b[",
		"plain \x1b[32mgreen\x1b[0m":                  "plain \x1b[32mgreen\x1b[0m",
	} {
		if got := s.Text(text); got != want {
			t.Errorf("%q is %q, not %q", text, got, want)
		}
	}
}

// A command's words are masked as lines are.
func TestCommandByTheListOfLines(t *testing.T) {
	got := Command([]string{
		"curl", "-H", "Authorization: Bearer X1secret", "-H", "X-Api-Key: X2secret", "-d", `{"password":"X3secret"}`, "-u", "user:X4secret",
		"http://u:X5secret@h/", "--password", "X6secret", "--token=X7secret", "-e", "A=token: X8secret", "--user", "bob", "-u", "1000:1000",
	})
	want := []string{
		"curl", "-H", "Authorization: Bearer ***", "-H", "X-Api-Key: ***", "-d", `{"password":"***"}`, "-u", "user:***",
		"http://u:***@h/", "--password", "***", "--token=***", "-e", "A=token: ***", "--user", "bob", "-u", "1000:1000",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nnot %q", got, want)
	}
}

// A secret by its value is masked wherever it stands, however it was named.
func TestValuesOfASet(t *testing.T) {
	s := NewSet("hunter22", "short")
	if got := s.Command([]string{"x", "hunter22", "a=hunter22,short", "--token", "abc"}); !slices.Equal(got, []string{"x", "***", "a=***,short", "--token", "***"}) {
		t.Errorf("Command: %q", got)
	}
	if got := s.Environ([]string{"A=hunter22", "TOKEN=abc"}); !slices.Equal(got, []string{"A=***", "TOKEN=***"}) {
		t.Errorf("Environ: %q", got)
	}
	if got := s.Line("hunter22 password=abc"); got != "*** password=***" {
		t.Errorf("Line: %q", got)
	}
	if got := new(Kept).Line("hunter22 password=abc"); got != "hunter22 password=***" {
		t.Errorf("Line of none: %q", got)
	}
	if got := NewSet(s.Values()...).Value("A", "xhunter22x"); got != "x***x" {
		t.Errorf("Value: %q", got)
	}
}

// A secret is masked whole where the patterns find a part of it, and what the patterns find is
// masked where a secret is a part of that.
func TestSecretsAndPatternsTogether(t *testing.T) {
	s := NewSet("correct horse battery", "password", "p@ss:w/rd?", "a b&c d")
	for _, test := range []struct{ text, line, word string }{
		{"password: correct horse battery", "***: ***", "***: ***"},
		{"token=correct horse battery, x", "token=***, x", "token=***"}, // a word is one variable
		{"--token correct horse battery", "--token ***", "--token ***"},
		{"password=hunter22", "***=***", "***=***"},
		{"http://u:p@ss:w/rd?@h/", "http://u:***@h/", "http://u:***@h/"},
		{"api_key=a b&c d e", "api_key=*** e", "api_key=***"},
		{"A=api_key: a b&c d e", "A=api_key: *** e", "A=api_key: *** e"},
	} {
		for door, got := range map[string][2]string{
			"Line": {s.Line(test.text), test.line}, "Value": {s.Value("A", test.text), test.line},
			"Command": {s.Command([]string{"x", test.text})[1], test.word}, "Environ": {s.Environ([]string{test.text})[0], test.word},
		} {
			if got[0] != got[1] {
				t.Errorf("%s(%q) is %q, not %q", door, test.text, got[0], got[1])
			}
		}
	}
	if got := s.Command([]string{"x", "--password", "hunter22", "-u", "me:hunter22"}); !slices.Equal(got, []string{"x", "--***", "***", "-u", "me:***"}) {
		t.Errorf("Command: %q", got)
	}
}

// A pattern that is a text is the secret itself.
func TestPatternsAsShown(t *testing.T) {
	for pattern, want := range map[string]string{
		Secrets: Secrets, "hunter2hunter2": Sign, `hunter2\.x`: Sign, "sk-([a-z]+)": "sk-([a-z]+)", "(": "(",
	} {
		if got := Pattern(pattern); got != want {
			t.Errorf("%q is shown as %q", pattern, got)
		}
	}
}
