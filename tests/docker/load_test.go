package docker

import (
	"testing"

	"rlminit/tests/load"
)

// TestLoad comes last and alone: its figures are worth nothing beside others.
func TestLoad(t *testing.T) {
	t.Run("Storm", func(t *testing.T) { load.Storm(t, start, 200, 10, 50) })
	t.Run("Boot", func(t *testing.T) { load.Boot(t, start, 100) })
}
