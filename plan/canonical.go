package plan

import (
	"github.com/gowebpki/jcs"
)

// canonical is a value as RFC 8785 writes JSON: one text for one value,
// whatever wrote it.
func canonical(v any) ([]byte, error) {
	b, err := marshal(v)
	if err != nil {
		return nil, err
	}
	return jcs.Transform(b)
}
