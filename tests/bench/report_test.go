package main

import "testing"

func TestRatioHasTheSpreadOfRounds(t *testing.T) {
	*rounds = 3
	if got, want := *ratioOf([]float64{10, 20, 30}, []float64{20, 20, 20}), (ratio{1, 0.5, 1.5}); got != want {
		t.Errorf("the ratio is %v, not %v", got, want)
	}
	if got, want := *ratioOf([]float64{9, 1, 1, 1, 2, 2, 3, 3, 9}, []float64{1, 1, 1}), (ratio{2, 1, 3}); got != want {
		t.Errorf("with three values in a round it is %v, not %v", got, want)
	}
	if got := ratioOf([]float64{1}, []float64{0}); got != nil {
		t.Errorf("of nothing it is %v", *got)
	}
}
