package openapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"rlminit/control"
)

var problemType = reflect.TypeFor[control.Problem]()

// schemas are the components of the document, by the names of their types.
type schemas struct {
	of    object
	given map[reflect.Type]bool // a client sends these, and may leave keys out
}

// give notes the types of a body.
func (s *schemas) give(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		s.give(t.Elem())
	case reflect.Struct:
		if s.given[t] {
			return
		}
		s.given[t] = true
		for f := range fieldsOf(t) {
			s.give(f.Type)
		}
	}
}

// ref is the schema of a value, by reference where it is a struct.
func (s *schemas) ref(v any) object { return s.schema(reflect.TypeOf(v)) }

func (s *schemas) schema(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return object{"anyOf": []any{s.schema(t.Elem()), object{"type": "null"}}}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": "array", "items": s.schema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.schema(t.Elem())}
	case reflect.Struct:
		name := t.Name()
		if _, known := s.of[name]; !known {
			s.of[name] = object{} // one that has itself as a part ends here
			s.of[name] = s.inline(t)
		}
		return object{"$ref": "#/components/schemas/" + name}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Interface:
		return object{}
	}
	return object{"type": "integer"}
}

// inline is the schema of a struct itself.
func (s *schemas) inline(t reflect.Type) object {
	properties, required := object{}, []string{}
	s.fields(t, properties, &required)
	o := object{"type": "object", "properties": properties}
	if len(required) > 0 && !s.given[t] {
		o["required"] = required
	}
	return o
}

// fields adds the keys of a struct, and those of the structs embedded in it.
func (s *schemas) fields(t reflect.Type, properties object, required *[]string) {
	for f := range fieldsOf(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && name == "":
			s.fields(f.Type, properties, required)
			continue
		case name == "":
			name = f.Name
		}
		properties[name] = s.schema(f.Type)
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			*required = append(*required, name)
		}
	}
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}
