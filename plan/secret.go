package plan

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
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

// named are the values of a tree's variables whose names are a secret's, in whichever of its
// mappings they are.
func named(key string, value any) (values []string) {
	switch v := value.(type) {
	case Tree:
		for name, inner := range v {
			if text, plain := inner.(string); plain && key == partEnvironment && redact.Name(name) {
				values = append(values, text)
			}
			values = append(values, named(name, inner)...)
		}
	case []any:
		for _, item := range v {
			values = append(values, named("", item)...)
		}
	}
	return values
}

// seal masks in a tree what nobody is to read (package redact), and some secrets wherever they
// stand, and returns the masked values by place: a text, or a list as JSON.
func seal(t Tree, secrets redact.Set) (clean Tree, values map[string]string) {
	s := sealing{secrets: secrets, values: map[string]string{}}
	return s.tree("", t), s.values
}

type sealing struct {
	secrets redact.Set
	values  map[string]string
}

func (s sealing) tree(at string, t Tree) Tree {
	clean := make(Tree, len(t))
	for key, value := range t {
		at := below(at, key)
		if inner, is := value.(Tree); is {
			clean[key] = s.tree(at, inner)
			continue
		}
		clean[key] = s.value(key, value)
		if !reflect.DeepEqual(clean[key], value) {
			s.values[at] = text(value)
		}
	}
	return clean
}

// value is a value without its secrets. A list is one value, with all its items.
func (s sealing) value(key string, value any) any {
	switch v := value.(type) {
	case Tree:
		clean := make(Tree, len(v))
		for key, inner := range v {
			clean[key] = s.value(key, inner)
		}
		return clean
	case string:
		return s.secrets.Value(key, v)
	case []any:
		words, clean := make([]string, len(v)), make([]any, len(v))
		for i, item := range v {
			if words[i], _ = item.(string); key == "redact" {
				words[i] = redact.Pattern(words[i])
			}
		}
		for i, word := range s.secrets.Command(words) {
			if clean[i] = any(word); !isText(v[i]) {
				clean[i] = s.value("", v[i])
			}
		}
		return clean
	}
	return value
}

func isText(value any) bool {
	_, is := value.(string)
	return is
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
	if spots(t, at) > 1 {
		return fmt.Errorf("two values are called %s, for the name of a variable has a dot; rename the variable", at)
	}
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

// spots is how many values of a tree have a place: a key may have dots in it.
func spots(t Tree, at string) (count int) {
	for key, value := range t {
		if key == at {
			count++
		}
		inner, is := value.(Tree)
		if rest, begins := strings.CutPrefix(at, key+"."); is && begins {
			count += spots(inner, rest)
		}
	}
	return count
}

// without is a tree less some places.
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

// prune takes the empty mappings out of a tree.
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
