package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"rlminit/internal/redact"
	"rlminit/service"
)

// Profile is one profile, as it is or as it shall be, without any secret.
type Profile struct {
	State      service.Intent    `json:"state"`
	Definition Tree              `json:"definition"`
	Sealed     map[string]string `json:"sealed"` // place → digest

	salt    string     // of the digests
	secrets redact.Set // that are masked in it, as far as they are known here
	older   bool       // by a version that took secret variables out, and left their values in other texts
}

// Present is a profile that there is.
type Present struct {
	Profile
	Fault  string // why it cannot be run; its Definition is not to be trusted then
	Astray string // the difference from its desired state: "failed: …"; "": none
	Kept   bool   // it cannot be deleted: the profile that is the home directory
}

// Shape takes the secrets out of a profile.yaml, and out of those that
// are kept beside it.
func Shape(salt string, state service.Intent, t Tree, secrets map[string]string) Profile {
	p := Profile{State: state, Definition: t, Sealed: map[string]string{}}.Resealed(salt, slices.Collect(maps.Values(secrets))...)
	for name, value := range secrets {
		at := place(partSecrets, name)
		p.Sealed[at] = Digest(salt, at, value)
	}
	return p
}

// Resealed is a profile in which all is masked that is secret, and some values: one that an
// older version has kept may have more in clear.
func (p Profile) Resealed(salt string, values ...string) Profile {
	p.salt = salt
	p.secrets = redact.NewSet(slices.Concat(p.secrets.Values(), named("", p.Definition), values)...)
	for at := range p.Sealed {
		in, _ := find(p.Definition, at)
		p.older = p.older || in == nil && IsVariable(at)
	}
	return p.masked(p.secrets)
}

// masked is a profile in which some secrets are masked besides. The digest of what is masked
// already is that of the whole value.
func (p Profile) masked(secrets redact.Set) Profile {
	clean, values := seal(p.Definition, secrets)
	p.Definition, p.Sealed = clean, maps.Clone(p.Sealed)
	if p.Sealed == nil {
		p.Sealed = map[string]string{}
	}
	for at, value := range values {
		if _, is := p.Sealed[at]; !is {
			p.Sealed[at] = Digest(p.salt, at, value)
		}
	}
	return p
}

// alike are two states of a profile that can be compared and shown together: a secret of
// one is masked in the other, and equal values are masked in both or in none.
func alike(a, b Profile) (Profile, Profile) {
	a.salt = cmp.Or(a.salt, b.salt)
	b.salt = a.salt
	secrets := redact.NewSet(slices.Concat(a.secrets.Values(), b.secrets.Values())...)
	a, b = a.masked(secrets), b.masked(secrets)
	a.maskAs(b)
	b.maskAs(a)
	return a, b
}

// maskAs masks in p, which is nobody else's, the values that are masked in another one and are
// the same; in one of an older version other values too.
func (p *Profile) maskAs(other Profile) {
	for at, digest := range other.Sealed {
		in, key := find(p.Definition, at)
		from, its := find(other.Definition, at)
		if _, is := p.Sealed[at]; is || in == nil || from == nil {
			continue
		}
		own := Digest(p.salt, at, text(in[key]))
		switch {
		case own == digest:
			in[key] = from[its]
		case p.older && isText(in[key]):
			in[key] = redact.Sign
		case p.older:
			in[key] = []any{redact.Sign}
		default:
			continue
		}
		p.Sealed[at] = own
	}
}

// Shape is the profile that w asks for. digests are those of the secrets that
// are not in the declared file itself, by place.
// values are theirs, as far as they are known: they are masked wherever they stand.
func (w Wanted) Shape(salt string, digests map[string]string, values ...string) Profile {
	p := Profile{State: w.State, Definition: w.Definition}.Resealed(salt, append(w.inline(), values...)...)
	for name, s := range w.Secrets {
		at := place(partSecrets, name)
		if s.File == "" {
			p.Sealed[at] = Digest(salt, at, s.Text)
		} else {
			p.Sealed[at] = digests[at]
		}
	}
	return p
}

// inline are the secrets whose values are in the declared file itself.
func (w Wanted) inline() (values []string) {
	for _, s := range w.Secrets {
		values = append(values, s.Text)
	}
	return values
}

// fingerprint changes when the definition does, and not when the intent does.
func (p Profile) fingerprint() string {
	p.State = service.IntentNone
	p.Definition = without(p.Definition, p.Sealed) // the digests tell masked values apart
	if p.Sealed == nil {
		p.Sealed = map[string]string{}
	}
	b, err := marshal(p)
	if err != nil {
		panic(err) // strings, lists and mappings can always be encoded
	}
	return string(b)
}

// DigestOf is a digest of the profiles in a plan's scope, for its base: it is
// another one as soon as any of them is recorded otherwise. Observed states are not
// in it, for a service that fails between plan and apply is no change that
// somebody made.
func DigestOf(present map[string]Present) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(present)) {
		p := present[name]
		b, err := marshal([]string{name, string(p.State), p.fingerprint(), p.Fault})
		if err != nil {
			panic(err) // strings can always be encoded
		}
		h.Write(b)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
