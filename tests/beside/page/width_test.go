package page

import (
	"fmt"
	"strings"
	"testing"
)

// brokenWords are words of the page's tables that stand on more than one line, and whether
// the page is wider than the window, as an expression.
const brokenWords = `(() => {
  const broken = [];
  for (const cell of document.querySelectorAll("main td, main th")) {
    if (!cell.getClientRects().length) continue;
    const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let text; (text = walk.nextNode());) for (const m of text.data.matchAll(/[\p{L}\p{N}]+/gu)) {
      const word = document.createRange();
      word.setStart(text, m.index); word.setEnd(text, m.index + m[0].length);
      const tops = new Set([...word.getClientRects()].filter((r) => r.width > 0).map((r) => Math.round(r.top)));
      if (tops.size > 1) broken.push(m[0]);
    }
  }
  if (document.documentElement.scrollWidth > innerWidth) broken.push("the page is " + document.documentElement.scrollWidth + " wide");
  return broken.join(", ");
})()`

// No table breaks a word, and no page is wider than the window, from 320 pixels on.
func TestEveryWidth(t *testing.T) {
	t.Parallel()
	s := house(t, "approve")
	hash := s.propose("large")
	s.Must("restart", "web")
	b := s.enter(t)
	for _, path := range []string{"/", "/operations", "/operations/1", "/plans", "/plans/" + hash, "/jobs", "/boot", "/service/broken"} {
		b.to(path)
		for _, width := range []int64{320, 360, 480, 640, 704, 705, 760, 820, 900, 950, 991, 993, 1024, 1280} {
			b.as(width, 900, "light")
			if broken := b.text(brokenWords); broken != "" {
				t.Errorf("%s at %d pixels: %s", path, width, broken)
			}
			if path == "/" {
				b.picture(fmt.Sprintf("width-%d.png", width))
			}
		}
	}
	if text := b.see(); !strings.Contains(text, "broken") {
		t.Errorf("the last page says %s", text)
	}
	b.quiet()
}
