package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"rlminit/control"
)

// viewed are the verbs that look at many services, and what they may take.
var viewed = []struct {
	verb    []string
	name    string
	promise string
}{
	{[]string{"status"}, "status of all", "25 ms"},
	{[]string{"show", "s00500"}, "show of one", "10 ms"},
	{[]string{"metrics"}, "metrics of all", "20 ms"},
	{[]string{"version"}, "a process that asks nobody", "less than the others"},
}

// viewMeasures are those of a person who looks at 1,000 services: the whole
// process of the command line, from its start to its end.
func viewMeasures() []measure {
	figures := sync.OnceValues(func() (f map[string][]float64, err error) {
		var b strings.Builder
		b.WriteString("services:\n")
		for i := range 1000 {
			fmt.Fprintf(&b, "  s%05d: {command: [sleep, \"1000000\"]}\n", i)
		}
		err = container{more: b.String()}.play("views", &f)
		return f, err
	})
	var all []measure
	for _, v := range viewed {
		all = append(all, measure{name: "view: " + v.name + " of 1,000 services, the whole process", promise: v.promise, run: func() ([]row, error) {
			f, err := figures()
			return []row{{"rlminit " + v.verb[0], f[v.name], "ms"}}, err
		}})
	}
	return all
}

// playViews is the main command of that container.
func playViews(args []string) error {
	client := control.Open()
	for up := 0; up < 1000; {
		services, err := client.Services(context.Background())
		if err != nil {
			return err
		}
		if up = len(slices.DeleteFunc(services, func(s control.Service) bool { return s.State != "running" })); up < 1000 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	figures := map[string][]float64{}
	for range 30 {
		for _, v := range viewed {
			began := time.Now()
			if out, err := exec.Command(args[0], v.verb...).Output(); err != nil {
				return fmt.Errorf("%s: %w: %s", v.name, err, out)
			}
			figures[v.name] = append(figures[v.name], ms(time.Since(began)))
		}
	}
	return json.NewEncoder(os.Stdout).Encode(figures)
}
