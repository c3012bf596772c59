package openapi

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"rlminit/tests/box"
)

var write = flag.Bool("write", false, "write docs/openapi.yaml")

// TestDocument: docs/openapi.yaml has every request, with its types and its text.
func TestDocument(t *testing.T) {
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Document(root)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "docs/openapi.yaml")
	if *write {
		err = os.WriteFile(path, doc, 0o644)
	}
	if is, _ := os.ReadFile(path); err != nil || string(is) != string(doc) {
		t.Errorf("docs/openapi.yaml is stale (%v): make docs", err)
	}
}
