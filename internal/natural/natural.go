// Package natural orders names as people do: chat-2 comes before chat-10.
package natural

import (
	"cmp"
	"fmt"
	"strings"
)

// Compare orders two names: runs of digits by the number that they are, all else by bytes. Only
// equal names are equal.
func Compare(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		p, q := digits(x), digits(y)
		if p == 0 || q == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		m, n := strings.TrimLeft(x[:p], "0"), strings.TrimLeft(y[:q], "0")
		if c := cmp.Or(cmp.Compare(len(m), len(n)), strings.Compare(m, n)); c != 0 {
			return c
		}
		x, y = x[p:], y[q:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

// Key is a text by which names are ordered as by Compare, for those who can only compare texts:
// before each number stands how many digits it has, of at most 99.
func Key(name string) string {
	var b strings.Builder
	for rest := name; rest != ""; {
		n := digits(rest)
		if n == 0 {
			b.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		number := strings.TrimLeft(rest[:n], "0")
		fmt.Fprintf(&b, "%02d%s", len(number), number)
		rest = rest[n:]
	}
	return b.String() + " " + name
}

// digits is how many digits a text begins with.
func digits(s string) (n int) {
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
