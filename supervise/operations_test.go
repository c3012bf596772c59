package supervise

import (
	"testing"
	"time"

	"rlminit/control"
	"rlminit/supervise/operation"
)

// A supervisor that is killed in the middle of writing down its operations leaves those
// of before, or those that it wrote, or none, and nothing that never was.
func TestOperationsThatAreHalfWritten(t *testing.T) {
	book := &operation.Book{}
	list := []string{string(sealed(book.AppendTo(nil)))}
	for _, verb := range []string{"start", "restart", "stop"} {
		book.Begin(book.NewID(), verb, control.Actor{UID: 1000}, time.Unix(0, 0), []control.OperationMember{{Name: "one"}, {Name: "two"}}, operation.Running, nil)
		list = append(list, string(sealed(book.AppendTo(nil))))
	}
	for i, before := range list {
		for j, after := range list {
			for n := range len(after) + 1 {
				content := after[:n]
				if n < len(before) {
					content += before[n:]
				}
				switch got := string(whole([]byte(content))); {
				case got == "" && n < len(after), sealedAs(got) == before, sealedAs(got) == after:
				default:
					t.Fatalf("%d over %d, %d bytes: %q of %q", j, i, n, got, content)
				}
				if n == len(after) && sealedAs(string(whole([]byte(content)))) != after {
					t.Fatalf("%d over %d is not what was written", j, i)
				}
			}
		}
	}
}

func sealedAs(list string) string { return string(sealed([]byte(list))) }
