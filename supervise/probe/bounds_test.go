package probe

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A probe whose answer has a header one past the bound fails; of a body the rest is not read.
func TestAnswersOnePastTheirBounds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/header" {
			w.Header().Set("X", strings.Repeat("x", maxHeader+1))
		}
		io.WriteString(w, strings.Repeat("x", maxBody+1))
	}))
	defer server.Close()
	for path, fails := range map[string]bool{"/header": true, "/body": false} {
		if err := HTTP(t.Context(), server.URL+path); (err != nil) != fails {
			t.Errorf("%s: %v", path, err)
		}
	}
}
