package hooks

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
)

// The server is given the event byte for byte, and what it refuses is a failure of
// the hook.
func TestWebhook(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	event := `{"seq":7,"type":"transition","service":"gateway-alice","to":"failed","cause":"exit 3 \"é\""}` + "\n"
	var got, kind string
	answer := http.StatusNoContent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got, kind = string(body), r.Header.Get("Content-Type")
		w.WriteHeader(answer)
	}))
	defer server.Close()
	post := func() ([]byte, error) {
		cmd := exec.Command("./webhook", server.URL)
		cmd.Stdin = strings.NewReader(event)
		return cmd.CombinedOutput()
	}
	if out, err := post(); err != nil || got != event || kind != "application/json" {
		t.Errorf("the server was given %q as %s; %v: %s", got, kind, err, out)
	}
	event = `{"seq":8,"type":"threshold","hook":"short","what":"disk","percent":91.2,"limit":90,"state":"crossed","for":"5m0s"}` + "\n"
	if out, err := post(); err != nil || got != event {
		t.Errorf("the server was given %q; %v: %s", got, err, out)
	}
	answer = http.StatusForbidden
	if out, err := post(); err == nil || !strings.Contains(string(out), "403") {
		t.Errorf("what is refused: %v: %s", err, out)
	}
}
