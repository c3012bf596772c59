package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/internal/redact"
	"rlminit/profiles"
	"rlminit/service"
)

// fromDefault is the source of what nobody has written.
const fromDefault = "default"

// sourcedField is a value of a definition with where it comes from.
type sourcedField struct {
	service.Field
	Source *string `json:"source"`        // FILE:LINE, profile, or default; null: the files may not be read
	Now    string  `json:"now,omitempty"` // the file's value by now, where that is another one

	NotInForce string `json:"not_in_force,omitempty"` // why it has no effect in this place
}

// section is a part of a file that a definition is made of.
type section struct {
	file string
	node document.Node
}

// sourced tells of each value of a definition in force where it comes from, or why
// that cannot be told. The files are read as they are now.
func sourced(d control.Definition, s control.Service) (fields []sourcedField, unknown error) {
	sections, unchanged := sectionsInForce(d)
	var now map[string]string
	if !unchanged {
		sections, now, unknown = sectionsOf(d, s)
	}
	fields = make([]sourcedField, 0, len(d.Fields))
	for _, f := range d.Fields {
		field := sourcedField{Field: f, NotInForce: d.NotInForce[f.Field]}
		if unknown == nil {
			from := fromDefault
			if f.Field == "profile" || f.Field == "port" || f.Field == "secrets_version" {
				from = "profile"
			}
			for _, section := range sections {
				if line := lineOf(section.node, f.Field); line > 0 {
					from = section.file + ":" + strconv.Itoa(line)
					break
				}
			}
			field.Source = &from
			if value, there := now[f.Field]; there && value != f.Value && from != "profile" && !strings.Contains(f.Value, redact.Sign) { // a secret is not compared
				field.Now = value
			}
		}
		fields = append(fields, field)
	}
	return fields, unknown
}

// sectionsInForce are the parts of files that a definition was read from, where the
// files still say what they said then: of thousands of services that one is read, and
// not all of them. ok is false where that is not so, or not known.
func sectionsInForce(d control.Definition) (sections []section, ok bool) {
	for _, f := range d.Files {
		data, err := config.ReadUntrustedFile(filepath.Join(filepath.Dir(configPath()), f.File), document.MaxSize)
		sum := sha256.Sum256(data)
		if err != nil || hex.EncodeToString(sum[:]) != f.Sum {
			return nil, false
		}
		if f.First == 0 {
			continue
		}
		lines := bytes.SplitAfter(data, []byte{'\n'})
		if f.First > f.Last || f.Last > len(lines) {
			return nil, false
		}
		// As many lines before it as there are in the file, for the numbers of its own.
		text := append(bytes.Repeat([]byte{'\n'}, f.First-1), bytes.Join(lines[f.First-1:f.Last], nil)...)
		doc, faults := document.Parse(f.File, text)
		node, _ := doc.Read(nil)
		if len(faults) > 0 || !node.IsMapping() {
			return nil, false
		}
		if filepath.Dir(f.File) == "." { // rlminit.yaml, where the name is the key
			node = node.Get(d.Service)
		}
		sections = append(sections, section{f.File, node})
	}
	return sections, len(sections) > 0
}

// sectionsOf are the parts of files that say something of a service, the one
// that counts most first, and what they make of it now; or why one of them cannot be
// read: what it may say counts over all others.
func sectionsOf(d control.Definition, s control.Service) (sections []section, now map[string]string, err error) {
	bundle, err := config.ReadUntrusted(configPath())
	if err != nil {
		return nil, nil, err
	}
	add := func(file string, data []byte, keys ...string) {
		doc, _ := document.Parse(file, data)
		node, _ := doc.Read(nil)
		for _, key := range keys {
			node = node.Get(key)
		}
		if !node.Absent() {
			sections = append(sections, section{file, node})
		}
	}
	c, faults := config.Parse(bundle, os.LookupEnv)
	main := bundle.Files[0]
	var definition *service.Definition
	switch {
	case d.Profile != "":
		if c == nil || c.Gateway == nil {
			return nil, nil, fmt.Errorf("%s has no gateway section by now", configPath())
		}
		p := profileOf(c, d, s)
		path := filepath.Join(p.Dir, "profile.yaml")
		text, err := config.ReadUntrustedFile(path, document.MaxSize)
		switch {
		case err == nil:
			add(path, text)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, nil, err
		}
		if d.Profile == profiles.Default {
			add(main.Name, main.Data, "gateway", "default")
		}
		if k := c.Gateway.KindNamed(config.KindIn(text)); k != nil {
			add(main.Name, main.Data, strings.Split(k.Section(), ".")...)
		}
		definition, faults = c.ProfileDefinition(p, path, text)
	default:
		for _, file := range bundle.Files[1:] {
			if strings.TrimSuffix(filepath.Base(file.Name), ".yaml") == d.Service {
				add(file.Name, file.Data)
			}
		}
		add(main.Name, main.Data, "services", d.Service)
		if d.Service == "main" {
			add(main.Name, main.Data, "main")
		}
		if c != nil {
			definition = c.Services[d.Service]
		}
	}
	if len(faults) > 0 {
		definition = nil
	}
	return sections, comparable(definition), nil
}

// profileOf is the profile that a definition is of.
func profileOf(c *config.Config, d control.Definition, s control.Service) config.Profile {
	p := config.Profile{Name: d.Profile, Dir: config.ProfileDir(c.Home, d.Profile)}
	if s.Port != nil {
		p.Port = *s.Port
	}
	return p
}

// comparable is a definition by field, without its secrets.
func comparable(d *service.Definition) map[string]string {
	said := map[string]string{}
	if d == nil {
		return said
	}
	for _, f := range service.Flatten(d.Shown(redact.Set{})) {
		said[f.Field] = f.Value
	}
	return said
}

// lineOf is the line on which a section sets a field, 0 where it does not. Of a
// mapping in a list it is that of the list.
func lineOf(n document.Node, field string) int {
	if name, ok := strings.CutPrefix(field, "environment."); ok {
		if v := n.Get("environment").Get(name); !v.Absent() {
			return v.Line()
		}
		return 0
	}
	for key := range strings.SplitSeq(field, ".") {
		key, _, _ = strings.Cut(key, "[")
		if !n.IsMapping() {
			break // `restart: no` sets restart.policy, and ready: notify its one key
		}
		if n = n.Get(key); n.Absent() {
			return 0
		}
	}
	return n.Line()
}
