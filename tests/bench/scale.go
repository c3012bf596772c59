package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// scale is how what a supervisor takes grows with the number of services: what -plot
// writes.
type scale struct {
	Machine     machine  `json:"machine"`
	Rounds      int      `json:"rounds"`
	NotMeasured []string `json:"not_measured"`
	Panels      []panel  `json:"panels"`
}

// panel is one figure, of all who have it.
type panel struct {
	Name  string `json:"name"`
	Unit  string `json:"unit"`
	Lines []line `json:"lines"`
}

type line struct {
	Peer   string  `json:"peer"`
	Points []point `json:"points"`
}

// point is a median, and one value for each round.
type point struct {
	Services int       `json:"services"`
	Median   float64   `json:"median"`
	Values   []float64 `json:"values"`
}

// sizes are the numbers of services at which everything is measured.
var sizes = []int{10, 30, 100, 300, 1000, 3000, 10000}

// compared are those of whom it is measured, where they are there.
var compared = []string{"rlminit", "s6", "floor"}

// panels are the figures, in the order of the picture.
var panels = []struct {
	figure     figure
	name, unit string
}{
	{start, "Boot, until the last service has started", "ms"},
	{stop, "Stop of all, until PID 1 has ended", "ms"},
	{recovery, "Restart, from SIGKILL until it runs again", "ms"},
	{memory, "Memory (PSS) of all supervising processes", "MB"},
}

// What services need: PID 1 has five descriptors for each and keeps 256 free; s6 has
// two processes for each.
const (
	descriptorsOfOne, descriptorsBesides = 5, 400
	processesOfOne, processesBesides     = 2, 200
)

// largest is how many services can be measured, in hundreds.
func (l limits) largest() int {
	most := min((l.descriptors-descriptorsBesides)/descriptorsOfOne, (l.processes-processesBesides)/processesOfOne)
	return max(0, most/100*100)
}

// why says why so many services are not measured, or nothing.
func (l limits) why(n int) string {
	descriptors, processes := descriptorsOfOne*n+descriptorsBesides, processesOfOne*n+processesBesides
	switch {
	case descriptors > l.descriptors:
		return fmt.Sprintf("not measured: %s services need %s descriptors, and the hard limit here is %s", count(n), count(descriptors), count(l.descriptors))
	case processes > l.processes:
		return fmt.Sprintf("not measured: %s services need %s processes, and the limit here is %s", count(n), count(processes), count(l.processes))
	}
	return ""
}

// sizes are those that are possible, and the largest possible in place of those that are
// not, unless that is nearly the last one; and why what is left out is.
func (l limits) sizes() (possible []int, why []string) {
	for _, n := range sizes {
		if w := l.why(n); w != "" {
			why = append(why, w)
		} else {
			possible = append(possible, n)
		}
	}
	if largest := l.largest(); len(why) > 0 && len(possible) > 0 && 5*largest >= 6*slices.Max(possible) {
		possible = append(possible, largest)
	}
	return possible, why
}

// plotScale measures, and writes the figures and their picture into a directory.
func plotScale(dir string) error {
	s, err := measureScale()
	if err != nil {
		return err
	}
	s.print()
	if err := writeJSON(filepath.Join(dir, "scale.json"), s); err != nil {
		return err
	}
	return drawAgain(dir)
}

// drawAgain makes the picture of the figures in a directory.
func drawAgain(dir string) error {
	content, err := os.ReadFile(filepath.Join(dir, "scale.json"))
	if err != nil {
		return err
	}
	var s scale
	if err := json.Unmarshal(content, &s); err != nil {
		return fmt.Errorf("cannot read scale.json: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, "scale.svg"), s.draw(), 0o644)
}

// of is who measured what: a peer, and how many services.
type of struct {
	peer     string
	services int
}

// measureScale takes all figures at all sizes. In each round all take turns, so that
// what else the machine does hits all alike.
func measureScale() (scale, error) {
	s := scale{Machine: thisMachine(), Rounds: *rounds, NotMeasured: []string{}, Panels: []panel{}}
	possible, why := limitsHere().sizes()
	if len(possible) == 0 {
		return s, fmt.Errorf("cannot measure anything here: %s", why[0])
	}
	leaveOut := func(line string) {
		fmt.Println(line)
		s.NotMeasured = append(s.NotMeasured, line)
	}
	for _, w := range why {
		leaveOut(w)
	}
	values := map[of]map[figure][]float64{}
	failed := map[of]bool{}
	peers := slices.DeleteFunc(supervisors(), func(s supervisor) bool { return !slices.Contains(compared, s.name) })
	for range *rounds {
		for _, n := range possible {
			for _, p := range peers {
				key := of{p.name, n}
				if failed[key] {
					continue
				}
				one, err := p.measure(n, false)
				if err != nil && p.needs == *binary {
					return s, err
				}
				if err != nil {
					leaveOut(fmt.Sprintf("not measured: %s services of %s: %v", count(n), p.name, err))
					failed[key] = true
					delete(values, key)
					continue
				}
				if values[key] == nil {
					values[key] = map[figure][]float64{}
				}
				for f, value := range one {
					values[key][f] = append(values[key][f], value)
				}
			}
		}
	}
	s.fill(peers, possible, values)
	return s, nil
}

// fill puts what was measured into panels.
func (s *scale) fill(peers []supervisor, possible []int, values map[of]map[figure][]float64) {
	for _, p := range panels {
		drawn := panel{Name: p.name, Unit: p.unit}
		for _, peer := range peers {
			l := line{Peer: peer.name}
			for _, n := range possible {
				if v := values[of{peer.name, n}][p.figure]; median(v) > 0 { // of what is nothing there is no logarithm
					l.Points = append(l.Points, point{n, median(v), v})
				}
			}
			if len(l.Points) > 0 {
				drawn.Lines = append(drawn.Lines, l)
			}
		}
		if len(drawn.Lines) > 0 {
			s.Panels = append(s.Panels, drawn)
		}
	}
}

// print prints a table of the medians of each panel.
func (s scale) print() {
	for _, p := range s.Panels {
		fmt.Printf("%s, %s\n    %-12s", p.Name, p.Unit, "services")
		for _, n := range p.sizes() {
			fmt.Printf("%10s", count(n))
		}
		fmt.Println()
		for _, l := range p.Lines {
			fmt.Printf("    %-12s", l.Peer)
			for _, n := range p.sizes() {
				text := ""
				if i := slices.IndexFunc(l.Points, func(at point) bool { return at.Services == n }); i >= 0 {
					text = amount(l.Points[i].Median)
				}
				fmt.Printf("%10s", text)
			}
			fmt.Println()
		}
		fmt.Println()
	}
}

// sizes are the numbers of services of a panel.
func (p panel) sizes() (all []int) {
	for _, l := range p.Lines {
		for _, at := range l.Points {
			all = append(all, at.Services)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// count is a number with its thousands apart.
func count(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// amount is a figure with three digits that count.
func amount(v float64) string {
	if v >= 100 {
		return count(int(math.Round(v)))
	}
	text := fmt.Sprintf("%.*f", max(0, 2-int(math.Floor(math.Log10(max(v, 0.001))))), v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
