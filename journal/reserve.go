package journal

import (
	"math/rand/v2"
	"slices"
)

// noise is n bytes without a pattern.
func noise(n int) []byte {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(seed).Read(b) // never fails
	return b
}

// oldest are the names less the keep newest. Names sort by age.
func oldest(names []string, keep int) []string {
	slices.Sort(names)
	return names[:max(0, len(names)-keep)]
}
