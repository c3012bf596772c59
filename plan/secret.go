package plan

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
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

// seal masks in a tree what nobody is to read (package redact), wherever it stands, and
// returns it by place: a text, or a list as JSON. That of a variable whose name is a
// secret's is masked wherever else it stands.
func seal(t Tree) (clean Tree, values map[string]string) {
	s := sealing{values: map[string]string{}}
	if env, ok := t[partEnvironment].(Tree); ok {
		var named []string
		for name, value := range env {
			if text, plain := value.(string); plain && redact.Name(name) {
				named = append(named, text)
			}
		}
		s.secrets = redact.NewSet(named...)
	}
	return s.tree("", t), s.values
}

type sealing struct {
	secrets redact.Set
	values  map[string]string
}

func (s sealing) tree(at string, t Tree) Tree {
	clean := make(Tree, len(t))
	for key, value := range t {
		clean[key] = s.value(key, below(at, key), value)
	}
	return clean
}

func (s sealing) value(key, at string, value any) any {
	switch v := value.(type) {
	case Tree:
		return s.tree(at, v)
	case string:
		shown := s.secrets.Value(key, v)
		if shown != v {
			s.values[at] = v
		}
		return shown
	case []any:
		list := words(v)
		shown := s.secrets.Command(list)
		if slices.Equal(shown, list) {
			return v
		}
		s.values[at] = text(v)
		masked := make([]any, len(shown))
		for i, word := range shown {
			masked[i] = word
		}
		return masked
	}
	return value
}

// words are the texts of a list.
func words(list []any) (all []string) {
	for _, item := range list {
		all = append(all, text(item))
	}
	return all
}

// Unseal is a tree with values put back, and those that belong into no tree: the profile's
// secrets, by name.
func Unseal(t Tree, values map[string]string) (whole Tree, secrets map[string]string, err error) {
	whole, secrets = cloneTree(t), map[string]string{}
	for at, value := range values {
		if part, name := partsOf(at); part == partSecrets {
			secrets[name] = value
			continue
		}
		if err := put(whole, at, value); err != nil {
			return nil, nil, err
		}
	}
	return whole, secrets, nil
}

// put puts a value at a place: a list where one is, masked.
func put(t Tree, at, value string) error {
	in, key := find(t, at)
	if in == nil { // a plan of an older version has no masked variable there
		part, name := partsOf(at)
		env, ok := t[part].(Tree)
		if !ok {
			env = Tree{}
			t[part] = env
		}
		in, key = env, name
	}
	if _, list := in[key].([]any); !list {
		in[key] = value
		return nil
	}
	var items []any
	if err := json.Unmarshal([]byte(value), &items); err != nil {
		return fmt.Errorf("the value of %s is no list: %w", at, err)
	}
	in[key] = items
	return nil
}

// find is the mapping that has a place, and its key there; nil: none has.
func find(t Tree, at string) (in Tree, key string) {
	if _, here := t[at]; here {
		return t, at
	}
	for key, value := range t {
		inner, is := value.(Tree)
		rest, begins := strings.CutPrefix(at, key+".")
		if !is || !begins {
			continue
		}
		if in, key := find(inner, rest); in != nil {
			return in, key
		}
	}
	return nil, ""
}

// without is a tree less what is at some places.
func without(t Tree, places map[string]string) Tree {
	clean := cloneTree(t)
	for at := range places {
		if in, key := find(clean, at); in != nil {
			delete(in, key)
		}
	}
	prune(clean)
	return clean
}

// prune takes the mappings out of a tree in which nothing is.
func prune(t Tree) {
	for key, value := range t {
		if inner, is := value.(Tree); is {
			if prune(inner); len(inner) == 0 {
				delete(t, key)
			}
		}
	}
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
