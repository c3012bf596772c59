package forward

import (
	"slices"
	"time"
)

// keepBehind is how long a receiver has to read what its kernel has taken, before that is
// taken for received.
const keepBehind = time.Second

// mostMarks is how many marks wait before nothing more is sent.
const mostMarks = 20_000

// mark is a place in what was sent: up to there a member's lines are as its cursor says.
type mark struct {
	member *member
	cursor cursor
	end    uint64 // bytes that were sent up to there
	at     time.Time
}

// flow is what was sent over a link, and may not have been received.
type flow struct {
	sent    uint64
	last    time.Time // when the last batch was begun
	marks   []mark
	looking bool // a timer looks what was received
}

func (f *flow) full() bool { return len(f.marks) >= mostMarks }

// add notes a batch that is about to be sent.
func (f *flow) add(b *batch) {
	now := time.Now()
	f.last = now
	for _, k := range b.marks {
		k.end, k.at = k.end+f.sent, now
		f.marks = append(f.marks, k)
	}
	f.sent += uint64(len(b.text))
}

// received are the marks of what the receiver has, when so many bytes may be left, the
// last of each member.
func (f *flow) received(left uint64, behind time.Duration) map[*member]cursor {
	got, n := map[*member]cursor{}, 0
	for _, k := range f.marks {
		if k.end+left > f.sent || time.Since(k.at) < behind {
			break
		}
		got[k.member] = k.cursor
		n++
	}
	f.marks = slices.Delete(f.marks, 0, n)
	if len(f.marks) == 0 {
		f.marks = nil
	}
	return got
}

// reset forgets what was sent, and returns whose that was.
func (f *flow) reset() (all []*member) {
	had := map[*member]bool{}
	for _, k := range f.marks {
		if !had[k.member] {
			had[k.member] = true
			all = append(all, k.member)
		}
	}
	f.sent, f.marks = 0, nil
	return all
}

// forget forgets a member.
func (f *flow) forget(m *member) {
	f.marks = slices.DeleteFunc(f.marks, func(k mark) bool { return k.member == m })
}

// confirmLater has a look at what was received, as long as something may not have been.
func (d *destination) confirmLater() {
	if d.flow.looking || len(d.flow.marks) == 0 {
		return
	}
	d.flow.looking = true
	time.AfterFunc(keepBehind, func() {
		d.Do(func() {
			d.flow.looking = false
			d.confirm()
		})
	})
}

// confirm moves cursors over what the receiver has.
func (d *destination) confirm() {
	if d.link == nil {
		return
	}
	left, err := d.link.left()
	if err != nil {
		if !d.sending { // else that fails too
			d.lost(err)
		}
		return
	}
	behind := keepBehind
	if _, is := d.link.(*stdoutLink); is {
		behind = 0
	}
	got := d.flow.received(uint64(left), behind)
	if len(got) > 0 {
		d.works()
	}
	for m, c := range got {
		m.done = c
		m.tell()
		d.given.sent(m, c)
		d.mayGo(m)
	}
	d.confirmLater()
	d.proceed()
}

func without(all []*member, m *member) []*member {
	return slices.DeleteFunc(all, func(other *member) bool { return other == m })
}
