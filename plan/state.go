package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"rlminit/service"
)

// Profile is one profile, as it is or as it shall be, without any secret.
type Profile struct {
	State      service.Intent    `json:"state"`
	Definition Tree              `json:"definition"`
	Sealed     map[string]string `json:"sealed"` // place → digest
}

// Present is a profile that there is.
type Present struct {
	Profile
	Fault  string // why it cannot be run; its Definition is not to be trusted then
	Astray string // what is wanted of it is not so: "failed: …"; "": it is
	Kept   bool   // it cannot be deleted: the profile that is the home directory
}

// Shape takes the secrets out of what a profile.yaml says, and out of those that
// are kept beside it.
func Shape(salt string, state service.Intent, t Tree, secrets map[string]string) Profile {
	p := Profile{State: state, Definition: t, Sealed: map[string]string{}}.Resealed(salt)
	for name, value := range secrets {
		at := place(partSecrets, name)
		p.Sealed[at] = Digest(salt, at, value)
	}
	return p
}

// Resealed is a profile in which all is masked that is secret: one that an older version has
// kept may have more in clear.
func (p Profile) Resealed(salt string) Profile {
	clean, values := seal(p.Definition)
	p.Definition, p.Sealed = clean, maps.Clone(p.Sealed)
	if p.Sealed == nil {
		p.Sealed = map[string]string{}
	}
	for at, value := range values {
		p.Sealed[at] = Digest(salt, at, value)
	}
	return p
}

// Shape is the profile that w asks for. digests are those of the secrets that
// are not in the declared file itself, by place.
func (w Wanted) Shape(salt string, digests map[string]string) Profile {
	p := Shape(salt, w.State, w.Definition, nil)
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

// fingerprint changes when the definition does, and not when the intent does.
func (p Profile) fingerprint() string {
	p.State = service.IntentNone
	p.Definition = without(p.Definition, p.Sealed) // what is masked there, the digests tell
	if p.Sealed == nil {
		p.Sealed = map[string]string{}
	}
	b, err := marshal(p)
	if err != nil {
		panic(err) // strings, lists and mappings can always be encoded
	}
	return string(b)
}

// DigestOf is what the base of a plan has of the profiles in its scope: it is
// another one as soon as any of them is recorded otherwise. What is alive is not
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
