package forward

import (
	"bytes"
	"strings"
	"testing"

	"rlminit/service"
)

// Names are cut to what RFC 5424 takes.
func TestNamesOnePastTheirBounds(t *testing.T) {
	for _, most := range []int{mostApp, mostHost} {
		if got := appendName(nil, strings.Repeat("n", most+1), most); len(got) != most {
			t.Errorf("of %d bytes %d are sent", most+1, len(got))
		}
	}
}

// The text of a datagram is cut at its bound, and is marked as a part.
func TestOnePastADatagram(t *testing.T) {
	for past := range 2 {
		d := &destination{format: service.ForwardRFC5424, link: &socket{datagrams: true}}
		e := &entry{service: "web"}
		e.Text = bytes.Repeat([]byte("x"), mostDatagram+past)
		d.append(e)
		if text := string(d.batch.text); strings.Count(text, "x") != mostDatagram || strings.Contains(text, `partial="true`) != (past == 1) {
			t.Errorf("of %d bytes %d are sent: %.200s", mostDatagram+past, strings.Count(text, "x"), text)
		}
	}
}
