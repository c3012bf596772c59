package ns

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// agentProgram is the application of the documents' configurations.
const agentProgram = `#!/bin/sh
case ${1:-} in
migrate) echo migrated >"$RLMINIT_HOME/version" ;;
gateway) exec gateway --profile "$PROFILE" --port "$PORT" ;;
web) exec gateway --profile web ;;
*) echo "agent got $*" ;;
esac
`

// configurations are those among the code blocks of a page, by their first key.
func configurations(t *testing.T, page string) map[string]string {
	t.Helper()
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindAllString(string(content), -1) {
		block := regexp.MustCompile(`(?m)^    `).ReplaceAllString(m, "")
		if key := regexp.MustCompile(`^(main|gateways?|services|apply):\n`).FindStringSubmatch(block); key != nil {
			name := key[1]
			if name == "gateway" && blocks[name] != "" { // there can be but one
				name = "another gateway"
			}
			blocks[name] += block
		}
	}
	return blocks
}

// Each configuration in the documents does what the text around it says.
func TestDocumentedConfigurations(t *testing.T) {
	if err := os.WriteFile(filepath.Join(programs, "agent"), []byte(agentProgram), 0o755); err != nil {
		t.Fatal(err)
	}
	const head = "version: 1\nuser: \"1000:1000\"\n"
	whole := func(t *testing.T, page string, keys ...string) string {
		t.Helper()
		blocks, text := configurations(t, page), head
		for _, key := range keys {
			if blocks[key] == "" {
				t.Fatalf("%s has no configuration of %s", page, key)
			}
			text += blocks[key]
		}
		if len(blocks) != len(keys) {
			t.Errorf("%s has %d configurations, and %d are tried", page, len(blocks), len(keys))
		}
		return text
	}
	t.Run("configuration.md", func(t *testing.T) {
		t.Parallel()
		b := Start(t, box.Spec{Config: whole(t, "configuration.md", "main", "gateway", "gateways", "services"), Main: []string{"gateway", "run"}})
		b.Await("gateway-default", "running")
		b.Await("migrate", "exited")
		b.AwaitThat("web", "misses its secret", func(s control.Service) bool {
			return s.Reason != nil && strings.Contains(*s.Reason, "/run/secrets/token")
		})
		b.Shell(box.Root, "mkdir -p /run/secrets; echo secret >/run/secrets/token; chmod 644 /run/secrets/token")
		b.Must("start", "web")
		b.Must("profile", "create", "alice")
		if r := b.Run("exec", "--profile", "web", "--", "sh", "-c", "echo $TOKEN"); r.Out != "secret\n" {
			t.Errorf("%s", r)
		}
		b.Await("gateway-alice", "running")
	})
	for args, want := range map[string]string{"chat a": "agent got chat a\n", "doctor": "agent got doctor\n", "echo x": "x\n"} {
		t.Run("configuration.md, "+args, func(t *testing.T) {
			t.Parallel()
			b := Start(t, box.Spec{Config: whole(t, "configuration.md", "main", "gateway", "gateways", "services"), Main: strings.Fields(args)})
			if code, err := b.Ended(answerTimeout); err != nil || code != 0 || !strings.Contains(b.Printed(), want) {
				t.Errorf("exit code %d, %v, printed %q", code, err, b.Printed())
			}
		})
	}
	walls := configurations(t, "isolation.md")
	if len(walls) != 2 {
		t.Errorf("isolation.md has %d configurations, and 2 are tried", len(walls))
	}
	for name, level := range map[string]string{"gateway": "    level: profile\n", "another gateway": "  isolation: profile\n"} {
		t.Run("isolation.md, "+name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(walls[name], level) {
				t.Fatalf("no level in\n%s", walls[name])
			}
			// The programs of the tests are not in the image.
			opened := "  isolation:\n    level: profile\n    exec: [" + programs + "]\n"
			if name == "gateway" {
				opened = strings.TrimPrefix(opened, "  isolation:\n")
			}
			b := Start(t, box.Spec{Config: head + strings.Replace(walls[name], level, opened, 1)})
			b.Must("profile", "create", "alice")
			b.Await("gateway-alice", "running")
		})
	}
	t.Run("plan.md", func(t *testing.T) {
		t.Parallel()
		gateway := "gateway: {command: [agent, gateway]}\n"
		b := Start(t, box.Spec{Config: whole(t, "plan.md", "apply") + gateway})
		b.Write(box.Service, b.Home()+"/set.yaml", "version: 1\nprofiles: {other: {}}\n")
		if r := b.Run("plan", "-f", b.Home()+"/set.yaml", "--out", b.Home()+"/p.json"); r.Code != 0 {
			t.Fatalf("%s", r)
		}
		if r := b.Run("apply", b.Home()+"/p.json", "--approve", "x"); r.Code != 10 && r.Code != 11 {
			t.Errorf("uid 1000 may only what is team's: %s", r)
		}
	})
}
