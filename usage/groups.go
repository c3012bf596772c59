package usage

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Tags tells by their supplementary groups which orphans belong to which root:
// the group that one root alone has is its tag. A process that has none, or may
// not be looked at, is nobody's.
func Tags(proc string, roots []int) func(pid int) int {
	var tags map[string]int    // read when the first orphan comes that has a group of its own
	var common map[string]bool // groups that several roots have, and so nobody's tag
	return func(pid int) int {
		if common == nil {
			common = commonOf(proc, roots)
		}
		own := slices.DeleteFunc(Groups(proc, pid), func(group []byte) bool { return common[string(group)] })
		if len(own) == 0 {
			return 0 // and not every root is looked at
		}
		if tags == nil {
			tags = tagsOf(proc, roots)
		}
		for _, group := range own {
			if root := tags[string(group)]; root > 0 {
				return root
			}
		}
		return 0
	}
}

// commonOf are the groups that the first roots share.
func commonOf(proc string, roots []int) map[string]bool {
	common := map[string]bool{}
	if len(roots) < 2 {
		return common
	}
	first := Groups(proc, roots[0])
	for _, group := range Groups(proc, roots[1]) {
		if slices.ContainsFunc(first, func(other []byte) bool { return bytes.Equal(group, other) }) {
			common[string(group)] = true
		}
	}
	return common
}

func tagsOf(proc string, roots []int) map[string]int {
	const several = -1
	tags := map[string]int{}
	for _, root := range roots {
		for _, group := range Groups(proc, root) {
			if tags[string(group)] != 0 {
				tags[string(group)] = several
			} else {
				tags[string(group)] = root
			}
		}
	}
	if len(roots) == 1 {
		// What one alone has cannot be told from what all have.
		for _, group := range Groups(proc, 1) {
			delete(tags, string(group))
		}
	}
	return tags
}

// Groups are a process's supplementary groups, as text.
func Groups(proc string, pid int) [][]byte {
	status, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "status"))
	if err != nil {
		return nil
	}
	_, rest, ok := bytes.Cut(status, []byte("\nGroups:"))
	if !ok {
		return nil
	}
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	return bytes.Fields(line)
}

// Descriptors is how many a process has open; -1 where that may not be seen.
func Descriptors(proc string, pid int) int {
	dir, err := os.Open(filepath.Join(proc, strconv.Itoa(pid), "fd"))
	if err != nil {
		return -1
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return -1
	}
	return len(names)
}
