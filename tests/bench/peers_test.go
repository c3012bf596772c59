package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Scripts in the place of Pebble and supervisord-go: they read the files that are
// written for those, and start what these name.
const (
	fakePebble = `#!/bin/sh
[ "$1" = run ] && grep -q "^tmpfs /run " /proc/mounts || exit 1
sed -n 's/^  s[0-9]*: {override: replace, startup: enabled, command: \(.*\)}$/\1/p' "$PEBBLE"/layers/*.yaml | while read -r command; do
	while :; do $command; done &
done
`
	fakeSupervisord = `#!/bin/sh
[ "$1" = -c ] && grep -qx nodaemon=true "$2" || exit 1
sed -n 's/^command=//p' "$2" | while read -r command; do
	while :; do $command; done &
done
`
	fakeEnd = "trap 'exit 0' TERM\nwhile :; do sleep 0.1; done\n"
)

func TestPeersAreMeasured(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	var err error
	if programs, err = compile(); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(programs)
	for name, peer := range map[string][2]string{"Pebble": {"PEER_PEBBLE", fakePebble}, "supervisord-go": {"PEER_SUPERVISORD", fakeSupervisord}} {
		path := filepath.Join(programs, name)
		t.Setenv(peer[0], path)
		if err := checkPeers(); err == nil {
			t.Errorf("%s is not there, and that is not said", peer[0])
		}
		if err := os.WriteFile(path, []byte(peer[1]+fakeEnd), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := checkPeers(); err != nil {
			t.Error(err)
		}
		all := supervisors()
		i := slices.IndexFunc(all, func(s supervisor) bool { return s.name == name })
		if i < 0 {
			t.Fatalf("%s is not measured", name)
		}
		sc, err := all[i].stage(3)
		if err != nil {
			t.Fatal(err)
		}
		sc.end()
	}
}
