package secrets

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/service"
)

// Secrets one past their number, or their length, are refused.
func TestSecretsOnePastTheirBounds(t *testing.T) {
	for past := range 2 {
		many := map[string]string{}
		for i := range service.MaxSecrets + past {
			many[fmt.Sprint("S", i)] = "x"
		}
		if err := Check(many); (err != nil) != (past == 1) {
			t.Errorf("%d secrets: %v", len(many), err)
		}
		if err := Check(map[string]string{"S": strings.Repeat("x", service.MaxSecret+past)}); (err != nil) != (past == 1) {
			t.Errorf("a secret of %d bytes: %v", service.MaxSecret+past, err)
		}
	}
}
