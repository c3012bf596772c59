package view

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// One past what a form may have is refused, or cut, with a sentence.
func TestFormsOnePastTheirBounds(t *testing.T) {
	for past := range 2 {
		names := make([]string, namesMost+past)
		for i := range names {
			names[i] = "a"
		}
		if _, why := deedOf(url.Values{"verb": {"start"}, "name": names}); (why != "") != (past == 1) {
			t.Errorf("%d names: %q", len(names), why)
		}
		if _, why := gatingOf(url.Values{"steady": {strconv.Itoa(steadyMost + past)}}); (why != "") != (past == 1) {
			t.Errorf("steady for %d s: %q", steadyMost+past, why)
		}
	}
	r := httptest.NewRequest("GET", "/?q="+strings.Repeat("q", queryMost+1), nil)
	if q := queryOf(r); len(q) != queryMost {
		t.Errorf("a search has %d bytes", len(q))
	}
}

// A search shows the last lines that fit, and knows that there were more.
func TestOneHitTooMany(t *testing.T) {
	var k ring
	for i := range hitsMost + 1 {
		if k.cut {
			t.Fatalf("with %d lines it is cut", i)
		}
		k.add(logLine{Text: strconv.Itoa(i)}, hitsMost)
	}
	if !k.cut || len(k.lines) != hitsMost || k.lines[0].Text != "1" {
		t.Errorf("%d lines, the first %q, cut: %t", len(k.lines), k.lines[0].Text, k.cut)
	}
}

// A fleet's list one past the bound is refused, and says where all of it is.
func TestOneOfAFleetTooMany(t *testing.T) {
	for past := range 2 {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "["+strings.TrimSuffix(strings.Repeat("{},", fleetMost+past), ",")+"]")
		}))
		_, _, err := fleetList[struct{}](t.Context(), strings.TrimPrefix(server.URL, "http://"), "/")
		server.Close()
		if (err != nil) != (past == 1) || past == 1 && !strings.Contains(err.Error(), "rlminit fleet shows all") {
			t.Errorf("%d entries: %v", fleetMost+past, err)
		}
	}
}
