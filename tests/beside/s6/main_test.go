// Package s6 runs the commands that rlminit has of s6 beside s6's own, on services that do
// the same under each.
package s6

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"rlminit/tests/box"
	"rlminit/tests/ns"
)

func TestMain(m *testing.M) { os.Exit(ns.Main(m)) }

// long is what a condition may take on a machine with much to do.
const long = 30 * time.Second

// config has the services of the scan directory that scan makes, under the same names.
const config = `version: 1
user: 1000:1000
stop_timeout: 5s
environment: {GREETING: good day}
services:
  plain: {command: [sleep, "1000"], restart: {delay: 200ms}}
  idle: {command: [sleep, "1000"], enabled: false}
  slow:
    command: [sh, -c, "rm -f $RLMINIT_HOME/up; sleep 0.3; touch $RLMINIT_HOME/up; exec sleep 1000"]
    ready: {exec: [test, -e, "${RLMINIT_HOME}/up"]}
  once: {command: [sh, -c, "exit 3"], enabled: false, restart: {policy: "no"}}
`

// scan makes s6's service directories.
func scan(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "scan")
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	put("plain/run", "#!/bin/sh\nexec sleep 1000\n", 0o755)
	put("idle/run", "#!/bin/sh\nexec sleep 1000\n", 0o755)
	put("idle/down", "", 0o644)
	put("slow/run", "#!/bin/sh\nsleep 0.3; echo >&3; exec 3>&-; exec sleep 1000\n", 0o755)
	put("slow/notification-fd", "3\n", 0o644)
	put("once/run", "#!/bin/sh\nexit 3\n", 0o755)
	put("once/down", "", 0o644)
	cmd := exec.Command("s6-svscan", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("s6-svscanctl", "-t", dir).Run()
		if err := cmd.Wait(); err != nil {
			t.Logf("s6-svscan: %v", err)
		}
	})
	for _, name := range []string{"plain", "idle", "slow", "once"} {
		box.Eventually(t, long, "s6 supervises "+name, func() (bool, any) {
			out, err := exec.Command("s6-svok", filepath.Join(dir, name)).CombinedOutput()
			return err == nil, string(out)
		})
	}
	return dir
}
