package statefile

import (
	"encoding/json"
	"reflect"
	"testing"
)

// What encoding/json makes of an object is what it is cut into.
func FuzzSplitObject(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { "a" : "b\"}" , "c":[1,{"d":"]"}] ,"a":null} `, `[]`, `{"a":1}x`, `{"\u0061":1,"b":"\ud800"}`,
		"{\"a\xff\":\"\xff\"}", `{"a":-1.5e3,"b":{}}`, `{"a" : tru}`, ``, `{"a`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want map[string]json.RawMessage
		unreadable := json.Unmarshal(data, &want)
		members, err := splitObject(data)
		if (err == nil) != (unreadable == nil && want != nil) {
			t.Fatalf("%q: %v; encoding/json: %v", data, err, unreadable)
		}
		is := map[string]json.RawMessage{}
		for _, m := range members {
			is[m.key] = m.value
			var s string
			if json.Unmarshal(m.value, &s) != nil {
				s = ""
			}
			if asString(m.value) != s {
				t.Errorf("%s is %q, want %q", m.value, asString(m.value), s)
			}
		}
		if err == nil && (len(is) != len(members) || !reflect.DeepEqual(is, want)) {
			t.Errorf("%q: %q, want %q", data, is, want)
		}
	})
}

// What is no JSON object says why, and where.
func TestWhyAStateFileCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		"":           "it is empty",
		" \n":        "it is empty",
		"[1]":        "it is not a JSON object",
		`{"a":1`:     "it ends in the middle",
		`{"a":1]`:    "invalid character ']' after object key:value pair at byte 7",
		`{"a":1} x`:  "something follows the JSON object at byte 7",
		`{"a":tru }`: "invalid character ' ' in literal true (expecting 'e') at byte 9",
	} {
		if _, err := splitObject([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
