package analyze

import (
	"fmt"
	"html"
	"io"
	"slices"
)

// Measures of the drawing, in pixels.
const (
	rowHeight = 22
	barHeight = 14
	leftEdge  = 10
	textWidth = 360 // kept right of the bars for names
	drawing   = 900
	topEdge   = 46
)

// SVG draws a report: a row for each step, in green, and for each service, the time
// that it waited in light grey, the time that it took to start in blue, and those
// of the critical chain in red.
func (r Report) SVG(w io.Writer) error {
	total := max(r.TookS, 0.001)
	for _, s := range r.Steps {
		total = max(total, s.BeganS+s.TookS)
	}
	scale := drawing / total
	height := topEdge + rowHeight*(len(r.Steps)+len(r.Services)) + 20
	out := &checked{w: w}
	out.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", leftEdge+drawing+textWidth, height)
	out.printf(`<rect width="100%%" height="100%%" fill="white"/>` + "\n")
	out.printf(`<text x="%d" y="18" font-size="14">boot of %s: %.3f s, %d services</text>`+"\n", leftEdge, r.At.UTC().Format("2006-01-02T15:04:05Z"), r.TookS, len(r.Services))
	step := tickOf(total)
	for at := 0.0; at <= total+step/1000; at += step {
		x := leftEdge + at*scale
		out.printf(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#ddd"/><text x="%.1f" y="%d" fill="#888">%g s</text>`+"\n", x, topEdge-8, x, height-16, x+2, topEdge-10, float64(int(at*1e6+0.5))/1e6)
	}
	for i, s := range r.Steps {
		y := topEdge + rowHeight*i
		out.printf(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#5a9367"/>`, leftEdge+s.BeganS*scale, y, max(1, s.TookS*scale), barHeight)
		out.printf(`<text x="%.1f" y="%d">%s (%.3f s)</text>`+"\n", leftEdge+(s.BeganS+s.TookS)*scale+6, y+11, html.EscapeString(s.Step), s.TookS)
	}
	for i, s := range r.Services {
		y := topEdge + rowHeight*(len(r.Steps)+i)
		colour := "#4a7ebb"
		if slices.Contains(r.Chain, s.Name) {
			colour = "#c0392b"
		}
		out.printf(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#dddddd"/>`, leftEdge+s.BeganS*scale, y, max(0, s.StartedS-s.BeganS)*scale, barHeight)
		out.printf(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`, leftEdge+s.StartedS*scale, y, max(1, (s.ReadyS-s.StartedS)*scale), barHeight, colour)
		out.printf(`<text x="%.1f" y="%d">%s (%.3f s, %s)</text>`+"\n", leftEdge+s.ReadyS*scale+6, y+11, html.EscapeString(s.Name), s.ReadyS-s.StartedS, html.EscapeString(s.Outcome))
	}
	out.printf("</svg>\n")
	return out.err
}

// tickOf is the distance of marks on an axis, of which there are then 4 to 10.
func tickOf(total float64) float64 {
	step := 1e-6
	for {
		for _, factor := range []float64{1, 2.5, 5} {
			if total/(step*factor) <= 10 {
				return step * factor
			}
		}
		step *= 10
	}
}

// checked writes until there is an error.
type checked struct {
	w   io.Writer
	err error
}

func (c *checked) printf(format string, args ...any) {
	if c.err == nil {
		_, c.err = fmt.Fprintf(c.w, format, args...)
	}
}
