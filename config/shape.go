package config

import (
	"cmp"

	"rlminit/config/described"
	"rlminit/internal/document"
	"rlminit/service"
)

// The kinds of file with a schema.
const (
	ConfigurationFile = "rlminit.yaml"
	ServiceFile       = "service.yaml"
	ProfileFile       = "profile.yaml"
)

// Schemas are the JSON schemas of the files that people write, by their kind, made
// of the very tables that read them.
func Schemas() map[string]map[string]any {
	p := newParser(Bundle{}, nil)
	readAll := ""
	d := service.Default("name")
	shapes := map[string]*document.Shape{
		ConfigurationFile: document.Describe(p.fields(&readAll).Read),
		ServiceFile:       document.Describe(d.Fields().Read),
		ProfileFile:       document.Describe(service.OverrideFields().Read),
	}
	all := map[string]map[string]any{}
	for kind, shape := range shapes {
		all[kind] = SchemaOf(kind, shape)
	}
	return all
}

// sections are the sections of the topmost keys, by the kind of file. A kind that is not
// here is a set.
var sections = map[string]string{ConfigurationFile: described.Configuration, ServiceFile: described.Service, ProfileFile: described.Profile}

// SchemaOf is the JSON schema of one kind of file.
func SchemaOf(kind string, shape *document.Shape) map[string]any {
	s := shape.Schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = "urn:rlminit:schema:" + kind
	s["title"] = kind + " of rlminit"
	described.Add(s, cmp.Or(sections[kind], described.Set))
	return s
}
