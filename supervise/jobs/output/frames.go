package output

import (
	"encoding/json"
	"net/http"
	"sync"

	"rlminit/control"
)

// Frames writes lines of output.
type Frames struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// NewFrames begins an answer of such lines.
func NewFrames(w http.ResponseWriter) *Frames {
	w.Header().Set("Content-Type", "application/x-ndjson")
	return &Frames{w: w, control: http.NewResponseController(w)}
}

// Send writes a line, at once. A reader that does not read is waited for, for a
// pager may be at the other end; one that is gone is an error.
func (f *Frames) Send(o *control.JobOutput) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err := f.w.Write(append(line, '\n')); err != nil {
		return err
	}
	return f.control.Flush()
}

// Piece sends some bytes of a stream.
func (f *Frames) Piece(name string, offset, lost int64, b []byte) error {
	o := &control.JobOutput{Stream: name, Offset: offset, Lost: lost}
	o.Text, o.Base64 = asText(b)
	return f.Send(o)
}

// pieces are buffers for what a job has written: most have written nothing.
var pieces = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// Both sends what two streams have; with follow as they grow, until both have ended.
func (f *Frames) Both(written Streams, from [2]int64, follow bool, gone <-chan struct{}) error {
	pooled := pieces.Get().(*[64 << 10]byte)
	defer pieces.Put(pooled)
	buffer := pooled[:]
	for {
		var grown [2]<-chan struct{}
		open, moved := 0, false
		for i, s := range written {
			n, lost, more := s.readNow(from[i], buffer)
			if n > 0 || lost > 0 {
				from[i] += lost
				if err := f.Piece(Names[i], from[i], lost, buffer[:n]); err != nil {
					return err
				}
				from[i] += int64(n)
				moved = true
			}
			if grown[i] = more; more != nil {
				open++
			}
		}
		if moved {
			continue
		}
		if open == 0 || !follow {
			return nil
		}
		select {
		case <-grown[0]:
		case <-grown[1]:
		case <-gone:
			return errGone
		}
	}
}
