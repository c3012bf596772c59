package exploreorder

import "rlminit/supervise/order"

// Graphs calls visit for every graph of n services over the three kinds of edges,
// each with every choice of oneshots. Of those that differ in the numbers of the
// services alone it takes one: no decision looks at a number.
func Graphs(n int, visit func(edges [Most][Most]uint8, oneshot [Most]bool)) {
	pairs := n * (n - 1)
	for code := range 1 << (2*pairs + n) {
		if smallest(n, code) {
			visit(decode(n, code))
		}
	}
}

// Acyclic calls visit for every graph of n daemons that has no cycle, likewise, with
// those together that differ in nothing but which edge is a wants and which an
// after: they are of one Shape.
func Acyclic(n int, visit func(graphs [][Most][Most]uint8)) {
	seen := map[int]bool{}
	first := func(edges [Most][Most]uint8) bool {
		name := least(n, edges)
		if seen[name] {
			return false
		}
		seen[name] = true
		return true
	}
	pairs := n * (n - 1) / 2
	for code := range 1 << (2 * pairs) {
		var shape [Most][Most]uint8
		var weak [][2]int
		wants := false
		for a := range n { // a graph without a cycle can be numbered such that all edges lead upwards
			for b := a + 1; b < n; b++ {
				shape[a][b] = uint8(code & 3)
				code >>= 2
				wants = wants || shape[a][b] == 1+uint8(order.Wants)
				if shape[a][b] == 1+uint8(order.After) {
					weak = append(weak, [2]int{a, b})
				}
			}
		}
		if wants || !first(shape) {
			continue
		}
		graphs := [][Most][Most]uint8{shape}
		for some := 1; some < 1<<len(weak); some++ {
			edges := shape
			for i, e := range weak {
				if some>>i&1 == 1 {
					edges[e[0]][e[1]] = 1 + uint8(order.Wants)
				}
			}
			if first(edges) {
				graphs = append(graphs, edges)
			}
		}
		visit(graphs)
	}
}

// least is the smallest code that a numbering of a graph of daemons has.
func least(n int, edges [Most][Most]uint8) int {
	low := encode(n, edges, [Most]bool{})
	for _, p := range Permutations(n) {
		moved, _ := Permute(n, edges, [Most]bool{}, p)
		low = min(low, encode(n, moved, [Most]bool{}))
	}
	return low
}

// decode reads a graph out of a number: two bits for each ordered pair, and one
// for each service.
func decode(n, code int) (edges [Most][Most]uint8, oneshot [Most]bool) {
	for i := range n {
		oneshot[i] = code>>i&1 == 1
	}
	code >>= n
	for a := range n {
		for b := range n {
			if a != b {
				edges[a][b] = uint8(code & 3)
				code >>= 2
			}
		}
	}
	return edges, oneshot
}

func encode(n int, edges [Most][Most]uint8, oneshot [Most]bool) int {
	code := 0
	for a := n - 1; a >= 0; a-- {
		for b := n - 1; b >= 0; b-- {
			if a != b {
				code = code<<2 | int(edges[a][b])
			}
		}
	}
	code <<= n
	for i := range n {
		if oneshot[i] {
			code |= 1 << i
		}
	}
	return code
}

// smallest tells whether no other numbering of the same graph has a smaller code.
func smallest(n, code int) bool {
	edges, oneshot := decode(n, code)
	for _, p := range Permutations(n) {
		if moved, once := Permute(n, edges, oneshot, p); encode(n, moved, once) < code {
			return false
		}
	}
	return true
}

// Permute numbers the services of a graph anew.
func Permute(n int, edges [Most][Most]uint8, oneshot [Most]bool, p []int) (moved [Most][Most]uint8, once [Most]bool) {
	for a := range n {
		once[p[a]] = oneshot[a]
		for b := range n {
			moved[p[a]][p[b]] = edges[a][b]
		}
	}
	return moved, once
}

// Permutations are all of n numbers.
func Permutations(n int) [][]int {
	if known := permutations[n]; known != nil {
		return known
	}
	if n == 0 {
		return [][]int{{}}
	}
	var all [][]int
	for _, short := range Permutations(n - 1) {
		for at := range n {
			p := append([]int{}, short[:at]...)
			p = append(append(p, n-1), short[at:]...)
			all = append(all, p)
		}
	}
	permutations[n] = all
	return all
}

var permutations [Most + 1][][]int
