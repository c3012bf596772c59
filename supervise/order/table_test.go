package order_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"rlminit/supervise/order"
)

const (
	begin = "<!-- made by: go test ./supervise/order -run Table -update -->\n"
	end   = "<!-- end of what is made -->\n"
)

// The table in ORDER.md is what Decide decides for two services.
func TestTable(t *testing.T) {
	text, err := os.ReadFile("ORDER.md")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	was, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("ORDER.md has no place for the table")
	}
	now := table()
	if now == was {
		return
	}
	if !*update {
		t.Fatalf("the table in ORDER.md is stale; run: go test ./supervise/order -run Table -update\n%s", now)
	}
	if err := os.WriteFile("ORDER.md", []byte(head+begin+now+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("| the other | `requires` it: start | `wants`, `after`: start | a stop of what it depends on |\n|---|---|---|---|\n")
	row := func(name string, f order.Fact) {
		cells := [3]string{}
		for i, kind := range []order.Kind{order.Requires, order.After} {
			var g order.Graph
			one, other := g.Add(), g.Add()
			g.Link(one, []order.Edge{{To: other, Kind: kind}})
			cells[i] = map[order.Held]string{
				order.Free: "may", order.OnWay: "waits: on its way", order.Delayed: "waits: delayed", order.Stuck: "stuck",
			}[order.Decide(&g, []order.Fact{{Phase: order.Waiting, Wanted: true}, f}, one).Held]
		}
		var g order.Graph
		one, other := g.Add(), g.Add()
		g.Link(other, []order.Edge{{To: one, Kind: order.After}})
		if order.Decide(&g, []order.Fact{{Phase: order.Up, Wanted: true, Turn: order.Stop}, f}, one).Go {
			cells[2] = "goes on"
		} else {
			cells[2] = "waits"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, cells[0], cells[1], cells[2])
	}
	for _, phase := range order.Phases {
		if phase == order.Waiting {
			row("waiting, for what is on its way", order.Fact{Phase: phase, Held: order.OnWay, Behind: true})
			row("waiting, delayed", order.Fact{Phase: phase, Held: order.Delayed})
			row("waiting, stuck", order.Fact{Phase: phase, Held: order.Stuck})
			row("waiting, stuck, and comes after what is on its way", order.Fact{Phase: phase, Held: order.Stuck, Behind: true})
			continue
		}
		row(phase.String(), order.Fact{Phase: phase})
	}
	row("down, and comes after what is on its way", order.Fact{Phase: order.Down, Held: order.OnWay, Behind: true})
	for _, turn := range []order.Turn{order.Along, order.Restart, order.Stop, order.Remove} {
		row("up, turn "+turn.String(), order.Fact{Phase: order.Up, Turn: turn})
	}
	row("absent, turn start", order.Fact{Phase: order.Absent, Turn: order.Start})
	row("backoff, turn stop", order.Fact{Phase: order.Backoff, Turn: order.Stop})
	return b.String()
}
