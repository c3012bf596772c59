package config

import (
	"path"
	"strings"

	"rlminit/internal/document"
)

// Origin is a file that a definition was read from.
type Origin struct {
	File  string // relative to the directory of rlminit.yaml
	Sum   string // SHA-256 of its content then, in hexadecimal digits
	Lines document.Block
}

// Origins are the files that the definition of a static service, or of main, was read
// from, with the lines of it that are there; 0: it has none there, but what counts for all
// services may have a part in it. Of others, and where lines cannot be told, there are
// none.
func (b Bundle) Origins(name string) []Origin {
	if len(b.Files) == 0 {
		return nil
	}
	lines, there := b.lines[name]
	all := []Origin{origin(b.Files[0], lines)}
	for _, f := range b.Files[1:] {
		if serviceName(f) == name {
			there = true
			all = append(all, origin(f, document.Block{First: 1, Last: document.Lines(f.Data)}))
		}
	}
	if !there {
		return nil
	}
	return all
}

func origin(f File, lines document.Block) Origin {
	return Origin{File: f.Name, Sum: TextDigest(f.Data), Lines: lines}
}

// serviceName is the service that a file of services.d has.
func serviceName(f File) string { return strings.TrimSuffix(path.Base(f.Name), ".yaml") }

// linesOf are the lines of rlminit.yaml on which main and each of the services stand, and
// those of all services; last is the last one of the file, 0 where lines cannot be told.
func linesOf(top document.Node, last int32) (lines map[string]document.Block, services document.Block) {
	if last == 0 {
		return nil, services
	}
	keys := top.Blocks(last)
	lines = top.Get("services").Blocks(keys["services"].Last)
	for _, section := range OwnServices { // each is a service
		if block, there := keys[section]; there {
			if lines == nil {
				lines = map[string]document.Block{}
			}
			lines[section] = block
		}
	}
	return lines, keys["services"]
}
