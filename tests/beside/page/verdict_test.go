package page

import (
	"bufio"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"rlminit/tests/contract"
)

// TestOneVerdict holds that the page says of each service what all others say: in its tone, in
// the number at the top and in the title, and by the icon.
func TestOneVerdict(t *testing.T) {
	s := start(t, "read", contract.RowsConfig())
	counts := contract.Judge(s.Box)
	page := s.send(t, s.loggedIn(t, annesToken), http.MethodGet, "/", "").text
	tones := map[string]string{"ill": "ill", "pending": "moving", "ok": "well", "off": "still"}
	for _, r := range contract.Rows {
		want := tones[r.Verdict]
		if r.Name == "flaps" { // it has a mark, so it is no longer well
			want = "moving"
		}
		row := regexp.MustCompile(`<tr id="s-` + r.Name + `"[^>]* data-tone="([^"]*)"`).FindStringSubmatch(page)
		if row == nil || row[1] != want {
			t.Errorf("%s is %s, and its row %q", r.Name, r.Verdict, row)
		}
	}
	for _, part := range []string{
		fmt.Sprintf("<title>✖ %d ill · Services · ", counts["ill"]), fmt.Sprintf(`data-ill="%d"`, counts["ill"]), `rel="icon" href="/static/ill-`,
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %s:\n%.2000s", part, page)
		}
	}
	stream, err := s.stream(t.Context(), s.loggedIn(t, annesToken), "view=plans")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	says := func(part string) {
		t.Helper()
		late := time.AfterFunc(long, func() { stream.Body.Close() })
		defer late.Stop()
		for lines.Scan() {
			if strings.Contains(lines.Text(), part) {
				return
			}
		}
		t.Fatalf("a page that is open is not told %s: %v", part, lines.Err())
	}
	says(fmt.Sprintf(`data-ill="%d"`, counts["ill"]))
	s.Must("stop", "--all", "--state", "ill")
	says(`data-ill="0"`)
	if page = s.send(t, s.loggedIn(t, annesToken), http.MethodGet, "/plans", "").text; !strings.Contains(page, "<title>Plans and revisions · ") || !strings.Contains(page, `rel="icon" href="/static/well-`) {
		t.Errorf("another page, when none is ill:\n%.2000s", page)
	}
}
