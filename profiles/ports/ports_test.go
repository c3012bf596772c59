package ports

import "testing"

// A port is one profile's, stays so until the profile is gone, and is free again then.
func TestBook(t *testing.T) {
	b, r := New(), Range{First: 9000, Last: 9001}
	held := map[int]string{9001: "metrics.listen"}
	if got := b.Allot("a", r, held); got != 9000 || b.Allot("a", Range{}, nil) != 9000 {
		t.Errorf("a has %d", got)
	}
	if got := b.Allot("b", r, held); got != 0 {
		t.Errorf("b has %d, which is another's", got)
	}
	if owner, ok := b.Claim("b", 9000); ok || owner != "a" {
		t.Errorf("b claims the port of %q", owner)
	}
	done := b.Hold("c")
	if _, ok := b.Claim("c", 80); !ok || len(b.Settled()) != 1 {
		t.Errorf("settled are %v", b.Settled())
	}
	other := b.Copy()
	b.Release("c") // it is being created: nothing happens
	if done(false); b.Of("c") != 0 || other.Of("c") != 80 {
		t.Errorf("c has %d, and %d in the copy", b.Of("c"), other.Of("c"))
	}
	b.Release("a")
	if got := b.Allot("b", r, held); got != 9000 {
		t.Errorf("b has %d once a is gone", got)
	}
}
