package document

import (
	"fmt"
	"math"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"
)

// String reads any text.
func String(p *string) Setter {
	return func(n Node) {
		if s, ok := n.Text(); ok {
			*p = s
		}
	}
}

// Word reads a text that is not empty.
func Word(p *string) Setter {
	return func(n Node) {
		if s, ok := n.Text(); ok {
			if s == "" {
				n.Fault("%s is empty; write a value or leave the key out", n.shown(s))
				return
			}
			*p = s
		}
	}
}

// Optional lets an empty text be as good as none: "${X:-}" where X is not set.
func Optional(set Setter) Setter {
	return func(n Node) {
		if !n.Empty() {
			set(n)
		}
	}
}

// Path reads an absolute path and cleans it.
func Path(p *string) Setter {
	return func(n Node) {
		s, ok := n.Text()
		switch {
		case !ok:
		case !path.IsAbs(s):
			n.Fault("%s is no absolute path; write %s", n.shown(s), Absolute(s))
		case len(s) > 4095:
			n.Fault("has %d bytes; a path has at most 4095", len(s))
		default:
			*p = path.Clean(s)
		}
	}
}

// Address reads an IP address and port, or unix: and the path of a socket; example is what
// to write.
func Address(p *string, example string) Setter {
	return func(n Node) {
		s, ok := n.Text()
		if !ok || n.Describes() {
			return
		}
		at, err := netip.ParseAddrPort(s)
		switch file, is := strings.CutPrefix(s, "unix:"); {
		case is && (!path.IsAbs(file) || len(file) > 107): // sun_path less its NUL, unix(7)
			n.Fault("%s is no absolute path of at most 107 bytes; write %s", Quote(s), example)
		case !is && (err != nil || at.Port() == 0):
			n.Fault("%s is no IP address and port; write %s", Quote(s), example)
		default:
			*p = s
		}
	}
}

// Absolute is the absolute path that somebody who wrote a relative one may have
// meant: from the root, with every dot that is a part of a name.
func Absolute(relative string) string {
	full := path.Join("/", relative)
	if len(full) > len("/") && strings.HasSuffix(relative, "/") {
		full += "/"
	}
	return full
}

// Strings reads a list of texts, none of them empty. An empty list is nil.
func Strings(p *[]string) Setter { return Each(p, Word) }

// Each reads a list each element of which is set as one alone would be. An empty list is nil.
func Each(p *[]string, set func(*string) Setter) Setter {
	return List(p, func(item Node) (s string, ok bool) {
		set(&s)(item)
		return s, s != ""
	})
}

// List reads a list by its elements; ok is false of one that is a fault. An empty list is nil.
func List[T any](p *[]T, read func(item Node) (v T, ok bool)) Setter {
	return func(n Node) {
		items, ok := n.Items()
		var list []T
		for _, item := range items {
			v, good := read(item)
			list, ok = append(list, v), ok && good
		}
		if ok {
			*p = list
		}
	}
}

// Bool reads a boolean as Docker users write them: 1 true yes on, 0 false no
// off, in any case.
func Bool(p *bool) Setter {
	return func(n Node) {
		if n.tells(Scalar{Kind: KindBool}) {
			return
		}
		if s, ok := n.Text(); ok {
			if b, ok := ParseBool(s); ok {
				*p = b
			} else {
				n.Fault("%s is no boolean; write true or false", n.shown(s))
			}
		}
	}
}

// ParseBool knows 1 true yes on and 0 false no off, in any case.
func ParseBool(s string) (value, ok bool) {
	switch strings.ToLower(s) {
	case "1", "true", "yes", "on":
		return true, true
	case "0", "false", "no", "off":
		return false, true
	}
	return false, false
}

// Int reads a whole number within bounds, both included.
func Int[T ~int | ~int64](p *T, low, high T) Setter {
	return func(n Node) {
		if n.tells(Scalar{Kind: KindInt, Low: float64(low), High: float64(high)}) {
			return
		}
		if s, ok := n.Text(); ok {
			i, err := strconv.ParseInt(s, 10, 64)
			switch {
			case low == high && (err != nil || T(i) != low):
				n.Fault("%s is refused; write %d", n.shown(s), low)
			case err != nil || T(i) < low || T(i) > high:
				n.Fault("%s is refused; write a whole number from %d to %d", n.shown(s), low, high)
			default:
				*p = T(i)
			}
		}
	}
}

// Float reads a number within bounds, both included.
func Float(p *float64, low, high float64) Setter {
	return func(n Node) {
		if n.tells(Scalar{Kind: KindFloat, Low: low, High: high}) {
			return
		}
		if s, ok := n.Text(); ok {
			f, err := strconv.ParseFloat(s, 64)
			switch {
			case err != nil || math.IsNaN(f) || f < low || f > high:
				n.Fault("%s is refused; write a number from %v to %v", n.shown(s), low, high)
			default:
				*p = f
			}
		}
	}
}

