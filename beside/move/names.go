package move

import (
	"fmt"
	"strings"

	"rlminit/service"
)

// maxName is how long a service's name may be, in bytes.
const maxName = 64

// names are those that services of the output have.
type names struct{ taken map[string]bool }

// of is the name of a service that the source calls so, and, if that is another, why.
func (n *names) of(source string) (name, why string) {
	if n.taken == nil {
		n.taken = map[string]bool{}
	}
	name = allowed(source)
	if name != source {
		why = fmt.Sprintf("it is called %s here: a name has 1 to %d of a-z, 0-9, _ and -, and some are reserved; use the new one in scripts", name, maxName)
	}
	for i := 2; n.taken[name]; i++ {
		suffix := fmt.Sprintf("-%d", i)
		name = strings.TrimRight(allowed(source)[:min(maxName-len(suffix), len(allowed(source)))], "-_") + suffix
		why = fmt.Sprintf("it is called %s here, for another service has its name; use the new one in scripts", name)
	}
	n.taken[name] = true
	return name, why
}

// allowed is the name nearest to one that rlminit allows.
func allowed(source string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(source) {
		if b.Len() >= maxName {
			break
		}
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '_', r == '-':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	name := strings.TrimLeft(b.String(), "-_")
	if name == "" {
		name = "unnamed"
	}
	if service.Reserved(name) || strings.HasPrefix(name, service.GatewayPrefix) {
		name = ("service-" + name)[:min(len("service-"+name), maxName)]
	}
	return name
}
