package wire

import (
	"encoding/binary"
	"errors"
)

// ErrMalformed is returned for bytes that are no message: cut short, with
// something left over, or with a count that cannot be true.
var ErrMalformed = errors.New("malformed message")

// coder walks the fields of a message once, in one order, for both directions:
// encoding appends to b, decoding consumes it. A layout is thus written down
// in one place and the two directions cannot disagree.
type coder struct {
	b        []byte
	decoding bool
	failed   bool
}

// take consumes n bytes, or fails the whole message.
func (c *coder) take(n int) []byte {
	if c.failed || n < 0 || n > len(c.b) {
		c.failed = true
		return nil
	}
	p := c.b[:n]
	c.b = c.b[n:]
	return p
}

func (c *coder) u64(p *uint64) {
	if !c.decoding {
		c.b = binary.LittleEndian.AppendUint64(c.b, *p)
		return
	}
	if raw := c.take(8); raw != nil {
		*p = binary.LittleEndian.Uint64(raw)
	}
}

func (c *coder) u32(p *uint32) {
	if !c.decoding {
		c.b = binary.LittleEndian.AppendUint32(c.b, *p)
		return
	}
	if raw := c.take(4); raw != nil {
		*p = binary.LittleEndian.Uint32(raw)
	}
}

func (c *coder) i32(p *int32) {
	v := uint32(*p)
	c.u32(&v)
	*p = int32(v)
}

func (c *coder) i64(p *int64) {
	v := uint64(*p)
	c.u64(&v)
	*p = int64(v)
}

func (c *coder) bool(p *bool) {
	var v uint32
	if *p {
		v = 1
	}
	c.u32(&v)
	if v > 1 {
		c.failed = true
	}
	*p = v == 1
}

func (c *coder) bytes(p *[]byte) {
	n := uint32(len(*p))
	c.u32(&n)
	if !c.decoding {
		c.b = append(c.b, *p...)
		return
	}
	if raw := c.take(int(n)); raw != nil {
		*p = append([]byte(nil), raw...)
	}
}

func (c *coder) str(p *string) {
	n := uint32(len(*p))
	c.u32(&n)
	if !c.decoding {
		c.b = append(c.b, *p...)
		return
	}
	if raw := c.take(int(n)); raw != nil {
		*p = string(raw)
	}
}

// list codes a slice by its length and then each element. Every element takes
// at least four bytes, which bounds what a false length can make us allocate.
func list[T any](c *coder, p *[]T, element func(*T)) {
	n := uint32(len(*p))
	c.u32(&n)
	if c.decoding {
		if c.failed || int(n) > len(c.b)/4 {
			c.failed = true
			return
		}
		*p = nil
		if n > 0 {
			*p = make([]T, n)
		}
	}
	for i := range *p {
		element(&(*p)[i])
	}
}

func (c *coder) strings(p *[]string) { list(c, p, c.str) }
func (c *coder) u32s(p *[]uint32)    { list(c, p, c.u32) }
func (c *coder) i32s(p *[]int32)     { list(c, p, c.i32) }

// encode appends the fields of m to b.
func encode(b []byte, m interface{ fields(*coder) }) []byte {
	c := coder{b: b}
	m.fields(&c)
	return c.b
}

// decode fills m from b, all of it.
func decode(b []byte, m interface{ fields(*coder) }) error {
	c := coder{b: b, decoding: true}
	m.fields(&c)
	if c.failed || len(c.b) != 0 {
		return ErrMalformed
	}
	return nil
}
