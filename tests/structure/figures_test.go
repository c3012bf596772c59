package structure

import (
	"testing"

	"rlminit/tests/box"
	"rlminit/tests/figures"
)

// functionMost is the length of a function in lines, so that one fits on a screen.
const functionMost = 60

// longFunctions is the number of functions above functionMost. It may only become smaller.
const longFunctions = 2

func TestFunctionsFitOnAScreen(t *testing.T) {
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	f, err := figures.Measure(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Functions) == 0 {
		t.Fatal("no function was found")
	}
	long := 0
	for _, fn := range f.Functions {
		if fn.Size > functionMost {
			long++
			t.Logf("%s has %d lines", fn.Name, fn.Size)
		}
	}
	if long > longFunctions {
		t.Errorf("%d functions have more than %d lines where %d had: cut the new one", long, functionMost, longFunctions)
	}
}
