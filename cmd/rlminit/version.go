package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version is set by the linker: -ldflags "-X main.version=1.2.3".
var version string

// versionParts is versionLine for programs.
type versionParts struct {
	Version string  `json:"version"`
	Commit  *string `json:"commit"` // null: not known
	Go      string  `json:"go"`
	OS      string  `json:"os"`
	Arch    string  `json:"arch"`
}

func versionVerb(t *terminal) *cobra.Command {
	return formatted(t, forPrograms(t, &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			if t.json {
				v, commit := built()
				parts := versionParts{Version: v, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
				if commit != "" {
					parts.Commit = &commit
				}
				return t.printJSON(parts)
			}
			t.printf("%s\n", versionLine())
			return nil
		},
	}, "write a JSON object"))
}

// versionLine is what `version` prints: the version, the commit where it is
// known, and what it was built with and for.
func versionLine() string {
	v, commit := built()
	line := fmt.Sprintf("rlminit %s (", v)
	if commit != "" {
		line += "commit " + commit + ", "
	}
	return line + fmt.Sprintf("%s, %s/%s)", runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// initVersionLine is what --version prints. dockerd asks its --init-path for it,
// and knows "NAME - git.COMMIT", where the commit holds no dot.
func initVersionLine() string {
	v, commit := built()
	if commit == "" {
		commit = strings.ReplaceAll(v, ".", "-")
	}
	return versionLine() + " - git." + commit
}

// built is the version, and the commit where it is known.
func built() (v, commit string) {
	v = version
	if info, ok := debug.ReadBuildInfo(); ok {
		if v == "" && info.Main.Version != "" && info.Main.Version != "(devel)" {
			v = info.Main.Version
		}
		commit = commitOf(info.Settings)
	}
	if v == "" {
		v = "devel"
	}
	return v, commit
}

func commitOf(settings []debug.BuildSetting) string {
	commit, changed := "", ""
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			if s.Value == "true" {
				changed = "+changes"
			}
		}
	}
	if commit == "" {
		return ""
	}
	return commit + changed
}
