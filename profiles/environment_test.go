package profiles

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestSetEnvironmentKeepsTheRest(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{})
	v.write("profiles/alice/profile.yaml", `# about alice
restart: always # for good
environment: # hers
  # the token
  TOKEN: old # secret
  KEEP: "${HOME}/x"
  GONE: x
  FROM: {file: /run/secrets/x}
command: [a, b]
`)
	value := "new$1\n  two: lines"
	number := "007"
	p, err := setEnvironment(v.Store, "alice", map[string]*string{"TOKEN": &value, "GONE": nil, "ABSENT": nil, "ID": &number})
	must(t, err)
	want := `# about alice
restart: always # for good
environment: # hers
  # the token
  TOKEN: |- # secret
    new$$1
      two: lines
  KEEP: "${HOME}/x"
  FROM: {file: /run/secrets/x}
  ID: "007"
command: [a, b]
`
	if got := v.read("profiles/alice/profile.yaml"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	env := p.Environment()
	if env["TOKEN"] != value || env["KEEP"] != "${HOME}/x" || env["ID"] != "007" || env["FROM"] != "{file: /run/secrets/x}" {
		t.Errorf("%q", env)
	}
	if info, _ := os.Stat(v.path("profiles/alice/profile.yaml")); info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

func TestSetEnvironmentRefusals(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{})
	for text, want := range map[string]string{
		"environment: [a]\n":        "profile.yaml:1: environment: is not a mapping",
		"[a, b]\n":                  "profile.yaml:1: it is not a mapping",
		"a: 1\n---\nb: 2\n":         "profile.yaml:",
		"a: [\n":                    "profile.yaml:",
		"\x00":                      "profile.yaml:1",
		strings.Repeat("[", 20_000): "profile.yaml:",
	} {
		v.write("profiles/alice/profile.yaml", text)
		x := "x"
		_, err := setEnvironment(v.Store, "alice", map[string]*string{"A": &x})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
		if got := v.read("profiles/alice/profile.yaml"); got != text {
			t.Errorf("%.20q was written over", text)
		}
	}
	for text, comment := range map[string]string{"": "", "# only this\n": "# only this", "environment:\n": "", "environment: {}\n": "", "{}\n": ""} {
		v.write("profiles/alice/profile.yaml", text)
		x := "x"
		p, err := setEnvironment(v.Store, "alice", map[string]*string{"A": &x})
		if err != nil || p.Environment()["A"] != "x" {
			t.Errorf("%q: %v", text, err)
		}
		if got := v.read("profiles/alice/profile.yaml"); !strings.Contains(got, comment) {
			t.Errorf("%q lost its comment: %q", text, got)
		}
	}
	nul, bad := "a\x00", "\xff"
	for key, value := range map[string]*string{
		"": &nul, "A=B": &nul, "A B": &nul, "LISTEN_FDS": &nul, "NOTIFY_SOCKET": &nul, "NUL": &nul, "UTF": &bad,
	} {
		if _, err := setEnvironment(v.Store, "alice", map[string]*string{key: value}); !errors.Is(err, ErrValue) {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := setEnvironment(v.Store, "nobody", nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// What would not arrive as it was meant, or makes a gateway another profile's,
// is refused, and nothing is written.
func TestSetEnvironmentRefuses(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{})
	value := "zzz"
	for _, key := range []string{"PROFILE", "PROFILE_DIR", "PORT", "1FOO", "A B", "NOTIFY_SOCKET"} {
		if _, err := setEnvironment(v.Store, "alice", map[string]*string{key: &value}); !errors.Is(err, ErrValue) {
			t.Errorf("%s: %v", key, err)
		}
		if _, _, err := v.Create("bob", Creation{Environment: map[string]string{key: value}}); !errors.Is(err, ErrValue) {
			t.Errorf("create with %s: %v", key, err)
		}
	}
}

// setEnvironment changes variables in a profile's profile.yaml.
func setEnvironment(s *Store, name string, changes map[string]*string) (Profile, error) {
	p, err := s.Load(name)
	if err != nil {
		return p, err
	}
	text, err := p.Other(changes)
	if err != nil {
		return p, err
	}
	return s.Replace(name, text)
}
