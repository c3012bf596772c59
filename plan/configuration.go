package plan

import (
	"fmt"
	"slices"
	"strings"
)

// KindConfiguration is the kind of a change to root's configuration, whose name is
// its path.
const KindConfiguration = "configuration"

// IsConfiguration tells whether the name of a change, or of a present object, is the
// configuration's: no profile's has a slash.
func IsConfiguration(name string) bool { return strings.HasPrefix(name, "/") }

// kindOf is the kind of a change by its subject.
func kindOf(name string) string {
	if IsConfiguration(name) {
		return KindConfiguration
	}
	return KindProfile
}

// ConfigurationText is the place of the configuration's whole text among the values that a
// plan has as digests: the change is approved by it, and apply reads it again.
const ConfigurationText = "configuration"

// ShapeConfiguration is a configuration as a plan compares it: its whole text as a
// digest, its values, and as digests those that nobody is to read. One that is no
// YAML has no values.
func ShapeConfiguration(salt string, text []byte) Profile {
	p := Profile{Definition: Tree{}, Sealed: map[string]string{ConfigurationText: Digest(salt, ConfigurationText, string(text))}}
	t, err := ParseTree("", text)
	if err != nil {
		return p
	}
	p.Definition = t
	return p.Resealed(salt)
}

// Affected is a service that a change of the configuration touches.
type Affected struct {
	Service string `json:"service"`
	Effect  string `json:"effect"` // on its process
	Reason  string `json:"reason"`
}

// Touches notes which services a change touches. What is worst for any of them is
// the change's effect.
func (c *Change) Touches(services []Affected) {
	c.Services = services
	for _, effect := range []string{Restarts, Stops, Starts} {
		if slices.ContainsFunc(services, func(a Affected) bool { return a.Effect == effect }) {
			c.Effect = effect
			return
		}
	}
}

// OutsideService are the fields of a change of the configuration that are not of
// the one service that a scope names.
func (c *Change) OutsideService(s Scope) (fields []string) {
	kind, name, one := s.Named()
	if !one || kind != "service" {
		return nil
	}
	own := "services." + name
	for _, f := range c.Fields {
		if f.Field != own && !strings.HasPrefix(f.Field, own+".") {
			fields = append(fields, f.Field)
		}
	}
	return fields
}

// Configures tells whether the plan decides about the configuration.
func (p *Plan) Configures() bool {
	return slices.ContainsFunc(p.Unchanged, IsConfiguration) ||
		slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Kind == KindConfiguration })
}

// OnlyText is said of a configuration that differs in comments or form alone.
const OnlyText = "its declared text differs and means the same"

// configurationFields leaves out that the text differs, where values say how.
func configurationFields(list []Field) (fields []Field, reason string) {
	values := slices.DeleteFunc(slices.Clone(list), func(f Field) bool { return f.Field == ConfigurationText })
	if len(values) == 0 {
		return list, OnlyText
	}
	if len(values) == 1 {
		return values, "its declaration differs in one place"
	}
	return values, fmt.Sprintf("its declaration differs in %d places", len(values))
}
