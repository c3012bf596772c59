package profiles

import (
	"fmt"
	"testing"
	"time"

	"rlminit/service"
)

// BenchmarkList reads 5,000 profiles, records and ports included, as at boot.
func BenchmarkList(b *testing.B) {
	const n = 5000
	s, err := Open(nil, nil, b.TempDir(), Settings{
		Marker: "profile.yaml", StateFile: "gateway_state.json", Beginning: Beginning{InitialState: service.Running}, Ports: PortRange{First: 9200, Last: 29199},
	}, func(line string) { b.Log(line) })
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for i := range n {
		if _, _, err := s.Create(fmt.Sprintf("p%04d", i), Creation{Environment: map[string]string{"TOKEN": "x", "MODE": "y"}}); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	began := time.Now()
	for range b.N {
		list, err := s.List()
		if err != nil || len(list) != n || list[17].Port == 0 {
			b.Fatal(len(list), err)
		}
	}
	b.ReportMetric(float64(time.Since(began).Milliseconds())/float64(b.N), "ms/5000-profiles")
}

// BenchmarkDefinition resolves one profile, template, overrides and all.
func BenchmarkDefinition(b *testing.B) {
	home := b.TempDir()
	cfg := configured(b, home)
	s, err := Open(nil, nil, home, SettingsOf(cfg), func(line string) { b.Log(line) })
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	p, _, err := s.Create("alice", Creation{Environment: map[string]string{"TOKEN": "x", "MODE": "y"}})
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		if _, err := p.Definition(cfg); err != nil {
			b.Fatal(err)
		}
	}
}
