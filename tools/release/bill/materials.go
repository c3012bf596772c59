package main

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// materials is the bill: the package, below it each program for each architecture
// with its checksum, and each module that one of them links.
func (r release) materials(programs []program, parts []part) *cdx.BOM {
	bom := cdx.NewBOM()
	whole := cdx.Component{
		BOMRef: r.name, Type: cdx.ComponentTypeApplication, Name: r.name, Version: r.version,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	bom.Metadata = &cdx.Metadata{Component: &whole}
	var components []cdx.Component
	var dependencies []cdx.Dependency
	var all []string
	for _, p := range programs {
		ref := p.name + "-linux-" + p.arch
		all = append(all, ref)
		components = append(components, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: ref, Version: r.version,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.sum}},
		})
		var refs []string
		for _, m := range p.modules {
			refs = append(refs, address(m))
		}
		dependencies = append(dependencies, cdx.Dependency{Ref: ref, Dependencies: &refs})
	}
	for _, p := range parts {
		components = append(components, library(p))
	}
	dependencies = append([]cdx.Dependency{{Ref: whole.BOMRef, Dependencies: &all}}, dependencies...)
	bom.Components, bom.Dependencies = &components, &dependencies
	return bom
}

// library is a module as a component. Its licences are evidence rather than a claim,
// for they were recognised by the wording of its files.
func library(p part) cdx.Component {
	c := cdx.Component{
		BOMRef: address(p.module), Type: cdx.ComponentTypeLibrary, Name: p.path, Version: p.version,
		PackageURL: address(p.module),
	}
	licences := cdx.Licenses{}
	for _, id := range p.ids {
		licences = append(licences, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	c.Evidence = &cdx.Evidence{Licenses: &licences}
	if sum, is := strings.CutPrefix(p.sum, "h1:"); is {
		if raw, err := base64.StdEncoding.DecodeString(sum); err == nil {
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
		}
	}
	return c
}

// address is a module's package URL, by which scanners look it up.
func address(m module) string { return "pkg:golang/" + m.path + "@" + m.version }

// encode writes a bill as JSON.
func encode(w io.Writer, bom *cdx.BOM) error {
	encoder := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(bom)
}
