package telemetry

import "testing"

// BenchmarkTelemetry is what it costs to look how the container is doing.
func BenchmarkTelemetry(b *testing.B) {
	dir, g := b.TempDir(), Gauges{}
	for b.Loop() {
		if g.Read(dir).Processes == 0 {
			b.Fatal("no processes")
		}
	}
}
