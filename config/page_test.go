package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rlminit/service"
	"rlminit/wire"
)

// The section makes a service, as if it stood among the others.
func TestPage(t *testing.T) {
	c := parsed(t, vars{"RLMINIT_RUNTIME_DIR": "/run/box"}, `version: 1
page:
  listen: "[::]:9118"
  token: {file: /etc/page.token}
  allow: approve
  tls: {cert: /etc/page.crt, key: /etc/page.key}
  behind: proxy
  hosts: [Box.example.org, 10.0.0.5]
`)
	d := c.Services[PageService]
	if d == nil || filepath.Base(d.Command[0]) != PageProgram || !filepath.IsAbs(d.Command[0]) || d.Control != service.ControlApprove || d.User != "" ||
		!d.Ready.Notify || d.Restart.Policy != service.RestartAlways || d.Limits.Memory != 128<<20 || !d.Enabled || !slices.Equal(d.Sockets, []service.Socket{{Network: "tcp", Address: "[::]:9118", Name: "page"}}) {
		t.Fatalf("%+v", d)
	}
	if want := map[string]string{"token": "/etc/page.token", "cert": "/etc/page.crt", "key": "/etc/page.key"}; !maps.Equal(d.Secrets, want) {
		t.Errorf("secrets %v", d.Secrets)
	}
	for name, want := range map[string]string{
		"RLMINIT_PAGE_LISTEN": "[::]:9118", "RLMINIT_PAGE_TOKENS": "token", "RLMINIT_PAGE_CERT": "cert", "RLMINIT_PAGE_KEY": "key", "RLMINIT_PAGE_ALLOW": "approve",
		"RLMINIT_PAGE_BEHIND": "proxy", "RLMINIT_PAGE_HOSTS": "box.example.org,10.0.0.5", "RLMINIT_RUNTIME_DIR": "/run/box",
	} {
		if got := d.Environment[name].Text; got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
	if origins := c.Bundle().Origins(PageService); len(origins) != 1 || origins[0].Lines.First != 2 {
		t.Errorf("it stands at %+v", origins)
	}
	d = parsed(t, nil, "version: 1\npage: {listen: \"unix:/data/page/sock\"}\n").Services[PageService]
	if d.Control != service.ControlRead || len(d.Secrets) != 0 || d.Environment["RLMINIT_PAGE_TOKENS"].Text != "" || len(d.Sockets) != 0 {
		t.Errorf("behind a socket: %+v", d)
	}
	if c := parsed(t, nil, "version: 1\nservices: {page: {command: [mine]}}\n"); c.Page != nil || c.Services[PageService].Command[0] != "mine" {
		t.Errorf("without the section the name is free: %+v", c.Services)
	}
}

// What could let somebody in who should not be is refused, with what to write.
func TestPageFaults(t *testing.T) {
	for text, want := range map[string]string{
		"page: {}":                                                     "page: listen is missing; write listen: 127.0.0.1:9118",
		"page: {listen: 127.0.0.1:9118}":                               "page: token is missing: without one, every service in the container could use the page at 127.0.0.1:9118; write token: {file: /etc/rlminit/page.token}, or listen on unix:PATH",
		"page: {listen: 127.0.0.1:9118, token: {}}":                    "page: token is missing: without one, every service in the container could use the page at 127.0.0.1:9118; write token: {file: /etc/rlminit/page.token}, or listen on unix:PATH",
		"page: {listen: 127.0.0.1:9118, token: {file: token}}":         `page.token.file: "token" is no absolute path; write /token`,
		"page: {listen: 0.0.0.0:9118, token: {file: /t}}":              "page.listen: 0.0.0.0:9118 can be reached from elsewhere, and the token would go there in the clear; add tls: {cert: PATH, key: PATH}, or behind: proxy if one with TLS is before it",
		"page: {listen: localhost, token: {file: /t}}":                 `page.listen: "localhost" is no IP address and port; write 127.0.0.1:9118, or unix:/page/page.sock`,
		"page: {listen: 127.0.0.1:0, token: {file: /t}}":               `page.listen: "127.0.0.1:0" is no IP address and port; write 127.0.0.1:9118, or unix:/page/page.sock`,
		"page: {listen: 'unix:page.sock'}":                             `page.listen: "unix:page.sock" is no absolute path of at most 107 bytes; write 127.0.0.1:9118, or unix:/page/page.sock`,
		"page: {listen: 'unix:/p', allow: all}":                        `page.allow: "all" is refused; write read, operate or approve`,
		"page: {listen: 'unix:/p', behind: nginx}":                     `page.behind: "nginx" is refused; write proxy`,
		"page: {listen: 'unix:/p', tls: {cert: /c}}":                   "page.tls: key is missing; write tls: {cert: /etc/rlminit/page.crt, key: /etc/rlminit/page.key}",
		"page: {listen: 'unix:/p', hosts: ['https://box']}":            `page.hosts[0]: "https://box" is no name of a host; write it as in a URL, without scheme, port and path, such as box.example.org`,
		"page: {listen: 'unix:/p', user: 0}":                           "page.user: \"0\" is refused; write a whole number from 1 to 4294967294",
		"page: {listen: 'unix:/p'}\nservices:\n  page: {command: [x]}": "services.page: the name page is taken by the section page, at line 2; give this service another one",
		"page: {listen: 'unix:/p', tokens: x}":                         `page: unknown key "tokens"; did you mean "token"?`,
		"page: {listen: 'unix:/" + strings.Repeat("p", 107) + "'}":     "page.listen: \"unix:/" + strings.Repeat("p", 54) + "…\" is no absolute path of at most 107 bytes; write 127.0.0.1:9118, or unix:/page/page.sock",
	} {
		_, faults := Parse(bundle("version: 1\n"+text+"\n"), nil)
		if len(faults) != 1 {
			t.Errorf("%s: %v", text, faults)
			continue
		}
		if got := faults[0].Error(); !strings.HasPrefix(got, "rlminit.yaml:") || !strings.HasSuffix(got, ": "+want) {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

// The page has a uid that nobody else has, also where only a reload brings it; where it
// cannot be had, that is said, if there is a page.
func TestPageUser(t *testing.T) {
	const section = "page: {listen: 'unix:/p'}\n"
	for name, c := range map[string]struct {
		text string
		uid  uint32
		note string
		err  string
	}{
		"by itself":         {section, 49998, "", ""},
		"named":             {"page: {listen: 'unix:/p', user: 777}\n", 777, "", ""},
		"without a section": {"", 49998, "", ""},
		"of the supervisor": {"page: {listen: 'unix:/p', user: 49999}\n", 0, "", "page.user 49999 is the supervisor's; name a uid that nothing else has"},
		"of a profile":      {"gateway: {command: [x]}\npage: {listen: 'unix:/p', user: 40001}\n", 0, "", "page.user 40001 is among profile_users"},
		"of a tag":          {"page: {listen: 'unix:/p', user: 50001}\n", 0, "", "page.user 50001 is among tags"},
		"of the services":   {"page: {listen: 'unix:/p', user: 1000}\n", 0, "", "page.user 1000 is who the services are"},
		"taken by default":  {"gateway: {command: [x]}\nprofile_users: 49000-49998\n", 0, "", ""},
		"no other uid":      {section, 0, "the page has the uid of the services, 1000, and is told from them by its tag alone: the supervisor has none of its own either", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := dockerRoot(vars{})
			h.Capabilities = ^uint64(0)
			h.Separable = func(string, wire.Identity, wire.Identity) (bool, string) { return false, "" }
			if c.note != "" {
				h.Separable = func(string, wire.Identity, wire.Identity) (bool, string) { return false, "the moon is full" }
			}
			got, err := Compile(parsed(t, nil, "version: 1\nuser: app\n"+c.text), h, nil)
			if c.err != "" || err != nil {
				if c.err == "" || err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("%v, want %q", err, c.err)
				}
				return
			}
			if got.Policy.Profiles.Page != c.uid || c.note != "" && !slices.Contains(got.Notes, c.note) {
				t.Errorf("uid %d, said %q", got.Policy.Profiles.Page, got.Notes)
			}
			if len(got.Policy.Privileged) > 0 {
				t.Errorf("tier 1 holds %+v", got.Policy.Privileged)
			}
		})
	}
}
