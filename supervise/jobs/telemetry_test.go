package jobs

import "testing"

// BenchmarkTelemetry is what it costs to look how the container is doing.
func BenchmarkTelemetry(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		if telemetry(dir).Processes == 0 {
			b.Fatal("no processes")
		}
	}
}
