package view

import (
	"net/url"
	"strconv"
)

func itoa(n int) string { return strconv.Itoa(n) }

// decimal is a number of a drawing, to a tenth.
func decimal(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

// trimZero is a number to a tenth, without a zero at the end.
func trimZero(f float64) string {
	return strconv.FormatFloat(float64(int(f*10+0.5))/10, 'f', -1, 64)
}

// liveQuery is the query of a live view.
func liveQuery(view, name string) string {
	q := url.Values{"view": {view}}
	if name != "" {
		q.Set("name", name)
	}
	return q.Encode()
}

// servicePath is where the page of a service is, below the path of the session.
func servicePath(name string) string { return "service/" + url.PathEscape(name) }
