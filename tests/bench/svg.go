package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
)

// Measures of the picture, in pixels: two panels in a row.
const (
	panelWidth, panelHeight = 440, 300
	left, right, top, under = 56, 118, 52, 50 // what is around a panel's field
	labelHeight             = 15
)

// style has the colours. Those of a line and its label are one, and in a dark page all
// are others.
const style = `svg{font:12px system-ui,sans-serif}.ground{fill:#fff}.grid{stroke:#d8dee4}text{fill:#59636e}.title{fill:#1f2328;font-weight:600}
.rlminit{color:#0969da}.s6{color:#bc4c00}.floor{color:#59636e}.line{fill:none;stroke:currentColor;stroke-width:1.5}.rlminit .line{stroke-width:2.5}
.floor .line{stroke-dasharray:5 3}.dot,.label{fill:currentColor}
@media (prefers-color-scheme:dark){.ground{fill:#0d1117}.grid{stroke:#30363d}text{fill:#9198a1}.title{fill:#f0f6fc}
.rlminit{color:#58a6ff}.s6{color:#f0883e}.floor{color:#9198a1}}`

// draw is the picture of a scale: a panel for each figure, with both axes logarithmic.
func (s scale) draw() []byte {
	var b bytes.Buffer
	width, height := 2*panelWidth, (len(s.Panels)+1)/2*panelHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">`+"\n", width, height)
	fmt.Fprintf(&b, "<title>What rlminit takes, by the number of services</title>\n<style>%s</style>\n", style)
	fmt.Fprintf(&b, `<rect class="ground" width="%d" height="%d" rx="6"/>`+"\n", width, height)
	for i, p := range s.Panels {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", i%2*panelWidth, i/2*panelHeight)
		p.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// axis maps numbers to pixels by their logarithm.
type axis struct{ least, most, from, to float64 }

func (a axis) at(v float64) float64 {
	return a.from + (a.to-a.from)*math.Log(v/a.least)/math.Log(a.most/a.least)
}

func (p panel) draw(b *bytes.Buffer) {
	sizes, ticks := p.sizes(), p.ticks()
	x := axis{float64(sizes[0]) / 1.15, float64(sizes[len(sizes)-1]) * 1.15, left, panelWidth - right}
	y := axis{ticks[0], ticks[len(ticks)-1], panelHeight - under, top}
	fmt.Fprintf(b, `<text class="title" x="%d" y="20">%s</text>`+"\n", left, html.EscapeString(p.Name))
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", left-8, top-14, p.Unit)
	fmt.Fprintf(b, `<text x="%.0f" y="%d" text-anchor="middle">services</text>`+"\n", (x.from+x.to)/2, panelHeight-14)
	for _, v := range ticks {
		at := y.at(v)
		fmt.Fprintf(b, `<path class="grid" d="M%.0f %.1fH%.0f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", x.from, at, x.to, left-8, at+4, amount(v))
	}
	for i, n := range sizes {
		at := x.at(float64(n))
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %.0fV%.0f"/>`, at, y.from, y.to)
		if i == len(sizes)-1 || x.at(float64(sizes[i+1]))-at > 36 { // or its number would touch the next
			fmt.Fprintf(b, `<text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`, at, y.from+18, count(n))
		}
		b.WriteString("\n")
	}
	p.drawLines(b, x, y)
}

// drawLines draws each line with its name and last figure at its end.
func (p panel) drawLines(b *bytes.Buffer, x, y axis) {
	last := func(l line) point { return l.Points[len(l.Points)-1] }
	downwards := slices.SortedFunc(slices.Values(p.Lines), func(a, b line) int { return cmp.Compare(last(b).Median, last(a).Median) })
	above := 0.0 // where the label above ends
	for _, l := range downwards {
		fmt.Fprintf(b, `<g class="%s"><path class="line" d="`, l.Peer)
		for i, at := range l.Points {
			fmt.Fprintf(b, "%c%.1f %.1f", "ML"[min(i, 1)], x.at(float64(at.Services)), y.at(at.Median))
		}
		b.WriteString(`"/>`)
		for _, at := range l.Points {
			fmt.Fprintf(b, `<circle class="dot" cx="%.1f" cy="%.1f" r="2.5"/>`, x.at(float64(at.Services)), y.at(at.Median))
		}
		end := last(l)
		at := max(above+labelHeight, y.at(end.Median)+4)
		above = at
		fmt.Fprintf(b, `<text class="label" x="%.1f" y="%.1f">%s %s %s</text></g>`+"\n", x.at(float64(end.Services))+8, at, html.EscapeString(l.Peer), amount(end.Median), p.Unit)
	}
}

// ticks are the marks of the upright axis: powers of ten, or 1, 2 and 5 of each where
// those are few. The first and the last are its ends, at least a factor of 20 apart, so
// that what is flat looks flat.
func (p panel) ticks() []float64 {
	least, most := math.Inf(1), 0.0
	for _, l := range p.Lines {
		for _, at := range l.Points {
			least, most = min(least, at.Median), max(most, at.Median)
		}
	}
	from, to := below(least), below(most)
	if value(to) < most {
		to++
	}
	for upwards := true; value(to)/value(from) < 20; upwards = !upwards {
		if upwards {
			to++
		} else {
			from--
		}
	}
	var all []float64
	for i := from; i <= to; i++ {
		if to-from <= 7 || i%3 == 0 || i == from || i == to {
			all = append(all, value(i))
		}
	}
	return all
}

// value is the number of a step: 1, 2, 5, 10 and so on, and downwards.
func value(step int) float64 {
	power := math.Floor(float64(step) / 3)
	return []float64{1, 2, 5}[step-3*int(power)] * math.Pow(10, power)
}

// below is the last step that is not above a number.
func below(v float64) int {
	step := 3 * int(math.Floor(math.Log10(v)))
	for value(step+1) <= v {
		step++
	}
	return step
}
