package service

import (
	"slices"
	"strings"

	"rlminit/internal/document"
	"rlminit/internal/redact"
)

// log reads a mapping over the present value.
func log(p *Log) document.Setter { return logFields(p).Read }

func logFields(p *Log) document.Fields {
	return document.Fields{
		"file":       document.Bool(&p.File),
		"max_size":   document.Size(&p.MaxSize, 1),
		"max_age":    document.Duration(&p.MaxAge, 0),
		"max_files":  document.Int(&p.MaxFiles, 0, 100_000),
		"compress":   document.Bool(&p.Compress),
		"tee":        tee(&p.Tee),
		"timestamps": document.Bool(&p.Timestamps),
		"redact":     patterns(&p.Redact),
		"forward":    forward(&p.Forward),
	}
}

// profileLog reads the keys of a profile's log: it adds patterns, and
// says nothing of where lines go.
func profileLog(p *Log) document.Setter {
	fields := logFields(p)
	fields["redact"] = morePatterns(&p.Redact)
	delete(fields, "forward")
	return func(n document.Node) {
		fields.ReadRefusing(n, map[string]string{"forward": "a profile may not say where its log goes; it belongs in rlminit.yaml, under gateway"})
	}
}

// patterns reads a list of patterns in place of the present one.
func patterns(p *[]string) document.Setter {
	return func(n document.Node) {
		list, size, ok := readPatterns(n, nil)
		switch {
		case ok && size > redact.MostProgram:
			n.Fault("the patterns are too costly together (%d steps, at most %d); repeat less, + for {20,}", size, redact.MostProgram)
		case ok:
			*p = list
		}
	}
}

// mostAdded bounds what a profile has every line of its output compared with beyond what
// root does, in instructions of programs.
const mostAdded = 256

// morePatterns adds those that it reads to the present ones.
func morePatterns(p *[]string) document.Setter {
	return func(n document.Node) {
		list, size, ok := readPatterns(n, *p)
		switch {
		case ok && size > mostAdded:
			n.Fault("the patterns are too costly together (%d steps, a profile may add %d); repeat less, + for {20,}", size, mostAdded)
		case ok:
			*p = list
		}
	}
}

// readPatterns are those of a list behind the ones before, each once, and how large the
// new ones are.
func readPatterns(n document.Node, before []string) (all []string, size int, ok bool) {
	items, ok := n.Items()
	all = slices.Clone(before)
	for _, item := range items {
		text, good := item.Text()
		if !good {
			ok = false
			continue
		}
		steps, fault := redact.CheckPattern(text)
		if fault != "" {
			item.Fault("%s %s", document.Quote(text), fault)
			ok = false
		} else if !slices.Contains(all, text) {
			all, size = append(all, text), size+steps
		}
	}
	inAll := 0
	for _, text := range all {
		inAll += len(text) + 1
	}
	switch {
	case len(all) > redact.MostPatterns:
		n.Fault("%d patterns with those that are there; %d are the most: join some with |", len(all), redact.MostPatterns)
		ok = false
	case inAll > redact.MostInAll:
		n.Fault("the patterns have %d bytes with those that are there; %d are the most", inAll, redact.MostInAll)
		ok = false
	}
	return all, size, ok
}

// tee reads auto, or a boolean.
func tee(p *Tee) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		on, isBool := document.ParseBool(s)
		switch {
		case strings.EqualFold(s, string(TeeAuto)):
			*p = TeeAuto
		case !isBool:
			n.Fault("%s is refused; write auto, on or off", document.Quote(s))
		case on:
			*p = TeeOn
		default:
			*p = TeeOff
		}
	}
}
