package document

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Each key of another supervisor is one alone, no key of ours, and told with ours only
// where ours stands.
func TestForeignKeys(t *testing.T) {
	known := slices.Sorted(maps.Keys(foreign))
	seen := map[string]string{}
	for ours, theirs := range foreign {
		for _, name := range theirs {
			if name != strings.ToLower(name) || seen[name] != "" || elsewhere[name] != "" || slices.Contains(known, name) {
				t.Errorf("%s of %s is there twice, as %q, or not in lower case", name, ours, seen[name])
			}
			seen[name] = ours
			if got, want := translated(strings.ToUpper(name), known), `; here it is "`+ours+`"`; got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
			if got := translated(name, []string{"nothing"}); got != "" {
				t.Errorf("%s where %s is no key: %q", name, ours, got)
			}
		}
	}
	for name, want := range map[string]string{
		"image": ": every service runs in the container's own image", "Restart": `; here it is "restart"`, "nonsense": "",
	} {
		if got := translated(name, known); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"HealthCheck": `; in a service and in gateway it is "health"`, "restart": `; "restart" is a key of services and of gateway`,
		"cmd": `; here it is "main"`, "nonsense": "",
	} {
		if got := translated(name, []string{"main", "services"}); got != want {
			t.Errorf("%s at the top: %q, want %q", name, got, want)
		}
	}
}
