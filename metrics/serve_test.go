package metrics

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestServe(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var failure error
	go Serve(listener, func() (Snapshot, error) { return some(), failure })
	url := "http://" + listener.Addr().String()
	get := func(path, accept string) (int, string, string) {
		t.Helper()
		r, _ := http.NewRequest(http.MethodGet, url+path, nil)
		r.Header.Set("Accept", accept)
		answer, err := (&http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, answer.Header.Get("Content-Type"), string(body)
	}
	if code, kind, body := get("/metrics", OpenMetrics); code != 200 || kind != OpenMetrics || !strings.HasSuffix(body, "# EOF\n") {
		t.Errorf("%d %s %s", code, kind, body)
	}
	if code, kind, _ := get("/metrics", "*/*"); code != 200 || kind != Prometheus {
		t.Errorf("%d %s", code, kind)
	}
	if code, _, _ := get("/", ""); code != 404 {
		t.Errorf("%d", code)
	}
	// Those who connect and say nothing keep nobody out but those above the bound,
	// and that only for as long as they stay.
	var idle []net.Conn
	for range scrapers {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	over, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	over.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := over.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
		t.Errorf("one above the bound: %v", err)
	}
	for _, conn := range idle {
		conn.Close()
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		answer, err := http.Get(url + "/metrics")
		if err == nil {
			answer.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	failure = errors.New("no /proc")
	if code, _, body := get("/metrics", ""); code != 503 || !strings.Contains(body, "no /proc") {
		t.Errorf("%d %s", code, body)
	}
}