// MaxDuration bounds every duration, so that sums of them never overflow.
const MaxDuration = 10 * 365 * 24 * time.Hour

// Duration reads a duration of at least low, as Go writes them: 9s, 1m30s,
// 100ms. A bare number has no unit, and is refused, but for 0.
func Duration(p *time.Duration, low time.Duration) Setter {
	return func(n Node) {
		if n.tells(Scalar{Kind: KindDuration}) {
			return
		}
		if s, ok := n.Text(); ok {
			d, err := ParseDuration(s)
			switch {
			case err != nil:
				n.Fault("%s %v", n.shown(s), err)
			case d < low:
				n.Fault("%s is too short; write %v or more", n.shown(s), low)
			default:
				*p = d
			}
		}
	}
}

// ParseDuration reads 9s, 1m30s, 100ms or 0. The error completes a sentence
// that begins with the text.
func ParseDuration(s string) (time.Duration, error) {
	if digits := strings.TrimLeft(s, "+-"); strings.Trim(digits, "0123456789.") == "" && strings.Trim(digits, "0.") != "" {
		return 0, fmt.Errorf("has no unit; write %ss", digits)
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil && strings.HasSuffix(s, "d"):
		if days, err := strconv.Atoi(strings.TrimSuffix(s, "d")); err == nil && days > 0 && days <= 3650 {
			return 0, fmt.Errorf("is no duration; write %dh", 24*days)
		}
		return 0, fmt.Errorf("is no duration; write 9s, 1m30s or 100ms")
	case err != nil:
		return 0, fmt.Errorf("is no duration; write 9s, 1m30s or 100ms")
	case d < 0:
		return 0, fmt.Errorf("is negative; write %s", strings.TrimLeft(s, "-"))
	case d > MaxDuration:
		return 0, fmt.Errorf("is too long; write at most %dh", MaxDuration/time.Hour)
	}
	return d, nil
}

// Size reads a number of bytes of at least low: 1048576, 64KiB, 1MB, 1.5GiB.
func Size(p *int64, low int64) Setter {
	return func(n Node) {
		if n.tells(Scalar{Kind: KindSize, Low: float64(low)}) {
			return
		}
		if s, ok := n.Text(); ok {
			size, err := ParseSize(s)
			switch {
			case err != nil:
				n.Fault("%s %v", n.shown(s), err)
			case size < low:
				n.Fault("%s is too small; write %d or more", n.shown(s), low)
			default:
				*p = size
			}
		}
	}
}

var units = map[string]float64{
	"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// ParseSize reads a number of bytes: with no unit, B, kB, MB, GB, TB (powers of
// 1000) or KiB, MiB, GiB, TiB (powers of 1024), in any case. The error
// completes a sentence that begins with the text.
func ParseSize(s string) (int64, error) {
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.ToLower(strings.TrimSpace(s[len(number):]))
	scale, known := units[unit]
	f, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || strings.ContainsAny(number, "eExXpP_nN"):
		return 0, fmt.Errorf("is no size; write 1MB, 64KiB or a number of bytes")
	case f < 0:
		return 0, fmt.Errorf("is negative; write %s", strings.TrimPrefix(s, "-"))
	case !known && len(unit) == 1 && strings.Contains("kmgt", unit):
		u := strings.ToUpper(unit)
		return 0, fmt.Errorf("is ambiguous; write %s%siB (powers of 1024) or %s%sB (of 1000)", number, u, number, u)
	case !known:
		return 0, fmt.Errorf("has an unknown unit; write 1MB, 64KiB or a number of bytes")
	case f*scale >= 1<<60:
		return 0, fmt.Errorf("is too large; write less than %d", int64(1)<<60)
	case f*scale != math.Trunc(f*scale):
		return 0, fmt.Errorf("is no whole number of bytes")
	}
	if i, err := strconv.ParseInt(number, 10, 64); err == nil {
		return i * int64(scale), nil // exact, where a float64 is not
	}
	return int64(f * scale), nil
}

// OneOf reads one of a few words.
func OneOf[T ~string](p *T, words ...T) Setter {
	return func(n Node) {
		if n.shape != nil {
			form := Scalar{Kind: KindOneOf}
			for _, w := range words {
				form.Words = append(form.Words, string(w))
			}
			n.tells(form)
			return
		}
		s, ok := n.Text()
		if !ok {
			return
		}
		names := make([]string, len(words))
		for i, w := range words {
			names[i] = string(w)
			if s == names[i] {
				*p = w
				return
			}
		}
		if near := DidYouMean(s, names); near != "" {
			n.Fault("%s is refused%s", n.shown(s), near)
			return
		}
		n.Fault("%s is refused; write %s", n.shown(s), Or(names))
	}
}

// Or is "a", "a or b", "a, b or c".
func Or(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
