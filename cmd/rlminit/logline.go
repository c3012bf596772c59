package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"rlminit/control"
)

// logText is a line of a log taken apart. One without a time and a stream, of a
// service whose log has none, is text and nothing else.
type logText struct {
	at     time.Time
	stream string // out, err, or rlminit for what rlminit adds
	cut    bool   // the newline is rlminit's, and the next line goes on with this one
	text   []byte // without the newline
}

// streams are the marks in a log and their streams.
var streams = map[string]string{"out": "out", "err": "err", "---": "rlminit"}

func parseLog(line []byte) logText {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	at := stampOf(line)
	if at.IsZero() {
		return logText{text: line}
	}
	_, rest, _ := bytes.Cut(line, []byte{' '})
	mark, text, ok := bytes.Cut(rest, []byte{' '})
	name, cut := bytes.CutSuffix(mark, []byte{'+'})
	stream, known := streams[string(name)]
	if !known || !ok && len(mark) != len(rest) {
		return logText{text: line}
	}
	return logText{at: at, stream: stream, cut: cut, text: text}
}

// logJSON is a line as `logs --json` writes it.
type logJSON struct {
	logSource
	At     *time.Time `json:"at"`
	Stream *string    `json:"stream"`
	Level  *string    `json:"level"`
	Cut    bool       `json:"cut,omitempty"`
	Text   string     `json:"text"`
	Base64 string     `json:"text_base64,omitempty"`
}

// logSource is the source of a log.
type logSource struct {
	Service string  `json:"service"`
	Profile *string `json:"profile"` // null: of none
}

// sourcesOf are what the logs of some names are of; where nobody tells, the name is that of
// a service.
func sourcesOf(ctx context.Context, client *control.Client, names []string) []logSource {
	all, _ := client.Services(ctx)
	sources := make([]logSource, len(names))
	for i, name := range names {
		sources[i].Service = name
		for _, s := range all {
			if s.Name == name || s.Profile != nil && *s.Profile == name && sources[i].Profile == nil {
				sources[i] = logSource{s.Name, s.Profile}
			}
			if s.Name == name {
				break
			}
		}
	}
	return sources
}

