// Package described has a sentence or two on each key of the configuration, for editors.
// keys.tsv is made of the tables in docs/configuration.md by make docs; more.tsv has the
// keys that these tables explain within another key.
package described

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed keys.tsv
var keys string

//go:embed more.tsv
var more string

// texts are the descriptions by section and key.
var texts = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(keys + more) {
		if at, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			all[at] = text
		}
	}
	return all
})

// Files are the sections of the files' topmost keys.
const (
	Configuration = "container"
	Service       = "service"
	Profile       = "profile"
	Set           = "set"
)

// within are the sections whose keys a section has besides its own.
var within = map[string]string{
	Profile: Service, "profiles": Profile, "gateways": "gateway", "gateway": Service, "main": Service, "services": Service, "default": Service,
	"health": "ready", "schedules": "schedule",
	"as": limit, "core": limit, "cpu_time": limit, "data": limit, "fsize": limit, "locks": limit, "memlock": limit, "msgqueue": limit, "nice": limit,
	"nofile": limit, "nproc": limit, "rss": limit, "rtprio": limit, "rttime": limit, "sigpending": limit, "stack": limit,
}

// limit is the section of soft and hard, of each of setrlimit(2)'s.
const limit = "limit"

// Of describes a key at a path below the topmost section; "": nothing is written about it.
// A name that a person chooses, of a service for instance, is no part of a path.
func Of(file string, path ...string) string {
	section := file
	if n := len(path); n > 1 {
		section = path[n-2]
	}
	for ; section != ""; section = within[section] {
		if text := texts()[section+"."+path[len(path)-1]]; text != "" {
			return text
		}
	}
	return ""
}

// Add describes the properties of a JSON schema of a file, and those within.
func Add(schema map[string]any, file string) {
	Each(schema, func(path []string, property map[string]any) {
		if text := Of(file, path...); text != "" {
			property["description"] = text
		}
	})
}

// Each goes through the properties of a JSON schema, and those within, each with its path.
func Each(schema any, f func(path []string, property map[string]any), path ...string) {
	switch schema := schema.(type) {
	case []any:
		for _, one := range schema {
			Each(one, f, path...)
		}
	case []map[string]any:
		for _, one := range schema {
			Each(one, f, path...)
		}
	case map[string]any:
		for key, value := range schema {
			if key != "properties" {
				Each(value, f, path...)
				continue
			}
			properties, _ := value.(map[string]any)
			for name, property := range properties {
				at := append(path[:len(path):len(path)], name)
				Each(property, f, at...)
				f(at, property.(map[string]any))
			}
		}
	}
}
