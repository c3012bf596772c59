// Package coder lays values out in bytes for another process of the same program:
// fields one after the other, without names or types, numbers in little endian, a
// text or a list behind its length.
package coder

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// ErrMalformed is returned for bytes that are no such value: cut short, with
// something left over, or with a count that cannot be true.
var ErrMalformed = errors.New("malformed message")

// Coder walks the fields of a value once, in one order, for both directions:
// encoding appends to b, decoding consumes it. A layout is thus written down
// in one place and the two directions cannot disagree.
type Coder struct {
	b        []byte
	decoding bool
	failed   bool
}

// Encode appends to b what fields walks.
func Encode(b []byte, fields func(*Coder)) []byte {
	c := Coder{b: b}
	fields(&c)
	return c.b
}

// Decode fills what fields walks from b, all of it.
func Decode(b []byte, fields func(*Coder)) error {
	c := Coder{b: b, decoding: true}
	fields(&c)
	if c.failed || len(c.b) != 0 {
		return ErrMalformed
	}
	return nil
}

// Fail makes the whole value malformed.
func (c *Coder) Fail() { c.failed = true }

// take consumes n bytes, or fails.
func (c *Coder) take(n int) []byte {
	if c.failed || n < 0 || n > len(c.b) {
		c.failed = true
		return nil
	}
	p := c.b[:n]
	c.b = c.b[n:]
	return p
}

// U64 codes a number, in eight bytes.
func (c *Coder) U64(p *uint64) {
	if !c.decoding {
		c.b = binary.LittleEndian.AppendUint64(c.b, *p)
		return
	}
	if raw := c.take(8); raw != nil {
		*p = binary.LittleEndian.Uint64(raw)
	}
}

// U32 codes a number, in four bytes.
func (c *Coder) U32(p *uint32) {
	if !c.decoding {
		c.b = binary.LittleEndian.AppendUint32(c.b, *p)
		return
	}
	if raw := c.take(4); raw != nil {
		*p = binary.LittleEndian.Uint32(raw)
	}
}

// I32 codes a number, in four bytes.
func (c *Coder) I32(p *int32) {
	v := uint32(*p)
	c.U32(&v)
	*p = int32(v)
}

// I64 codes a number, in eight bytes.
func (c *Coder) I64(p *int64) {
	v := uint64(*p)
	c.U64(&v)
	*p = int64(v)
}

// Int is I64 for an int.
func (c *Coder) Int(p *int) {
	v := int64(*p)
	c.I64(&v)
	*p = int(v)
}

// U8 codes a number of eight bits, in four bytes.
func (c *Coder) U8(p *uint8) {
	v := uint32(*p)
	c.U32(&v)
	if v > 0xff {
		c.failed = true
	}
	*p = uint8(v)
}

// Bool codes a truth, in four bytes.
func (c *Coder) Bool(p *bool) {
	var v uint8
	if *p {
		v = 1
	}
	c.U8(&v)
	if v > 1 {
		c.failed = true
	}
	*p = v == 1
}

// Bytes codes bytes behind their number. Decoded, they are a copy, and none are nil.
func (c *Coder) Bytes(p *[]byte) {
	n := uint32(len(*p))
	c.U32(&n)
	if !c.decoding {
		c.b = append(c.b, *p...)
		return
	}
	if raw := c.take(int(n)); raw != nil {
		*p = append([]byte(nil), raw...)
	}
}

// Str codes a text behind its length.
func (c *Coder) Str(p *string) {
	n := uint32(len(*p))
	c.U32(&n)
	if !c.decoding {
		c.b = append(c.b, *p...)
		return
	}
	if raw := c.take(int(n)); raw != nil {
		*p = string(raw)
	}
}

// atOnce is how much of a list is made before its elements were seen to be there.
const atOnce = 64

// List codes a slice by its length and then each element. What a false length can
// make us allocate is bounded by the bytes that are there: every element takes four
// of them at least.
func List[T any](c *Coder, p *[]T, element func(*T)) {
	n := uint32(len(*p))
	c.U32(&n)
	if !c.decoding {
		for i := range *p {
			element(&(*p)[i])
		}
		return
	}
	*p = nil
	if c.failed || int(n) > len(c.b)/4 {
		c.failed = true
		return
	}
	if n > 0 {
		*p = make([]T, 0, min(n, atOnce))
	}
	var blank T
	for i := range int(n) {
		*p = append(*p, blank)
		if element(&(*p)[i]); c.failed {
			return
		}
	}
}

// Map codes a map as a list of its keys and values, in the order of keys. Decoded, an
// empty one is nil.
func Map[K cmp.Ordered, V any](c *Coder, p *map[K]V, key func(*K), value func(*V)) {
	type pair struct {
		k K
		v V
	}
	var pairs []pair
	for _, k := range slices.Sorted(maps.Keys(*p)) {
		pairs = append(pairs, pair{k, (*p)[k]})
	}
	List(c, &pairs, func(one *pair) {
		key(&one.k)
		value(&one.v)
	})
	if !c.decoding {
		return
	}
	*p = nil
	if len(pairs) > 0 {
		*p = make(map[K]V, len(pairs))
	}
	for _, one := range pairs {
		(*p)[one.k] = one.v
	}
}

// Optional codes what may be nil.
func Optional[T any](c *Coder, p **T, value func(*T)) {
	there := *p != nil
	c.Bool(&there)
	if !there {
		*p = nil
		return
	}
	if *p == nil {
		*p = new(T)
	}
	value(*p)
}

// Strings codes a list of texts.
func (c *Coder) Strings(p *[]string) { List(c, p, c.Str) }

// U32s codes a list of numbers.
func (c *Coder) U32s(p *[]uint32) { List(c, p, c.U32) }

// I32s codes a list of numbers.
func (c *Coder) I32s(p *[]int32) { List(c, p, c.I32) }
