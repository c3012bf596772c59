package service

import (
	"net"
	"strings"

	"rlminit/internal/document"
)

// Forward says where else each line of a log goes.
type Forward struct {
	To     string // stdout, unix:PATH or tcp:HOST:PORT
	Format ForwardFormat
}

// ForwardStdout is the container's stdout, in place of the tee.
const ForwardStdout = "stdout"

// ForwardFormat is how a line is sent.
type ForwardFormat string

// The formats.
const (
	ForwardJSON    ForwardFormat = "json"    // an object a line
	ForwardRFC5424 ForwardFormat = "rfc5424" // syslog's
)

// forward reads where lines are sent, anew.
func forward(p **Forward) document.Setter {
	return func(n document.Node) {
		if n.IsScalar() {
			n.Fault("%s is no mapping; write {to: %s}", document.Quote(n.Raw()), n.Raw())
			return
		}
		f := Forward{Format: ForwardJSON}
		document.Fields{
			"to":     destination(&f.To),
			"format": document.OneOf(&f.Format, ForwardJSON, ForwardRFC5424),
		}.Read(n)
		n.Needs("to", "{to: tcp:127.0.0.1:6514}, unix:/dev/log or stdout")
		if f.To != "" {
			*p = &f
		}
	}
}

func destination(p *string) document.Setter {
	const write = "write stdout, unix:/run/vector.sock or tcp:127.0.0.1:6514"
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		network, address, _ := strings.Cut(s, ":")
		switch {
		case s == ForwardStdout:
		case network == "unix" && strings.HasPrefix(address, "/"):
			if len(address) > maxUnixPath {
				n.Fault("the path has %d bytes; a socket's has %d at most", len(address), maxUnixPath)
				return
			}
		case network == "tcp":
			host, port, err := net.SplitHostPort(address)
			if _, known := net.LookupPort("tcp", port); err != nil || host == "" || port == "" || known != nil {
				n.Fault("%s is no HOST:PORT; %s", document.Quote(address), write)
				return
			}
		default:
			n.Fault("%s is no destination; %s", document.Quote(s), write)
			return
		}
		*p = s
	}
}
