package durable

import (
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/coder"
)

// Fields lays a request out for another process. What steps have for steps stays here:
// there is none.
func (r *Request) Fields(c *coder.Coder) {
	r.step(c)
	coder.List(c, (*[]Request)(&r.Steps), func(step *Request) { step.step(c) })
}

func (r *Request) step(c *coder.Coder) {
	c.U8((*uint8)(&r.Op))
	c.Str(&r.Base)
	c.Str(&r.Rel)
	c.Str(&r.To)
	c.Str(&r.From)
	c.Bytes(&r.Data)
	c.U32(&r.Mode)
	c.Int(&r.Flags)
	c.I64(&r.Max)
	c.Bool(&r.Names)
	c.Bool(&r.Loose)
	c.Strings(&r.Rels)
	c.Strings(&r.Others)
	c.U32s(&r.UIDs)
	c.Bool(&r.Again)
	c.U32(&r.Reader)
	c.Str(&r.Whose)
	c.U32(&r.Low)
	c.U32(&r.High)
}

// Fields lays an answer out for another process.
func (a *Answer) Fields(c *coder.Coder) {
	coder.Optional(c, &a.Failure, func(f *Failure) { f.Fields(c) })
	c.U32(&a.Owner)
	a.Info.fields(c)
	coder.List(c, &a.Entries, func(e *Entry) {
		c.Str(&e.Name)
		c.U32((*uint32)(&e.Type))
	})
	c.Bytes(&a.Data)
	coder.List(c, &a.Glances, func(g *Glance) {
		c.Bool(&g.Odd)
		c.Bool(&g.Marked)
		coder.List(c, &g.Files, func(f *GlanceFile) {
			c.Bool(&f.There)
			c.Bytes(&f.Data)
		})
	})
	c.Int(&a.Done)
	coder.Map(c, &a.Failures, c.Int, func(f *Failure) { f.Fields(c) })
}

func (i *Info) fields(c *coder.Coder) {
	c.U32((*uint32)(&i.Type))
	c.U32(&i.Perm)
	c.I64(&i.Size)
	c.U32(&i.UID)
	c.U32(&i.GID)
	c.U64(&i.Dev)
	c.U64(&i.Ino)
	for _, at := range []*time.Time{&i.Modified, &i.Changed} {
		dated := !at.IsZero()
		if c.Bool(&dated); dated {
			seconds, nanos := at.Unix(), int64(at.Nanosecond())
			c.I64(&seconds)
			c.I64(&nanos)
			*at = time.Unix(seconds, nanos)
		}
	}
}

// Fields lays a failure out for another process.
func (f *Failure) Fields(c *coder.Coder) {
	c.Str(&f.Do)
	c.Str(&f.Path)
	c.Str(&f.Why)
	c.Str(&f.Remedy)
	errno := uint64(f.Errno)
	c.U64(&errno)
	f.Errno = unix.Errno(errno)
	c.U8(&f.Known)
	c.Str(&f.Text)
}
