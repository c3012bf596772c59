package output

import (
	"fmt"
	"unicode/utf8"

	"rlminit/control"
)

// Into puts what a job has written into its result: all of it, or of more than keep bytes
// head and tail, and what the file of a longer one does not have.
func (ss Streams) Into(result *control.JobResult, keep int64) {
	if !ss.There() {
		return
	}
	stdout, cutOut := excerpt(ss[0], keep)
	stderr, cutErr := excerpt(ss[1], keep)
	result.Stdout, result.StdoutBase64 = asText(stdout)
	result.Stderr, result.StderrBase64 = asText(stderr)
	result.OutputTruncated = cutOut || cutErr
	path := ""
	switch {
	case cutOut:
		path = ss[0].file.whole()
	case cutErr:
		path = ss[1].file.whole()
	}
	if path != "" {
		result.OutputFilePath = &path
	}
	ss.each(func(s *Stream) {
		if lacks := s.lacks(); lacks != "" && result.Error == nil {
			result.Error = &lacks
		}
	})
}

// lacks says of a stream that is too long for its result what its file does not
// have; "" if it is whole.
func (s *Stream) lacks() string {
	f, total := s.file, s.size()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case total <= s.keep || f.path == "" || f.size >= total:
		return ""
	case f.why != nil:
		return fmt.Sprintf("%s has %d of %d bytes of %s: %v", f.path, f.size, total, s.name, f.why)
	}
	return fmt.Sprintf("%s has %d of %d bytes of %s: there is room for no more of outputs", f.path, f.size, total, s.name)
}

func (s *Stream) size() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.total
}

// whole is the path of a file that has something; "": there is none.
func (f *file) whole() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size == 0 {
		return ""
	}
	return f.path
}

// asText is a text, or what is none.
func asText(b []byte) (text string, other []byte) {
	if utf8.Valid(b) {
		return string(b), nil
	}
	return "", b
}

// excerpt is all that a stream has, or its head and tail with a line between that
// says so.
func excerpt(s *Stream, keep int64) (content []byte, truncated bool) {
	size := s.size()
	if size <= keep {
		return readFrom(s, 0, size), false
	}
	head, tail := keep-keep/2, keep/2
	content = wholeRunes(readFrom(s, 0, head), false)
	where := "nothing has it"
	if path := s.file.whole(); path != "" {
		where = "see " + path
	}
	content = fmt.Appendf(content, "\n[… %d bytes left out; %s …]\n", size-head-tail, where)
	return append(content, wholeRunes(readFrom(s, size-tail, tail), true)...), true
}

// wholeRunes takes a character off that was cut in two, at the end or at the
// beginning, so that a text stays one.
func wholeRunes(b []byte, front bool) []byte {
	if front {
		for i := range min(utf8.UTFMax, len(b)) {
			if utf8.RuneStart(b[i]) {
				return b[i:]
			}
		}
		if len(b) < utf8.UTFMax {
			return nil
		}
		return b
	}
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if last := len(b) - i; utf8.RuneStart(b[last]) {
			if !utf8.FullRune(b[last:]) {
				return b[:last]
			}
			return b
		}
	}
	return b
}

// readFrom reads n bytes, or what can be had of them.
func readFrom(s *Stream, offset, n int64) []byte {
	b := make([]byte, n)
	at := int64(0)
	for at < n {
		m, lost, _ := s.readNow(offset+at, b[at:])
		if lost > 0 || m == 0 {
			break
		}
		at += int64(m)
	}
	return b[:at]
}
