package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSizesThatAreLeftOutAreNamed(t *testing.T) {
	possible, why := limits{descriptors: 20000, processes: 32768}.sizes()
	if want := []int{10, 30, 100, 300, 1000, 3000, 3900}; !slices.Equal(possible, want) {
		t.Errorf("sizes are %v, not %v", possible, want)
	}
	if want := []string{"not measured: 10,000 services need 50,400 descriptors, and the hard limit here is 20,000"}; !slices.Equal(why, want) {
		t.Errorf("it says %q, not %q", why, want)
	}
	if possible, why := (limits{descriptors: 1 << 20, processes: 1 << 20}).sizes(); !slices.Equal(possible, sizes) || why != nil {
		t.Errorf("where there is room, sizes are %v, and it says %q", possible, why)
	}
	if possible, why := (limits{descriptors: 1 << 20, processes: 2300}).sizes(); !slices.Equal(possible, sizes[:5]) || len(why) != 2 || !strings.Contains(why[0], "3,000 services need 6,200 processes") {
		t.Errorf("with few processes sizes are %v, and it says %q", possible, why)
	}
	if possible, why := (limits{descriptors: 256, processes: 1 << 20}).sizes(); possible != nil || len(why) != len(sizes) {
		t.Errorf("with few descriptors sizes are %v, and it says %q", possible, why)
	}
}

func TestAmounts(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.5: "0.5", 1: "1", 1.114: "1.11", 20: "20", 99.96: "100", 297.4: "297", 1158: "1,158", 1234567: "1,234,567"} {
		if got := amount(v); got != want {
			t.Errorf("%v is written %s, not %s", v, got, want)
		}
	}
}

func TestTicksAreAround(t *testing.T) {
	for _, values := range [][]float64{{1.1}, {1, 1}, {10, 3000}, {0.02, 5000}, {7, 7.2}} {
		p := panel{Lines: []line{{Peer: "x"}}}
		for _, v := range values {
			p.Lines[0].Points = append(p.Lines[0].Points, point{Services: 10, Median: v})
		}
		ticks := p.ticks()
		first, last := ticks[0], ticks[len(ticks)-1]
		if first > slices.Min(values) || last < slices.Max(values) || last/first < 20 || len(ticks) > 10 || !slices.IsSorted(ticks) {
			t.Errorf("the marks of %v are %v", values, ticks)
		}
	}
}

// The picture in docs is of the figures in docs, and is XML.
func TestPicture(t *testing.T) {
	docs, dir := filepath.Join("..", "..", "docs"), t.TempDir()
	for _, name := range []string{"scale.json", "scale.svg"} {
		content, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was, _ := os.ReadFile(filepath.Join(dir, "scale.svg"))
	if err := drawAgain(dir); err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadFile(filepath.Join(dir, "scale.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(was, drawn) {
		t.Error("docs/scale.svg is not that of docs/scale.json: go run ./tests/bench -plot docs -redraw")
	}
	for decoder := xml.NewDecoder(bytes.NewReader(drawn)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
