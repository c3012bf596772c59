package ns

import (
	"os"
	"testing"

	"rlminit/tests/contract"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestContract(t *testing.T) {
	for _, c := range contract.All {
		t.Run(c.Name, func(t *testing.T) {
			if c.Root && !Privileged() {
				t.Skip("needs root: it is about dropping privileges")
			}
			t.Parallel()
			c.Run(t, Start)
		})
	}
}
