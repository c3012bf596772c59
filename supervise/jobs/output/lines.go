package output

import (
	"bytes"
	"fmt"
)

// mostLine bounds a line that is handed on, in bytes: a longer one comes in parts.
const mostLine = 64 << 10

// Lines hands on whole lines of a stream as they come, from an offset at which one begins, and
// where the next begins after them, until the stream has ended. A line that is begun then
// counts as whole. It returns the error of each.
func (s *Stream) Lines(from int64, each func(lines []byte, next int64) error) error {
	buffer, begun := make([]byte, mostLine), []byte(nil)
	for {
		n, lost, grown := s.readNow(from, buffer)
		if lost > 0 {
			begun = append(begun, fmt.Sprintf("… %d bytes are left out …\n", lost)...)
		}
		from += lost + int64(n)
		begun = append(begun, buffer[:n]...)
		ended := n == 0 && lost == 0 && grown == nil
		whole := bytes.LastIndexByte(begun, '\n') + 1
		if len(begun) >= mostLine && whole == 0 || ended && whole < len(begun) {
			begun = append(begun, '\n')
			whole = len(begun)
		}
		if whole > 0 {
			left := begun[whole:]
			if err := each(begun[:whole], from-int64(len(left))); err != nil {
				return err
			}
			begun = append([]byte(nil), left...)
		}
		switch {
		case ended:
			return nil
		case n == 0 && lost == 0:
			<-grown
		}
	}
}
