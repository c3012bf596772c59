package nearest

import "testing"

func TestName(t *testing.T) {
	for _, c := range []struct {
		written string
		known   []string
		want    string
	}{
		{"alcie", []string{"bob", "alice"}, "alice"},
		{"enviroment", []string{"env_file", "environment"}, "environment"},
		{"aliec", []string{"alice"}, "alice"},
		{"zzzz", []string{"alice", "bob"}, ""},
		{"NET_BIND", []string{"NET_ADMIN", "NET_BIND_SERVICE"}, "NET_BIND_SERVICE"},
		{"work", []string{"word", "working_dir"}, "working_dir"},
		{"work", []string{"word", "working_dir", "worker_threads"}, "word"},
		{"ali", []string{"all", "alienated"}, "all"},
		{"a", []string{"b"}, ""},
		{"x", nil, ""},
		{"", []string{"a"}, ""},
		{"bob", []string{"rob", "bobo"}, "rob"},
		{"gateway-alcie", []string{"gateway-bob", "gateway-alice"}, "gateway-alice"},
	} {
		if got := Name(c.written, c.known); got != c.want {
			t.Errorf("Name(%q, %q) = %q, want %q", c.written, c.known, got, c.want)
		}
	}
}
