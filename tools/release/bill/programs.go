package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sort"
	"strings"
)

// standard is the name under which the standard library is listed, which is what
// vulnerability databases call it.
const standard = "std"

// own is the project's own module, which its LICENSE is for.
const own = "rlminit"

// program is a binary of the release.
type program struct {
	name    string // of its file
	arch    string // as Go names it
	sum     string // SHA-256 in hexadecimal
	modules []module
}

// module is something that is linked.
type module struct {
	path    string
	version string // as in go.mod; of the standard library without the "go" before it
	sum     string // as in go.sum; empty for the standard library
}

// read asks each binary what is linked into it.
func read(paths []string) ([]program, error) {
	var programs []program
	for _, path := range paths {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read what %s is built of: %w", path, err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", path, err)
		}
		sum := sha256.Sum256(content)
		p := program{name: filepath.Base(path), sum: hex.EncodeToString(sum[:])}
		for _, setting := range info.Settings {
			if setting.Key == "GOARCH" {
				p.arch = setting.Value
			}
		}
		// A toolchain of a distribution may add words behind the number.
		number, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
		p.modules = []module{{path: standard, version: number}}
		for _, dep := range info.Deps {
			if dep.Path == own { // of which the fleet's module is a user
				continue
			}
			m, err := linked(dep)
			if err != nil {
				return nil, fmt.Errorf("cannot list what is in %s: %w", path, err)
			}
			p.modules = append(p.modules, m)
		}
		programs = append(programs, p)
	}
	sort.Slice(programs, func(i, j int) bool {
		a, b := programs[i], programs[j]
		return a.name < b.name || a.name == b.name && a.arch < b.arch
	})
	return programs, nil
}

// linked is what stands for a module in a binary.
func linked(dep *debug.Module) (module, error) {
	if dep.Replace != nil {
		return module{}, fmt.Errorf("%s is replaced, and a release is made of published modules: take the replace directive out of go.mod", dep.Path)
	}
	return module{path: dep.Path, version: dep.Version, sum: dep.Sum}, nil
}

// union is everything that is linked into any of the programs, once, by path.
func union(programs []program) []module {
	seen := map[module]bool{}
	var all []module
	for _, p := range programs {
		for _, m := range p.modules {
			if !seen[m] {
				seen[m] = true
				all = append(all, m)
			}
		}
	}
	sort.Slice(all, func(i, j int) bool {
		return all[i].path < all[j].path || all[i].path == all[j].path && all[i].version < all[j].version
	})
	return all
}
