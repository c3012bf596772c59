package plan

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"rlminit/internal/redact"
)

// Digest is what stands in a plan for a secret. salt is the plan's own, so that
// equal secrets in two plans do not look alike, and no table made in advance
// finds a short one.
func Digest(salt, place, value string) string {
	h := hmac.New(sha256.New, []byte(salt))
	h.Write([]byte(place))
	h.Write([]byte{0})
	h.Write([]byte(value))
	return "hmac-sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Sealed is a secret's place, digest and source.
type Sealed struct {
	Place  string `json:"place"` // environment.TOKEN, secrets.KEY
	Digest string `json:"digest"`
	// File is where apply reads the value again; "" is the declared file itself.
	File string `json:"file,omitempty"`
}

// place is the path of a secret, and its parts.
func place(part, name string) string { return part + "." + name }

func partsOf(place string) (part, name string) {
	part, name, _ = strings.Cut(place, ".")
	return part, name
}

// seal takes out of a tree what nobody is to read (package redact), and returns
// it by place.
func seal(t Tree) (clean Tree, values map[string]string) {
	values = map[string]string{}
	if _, ok := t[partEnvironment].(Tree); !ok {
		return t, values
	}
	clean = cloneTree(t)
	env := clean[partEnvironment].(Tree)
	for name, value := range env {
		if s, plain := value.(string); plain && redact.Value(name, s) != s {
			values[place(partEnvironment, name)] = s
			delete(env, name)
		}
	}
	if len(env) == 0 {
		delete(clean, partEnvironment)
	}
	return clean, values
}

// Unseal puts values back into a tree, which is changed, and returns those that
// belong into no tree: the profile's secrets, by name.
func Unseal(t Tree, values map[string]string) (secrets map[string]string) {
	secrets = map[string]string{}
	for at, value := range values {
		part, name := partsOf(at)
		if part == partSecrets {
			secrets[name] = value
			continue
		}
		env, ok := t[part].(Tree)
		if !ok {
			env = Tree{}
			t[part] = env
		}
		env[name] = value
	}
	return secrets
}

// IsVariable tells whether a secret's place is a variable of the environment.
func IsVariable(at string) bool {
	part, _ := partsOf(at)
	return part == partEnvironment
}

// The parts of a profile that can hold secrets.
const (
	partEnvironment = "environment"
	partSecrets     = "secrets"
)

// Reseal takes a value out of a tree again.
func Reseal(t Tree, place string) {
	part, name := partsOf(place)
	if env, ok := t[part].(Tree); ok {
		delete(env, name)
		if len(env) == 0 {
			delete(t, part)
		}
	}
}
