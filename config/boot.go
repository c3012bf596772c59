package config

import (
	"path"
	"strconv"
	"strings"
	"time"

	"rlminit/internal/document"
	"rlminit/service"
)

// defaultStepTimeout ends a boot step that hangs.
const defaultStepTimeout = 5 * time.Minute

// own reads the paths whose owner is put right, or {path, deep}.
func (p *parser) own(n document.Node) {
	for _, item := range n.Elements() {
		var o Owned
		if item.IsMapping() {
			document.Fields{"path": p.below(&o.Path), "deep": document.Bool(&o.Deep)}.Read(item)
			item.Needs("path", "{path: ., deep: true}")
		} else {
			p.below(&o.Path)(item)
		}
		p.config.Own = append(p.config.Own, o)
	}
}

// dirs reads paths, or {path, mode, owner}.
func (p *parser) dirs(n document.Node) {
	for _, item := range n.Elements() {
		d := Dir{Mode: 0o750}
		if item.IsMapping() {
			document.Fields{"path": p.below(&d.Path), "mode": mode(&d.Mode), "owner": service.User(&d.Owner)}.Read(item)
			item.Needs("path", `{path: logs, mode: "0750"}`)
		} else {
			p.below(&d.Path)(item)
		}
		p.config.Dirs = append(p.config.Dirs, d)
	}
}

func (p *parser) seed(n document.Node) {
	for _, item := range n.Elements() {
		var s Seed
		document.Fields{"from": document.Path(&s.From), "to": p.below(&s.To), "mode": mode(&s.Mode)}.Read(item)
		if item.IsMapping() && (item.Get("from").Absent() || item.Get("to").Absent()) {
			item.Fault("from and to are both needed; write {from: /usr/share/app/config, to: config}")
		}
		p.config.Seed = append(p.config.Seed, s)
	}
}

func (p *parser) boot(n document.Node) {
	for i, item := range n.Elements() {
		d := service.Default("boot")
		s := Step{Name: "boot[" + strconv.Itoa(i) + "]", Timeout: defaultStepTimeout}
		onFailure := "stop"
		fields := d.Fields()
		document.Fields{
			"name":        document.Word(&s.Name),
			"command":     fields["command"],
			"environment": fields["environment"],
			"working_dir": fields["working_dir"],
			"timeout":     document.Duration(&s.Timeout, time.Millisecond),
			"on_failure":  document.OneOf(&onFailure, "stop", "continue"),
		}.Read(item)
		item.Needs("command", "command: [prog, arg]")
		s.Command, s.Environment, s.WorkingDir = d.Command, d.Environment, d.WorkingDir
		s.Continue = onFailure == "continue"
		p.config.Boot = append(p.config.Boot, s)
	}
}

// below reads a path on the volume: relative to it, or absolute.
func (p *parser) below(target *string) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		home := p.config.Home
		full := s
		if !path.IsAbs(s) {
			full = path.Join(home, s)
		}
		full = path.Clean(full)
		climbs := strings.Contains("/"+s+"/", "/../")
		if s == "" || climbs || full != home && !strings.HasPrefix(full, home+"/") {
			n.Fault("%s is not on the volume; write a path below %s", document.Quote(s), home)
			return
		}
		*target = full
	}
}

// mode reads permission bits in octal.
func mode(p *uint32) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		bits, err := strconv.ParseUint(strings.TrimPrefix(s, "0o"), 8, 32)
		if err != nil || bits > 0o777 || bits == 0 {
			n.Fault(`%s is no mode; write octal digits such as "0640"`, document.Quote(s))
			return
		}
		*p = uint32(bits)
	}
}