// jsonOf writes one line of a service's log as a JSON object.
func jsonOf(of logSource, line []byte) []byte {
	l := parseLog(line)
	j := logJSON{logSource: of, Cut: l.cut, Text: string(l.text)}
	if !l.at.IsZero() {
		j.At, j.Stream = &l.at, &l.stream
	}
	if level, known := levelOf(l.text); known {
		name := levelNames[level]
		j.Level = &name
	}
	if !utf8.Valid(l.text) {
		j.Text, j.Base64 = "", base64.StdEncoding.EncodeToString(l.text)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(j); err != nil {
		panic(err) // of strings and a time that was parsed
	}
	return out.Bytes()
}

// Levels of a service's own lines, and their names.
const (
	levelTrace = iota
	levelDebug
	levelInfo
	levelWarn
	levelError
	levelFatal
)

var levelNames = []string{"trace", "debug", "info", "warn", "error", "fatal"}

// levelWords are how programs write them.
var levelWords = map[string]int{
	"trace": levelTrace, "debug": levelDebug, "dbg": levelDebug, "verbose": levelDebug,
	"info": levelInfo, "information": levelInfo, "notice": levelInfo,
	"warn": levelWarn, "warning": levelWarn,
	"error": levelError, "err": levelError, "severe": levelError,
	"fatal": levelFatal, "critical": levelFatal, "crit": levelFatal, "alert": levelFatal,
	"emerg": levelFatal, "emergency": levelFatal, "panic": levelFatal,
}

// levelNamed reads a level that a person gives.
func levelNamed(word string) (int, bool) {
	level, ok := levelWords[strings.ToLower(word)]
	return level, ok
}

var (
	levelOfKlog   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([IWEF])\d{4} `) })
	levelOfLogfmt = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(?:^|[\s,{])(?:level|lvl|severity)=["']?([a-z]+)`)
	})
	// A word in capitals, in brackets, or before a colon, near the beginning:
	// "error" in the midst of a sentence tells nothing.
	levelOfWord = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|[\s|\]])(?:\[\s*([A-Za-z]+)\s*\]|([A-Z]{3,11})\b|([A-Za-z]{3,11}):(?:\s|$))`)
	})
)

// levelBefore is within how many bytes of a line a level is looked for.
const levelBefore = 120

// levelOf tells how serious a line is, where it says so: by a prefix of
// sd-daemon(3), as JSON or logfmt, in the way of klog, or by a word.
func levelOf(text []byte) (level int, known bool) {
	if len(text) >= 3 && text[0] == '<' && text[2] == '>' && text[1] >= '0' && text[1] <= '7' {
		return [...]int{levelFatal, levelFatal, levelFatal, levelError, levelWarn, levelInfo, levelInfo, levelDebug}[text[1]-'0'], true
	}
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		if level, known = levelOfJSON(trimmed); known {
			return level, true
		}
	}
	if m := levelOfKlog().FindSubmatch(text); m != nil {
		return map[byte]int{'I': levelInfo, 'W': levelWarn, 'E': levelError, 'F': levelFatal}[m[1][0]], true
	}
	if m := levelOfLogfmt().FindSubmatch(text); m != nil {
		if level, known = levelNamed(string(m[1])); known {
			return level, true
		}
	}
	for _, m := range levelOfWord().FindAllSubmatch(text[:min(len(text), levelBefore)], 8) {
		for _, word := range m[1:] {
			if level, known = levelNamed(string(word)); known {
				return level, true
			}
		}
	}
	return levelInfo, false
}

func levelOfJSON(text []byte) (level int, known bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		return 0, false
	}
	for _, key := range []string{"level", "severity", "lvl", "log.level"} {
		value := object[key]
		var word string
		if json.Unmarshal(value, &word) == nil {
			if level, known = levelNamed(word); known {
				return level, true
			}
		}
		if n, err := strconv.Atoi(string(value)); err == nil && n >= 10 && n <= 60 { // as pino and bunyan have it
			return n/10 - 1, true
		}
	}
	return 0, false
}

// logFilter says which lines are shown. Its zero value shows all.
type logFilter struct {
	until time.Time
	grep  *regexp.Regexp
	level int

	before int // level of the last line that had one
}

// on tells whether it leaves anything out.
func (f *logFilter) on() bool { return !f.until.IsZero() || f.grep != nil || f.level > 0 }

// keeps tells whether a line is shown. Lines of one log are to be asked about in
// their order: one that begins with a blank goes on with the line before, as in
// a stack trace, and is as serious as that.
func (f *logFilter) keeps(line []byte) bool {
	l := parseLog(line)
	if !f.until.IsZero() && l.at.After(f.until) {
		return false
	}
	if f.level > 0 {
		level, known := levelOf(l.text)
		if !known && len(l.text) > 0 && (l.text[0] == ' ' || l.text[0] == '\t') {
			level = f.before
		}
		if f.before = level; level < f.level {
			return false
		}
	}
	return f.grep == nil || f.grep.Match(l.text)
}

// lastOnes hands on the last n of the lines that it is given.
type lastOnes struct {
	n     int
	lines [][]byte
	at    int // of the oldest, once there are n
}

func (o *lastOnes) add(line []byte) {
	switch {
	case o.n == 0:
	case len(o.lines) < o.n:
		o.lines = append(o.lines, slices.Clone(line))
	default:
		o.lines[o.at] = append(o.lines[o.at][:0], line...)
		o.at = (o.at + 1) % o.n
	}
}

func (o *lastOnes) each(f func([]byte) error) error {
	for i := range o.lines {
		if err := f(o.lines[(o.at+i)%len(o.lines)]); err != nil {
			return err
		}
	}
	return nil
}
