package spawn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rlminit/config"
	"rlminit/service"
	"rlminit/supervise/settings"
	"rlminit/wire"
)

// The page has its own user, and its program is root's alone.
func TestPageIsRootsProgram(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: a program that root owns cannot be made")
	}
	c, faults := config.Parse(config.Bundle{Path: "/etc/rlminit.yaml", Files: []config.File{{Name: "rlminit.yaml", Data: []byte("version: 1\npage: {listen: 'unix:/p'}\n")}}}, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	policy := &wire.Policy{User: wire.Identity{UID: 1000, GID: 1000}}
	policy.Profiles.Page = 49998
	p := &Preparer{Policy: policy, Settings: settings.Fixed(c, policy)}
	d := new(*c.Services[config.PageService])
	uid, _, err := p.OwnUser(d)
	id := p.Identity(uid, d)
	if err != nil || uid != 49998 || id.UID != 49998 || id.GID != 49998 || len(id.Groups) != 0 {
		t.Errorf("it is %+v, %v", id, err)
	}
	if p.IsPage(service.Default("web")) {
		t.Error("another service is taken for it")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, config.PageProgram)
	d.Command = []string{program}
	refused := func(want string) {
		t.Helper()
		if err := p.checkPage(d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	refused("there is no " + program + ": the page is a program of its own, which belongs beside rlminit")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.checkPage(d); err != nil {
		t.Error(err)
	}
	for path, change := range map[string]func(string) error{
		program: func(path string) error { return os.Chown(path, 1000, 0) },
		dir:     func(path string) error { return os.Chmod(path, 0o777) },
	} {
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		refused("cannot trust " + path)
		if err := os.Chown(path, 0, 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
