package settings

import (
	"reflect"
	"slices"
	"testing"

	"rlminit/config"
	"rlminit/wire"
)

// The lines of a definition are told where it is what they said, and not of one that
// still is as before.
func TestOrigins(t *testing.T) {
	bundle := config.Bundle{Path: "/etc/rlminit.yaml", Files: []config.File{{Name: "rlminit.yaml", Data: []byte("version: 1\nuser: \"0\"\nservices:\n  web: {command: [a]}\n  db: {command: [b]}\n")}}}
	c, faults := config.Parse(bundle, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	s := Fixed(c, &wire.Policy{})
	d := new(*c.Services["db"])
	if all := s.Origins(d); len(all) != 1 || all[0].Lines.First != 5 {
		t.Errorf("%+v", all)
	}
	d.Command = []string{"c"}
	if all := s.Origins(d); all != nil {
		t.Errorf("of another one %+v", all)
	}
	d.Name = "nobody"
	if all := s.Origins(d); all != nil {
		t.Errorf("of none %+v", all)
	}
}

// Each field of a configuration is looked at when one is compared with another, so
// that nothing changes without being told.
func TestEveryFieldIsLookedAt(t *testing.T) {
	elsewhere := map[string]string{
		"Path":     "a flag or variable alone says it",
		"Profiles": "a flag or variable alone says it",
		"Services": "what changes is told of each",
		"Page":     "what changes is told of its service, and of its user below",
		"Gateway":  "below",
		"User":     "one of gateway counts as auto alone, with its groups",
		"Groups":   "",
		// The node that it stands for decides.
		"HasDefault": "",
		"Kinds":      "below",
		"Name":       "another one is another kind",
	}
	bundle := config.Bundle{Path: "/etc/rlminit.yaml", Files: []config.File{{Name: "rlminit.yaml", Data: []byte("version: 1\ngateway: {command: [a]}\n")}}}
	c, faults := config.Parse(bundle, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	s := Fixed(c, &wire.Policy{})
	looked := func(next *config.Config, field string) {
		t.Helper()
		if !slices.ContainsFunc([]when{container, atOnce, nextStart}, func(at when) bool { return len(s.changed(at, c, next, "")) > 0 }) {
			t.Errorf("a reload says nothing of a change of %s: give it a part", field)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		if _, there := elsewhere[f.Name]; f.IsExported() && (!there || f.Name == "User") {
			next := *c
			other(reflect.ValueOf(&next).Elem().FieldByIndex(f.Index))
			looked(&next, f.Name)
		}
	}
	next := *c
	next.Page = &config.Page{User: 5}
	looked(&next, "page.user")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Gateway]()) {
		if _, there := elsewhere[f.Name]; f.IsExported() && !there {
			next, gateway := *c, *c.Gateway
			next.Gateway = &gateway
			other(reflect.ValueOf(&gateway).Elem().FieldByIndex(f.Index))
			looked(&next, "gateway's "+f.Name)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Kind]()) {
		if _, there := elsewhere[f.Name]; f.IsExported() && !there {
			next, gateway, kind := *c, *c.Gateway, *c.Gateway.Kinds[""]
			next.Gateway, gateway.Kinds = &gateway, map[string]*config.Kind{"": &kind}
			other(reflect.ValueOf(&kind).Elem().FieldByIndex(f.Index))
			looked(&next, "a kind's "+f.Name)
		}
	}
}

// When a change counts is said of each key of rlminit.yaml, and of nothing else.
func TestEveryKeyHasAPart(t *testing.T) {
	var properties map[string]any
	for _, shape := range config.Schemas()[config.ConfigurationFile]["anyOf"].([]any) {
		if keys, ok := shape.(map[string]any)["properties"].(map[string]any); ok {
			properties = keys
		}
	}
	told := map[string]bool{}
	for _, p := range parts {
		told[p.key] = true
		if _, there := properties[p.key]; !there {
			t.Errorf("there is no key %s", p.key)
		}
	}
	for key := range properties {
		if !told[key] {
			t.Errorf("nothing says when a change of %s counts: give it a part", key)
		}
	}
}

// other makes a value another one.
func other(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "other")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint32:
		v.SetUint(v.Uint() + 1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), v.Len()+1, v.Len()+1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
	case reflect.Struct:
		other(v.Field(0))
	default:
		panic(v.Kind())
	}
}
