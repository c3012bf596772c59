package document

import (
	"maps"
	"slices"
)

// Schema is a shape as a JSON schema, draft 2020-12. It refuses only what the
// Setter refuses too, and not all of that: ${NAME} may stand wherever a text does,
// and what it comes to is not known.
func (s *Shape) Schema() map[string]any {
	if s.Any {
		return map[string]any{}
	}
	alternatives := []any{map[string]any{"type": "null"}} // as good as absent
	for _, one := range s.Scalars {
		alternatives = append(alternatives, one.schemas()...)
	}
	if len(s.Scalars) > 0 && !slices.ContainsFunc(s.Scalars, func(one Scalar) bool { return one.Kind == KindText }) {
		alternatives = append(alternatives, map[string]any{"type": "string", "pattern": `\$\{`})
	}
	if s.Items != nil {
		alternatives = append(alternatives, map[string]any{"type": "array", "items": s.Items.Schema()})
	}
	if s.Keys != nil {
		properties := map[string]any{}
		for name, of := range maps.All(s.Keys) {
			properties[name] = of.Schema()
		}
		alternatives = append(alternatives, map[string]any{"type": "object", "properties": properties, "additionalProperties": false})
	}
	if s.Values != nil {
		alternatives = append(alternatives, map[string]any{"type": "object", "additionalProperties": s.Values.Schema()})
	}
	return map[string]any{"anyOf": alternatives}
}

// schemas are the forms in which a scalar may be written: YAML has numbers and
// booleans, and all of them may be quoted.
func (s Scalar) schemas() []any {
	text := func(pattern string) any { return map[string]any{"type": "string", "pattern": pattern} }
	bounded := func(kind string) map[string]any {
		m := map[string]any{"type": kind, "minimum": s.Low}
		if s.High != 0 {
			m["maximum"] = s.High
		}
		return m
	}
	switch s.Kind {
	case KindBool:
		return []any{
			map[string]any{"type": "boolean"},
			map[string]any{"enum": []any{0, 1}},
			text(`^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|[Yy][Ee][Ss]|[Nn][Oo]|[Oo][Nn]|[Oo][Ff][Ff]|0|1)$`),
		}
	case KindInt:
		return []any{bounded("integer"), text(`^[+-]?[0-9]+$`)}
	case KindFloat:
		return []any{bounded("number"), text(`^[+-]?[0-9.]+([eE][+-]?[0-9]+)?$`)}
	case KindDuration:
		return []any{map[string]any{"const": 0}, text(`^[+-]?(0+(\.0*)?|([0-9]*(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h))+)$`)}
	case KindSize:
		return []any{bounded("integer"), text(`^[0-9.]+ ?([kKmMgGtT][iI]?)?[bB]?$`)}
	case KindOneOf:
		return []any{map[string]any{"enum": words(s.Words)}}
	}
	return []any{map[string]any{"type": []any{"string", "number", "boolean"}}}
}

func words(list []string) []any {
	all := make([]any, len(list))
	for i, word := range list {
		all[i] = word
	}
	return all
}
