package forward

import (
	"strings"
	"testing"
)

// Names are cut to what RFC 5424 takes.
func TestNamesOnePastTheirBounds(t *testing.T) {
	for _, most := range []int{mostApp, mostHost} {
		if got := appendName(nil, strings.Repeat("n", most+1), most); len(got) != most {
			t.Errorf("of %d bytes %d are sent", most+1, len(got))
		}
	}
}
