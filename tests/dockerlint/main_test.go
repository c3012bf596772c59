package main

import (
	"os/exec"
	"strings"
	"testing"
)

// Each rule finds what it is for, at its line, and nothing in a good file.
func TestCheck(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("no shellcheck")
	}
	const good = "ARG BASE=debian:bookworm-slim\nFROM golang:1.26 AS build\nRUN go build -o /out . \\\n && ls /out\nFROM ${BASE} AS demo\nCOPY --from=build /out/a /bin/\nHEALTHCHECK CMD [\"/bin/a\"]\nENTRYPOINT [\"/bin/a\", \"run\"]\n"
	if f := check([]byte(good)); len(f) > 0 {
		t.Errorf("a good file: %q", f)
	}
	for line, want := range map[string]string{
		"MAINTAINER me":                  "MaintainerDeprecated",
		"COPY --from=buidl /out/a /bin/": "buidl is neither a stage above",
		"COPY a b /bin":                  "write /bin/",
		"ADD a.tar /":                    "write COPY",
		"WORKDIR data":                   "absolute path",
		"CMD a run":                      "CMD is run by a shell",
		"ENTRYPOINT a run":               "ENTRYPOINT is run by a shell",
		"HEALTHCHECK CMD a health":       "HEALTHCHECK CMD is run by a shell",
		"USER root":                      "USER root",
		"FROM debian:12 AS Other":        "StageNameCasing",
		"RUN sudo true":                  "sudo",
		"RUN cd $dir && rm -r *":         "SC2086",
		"RUN if true; then":              "SC1",
		"RUN apt-get install -y bash":    "--no-install-recommends",
		"FROM debian":                    "with a tag",
		"FROM debian:latest":             "name a version",
		"FROM ${NONE}":                   "has no default",
		"FROM debian:12 AS demo":         "demo already",
		"FROM debian:12 as other":        "FromAsCasing",
		"COPPY a b":                      "unknown instruction",
		"COPY a":                         "requires at least two arguments",
	} {
		f := strings.Join(check([]byte(good+line+"\n")), "\n")
		if !strings.Contains(f, want) {
			t.Errorf("%s: %q does not say %q", line, f, want)
		}
	}
}

// The Dockerfile of a page is its first indented block that begins with FROM, and its
// faults are at the page's lines.
func TestBlock(t *testing.T) {
	text := block([]byte("# A page\n\n    make image\n\n    FROM debian\n    CMD a\n\nText\n\n    FROM other:1\n"))
	if f := strings.Join(check(text), "\n"); !strings.Contains(f, "5: debian") || !strings.Contains(f, "6: CMD") || strings.Contains(f, "other") {
		t.Errorf("%q: %s", text, f)
	}
	if text := block([]byte("nothing here\n")); text != nil {
		t.Errorf("%q of a page without one", text)
	}
}
