// Command bench measures rlminit beside its peers, in one run and on the same
// machine, for `make bench`. Every init and supervisor is PID 1 of a PID
// namespace of its own. It prints one table of medians, ratios and what rlminit
// promises; it asserts nothing, for the machine decides. With -plot it draws how that
// grows with the number of services, for `make bench-plot`.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

var (
	binary    = flag.String("binary", "bin/rlminit", "the rlminit to measure")
	services  = flag.Int("services", 1000, "services that a supervisor starts")
	rounds    = flag.Int("rounds", 5, "rounds, of which the median counts; in each, all take turns")
	spawns    = flag.Bool("spawns", false, "count instead what each process does for a start")
	arguments = flag.Bool("arguments", false, "with -spawns: tell calls apart by their arguments")
	only      = flag.String("run", ".", "which measures, by a regular expression")
	jsonFile  = flag.String("json", "", "write all figures into this file, as JSON")
	plot      = flag.String("plot", "", "measure instead with ever more services, and write scale.json and scale.svg into this directory")
	redraw    = flag.Bool("redraw", false, "with -plot: draw the scale.json that is there")
)

// measure is a section of the table.
type measure struct {
	name    string
	promise string
	run     func() ([]row, error)
	// differences: what is promised is one, and no ratio.
	differences bool
}

// row is what one peer took. The first row of a measure is rlminit's.
type row struct {
	peer   string
	values []float64
	unit   string
}

func main() {
	if len(os.Args) > 1 {
		if act, found := acts[os.Args[1]]; found {
			exit(act(os.Args[2:]))
		}
	}
	flag.Parse()
	exit(run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// acts are the parts that this program plays in its own measurements.
var acts = map[string]func(args []string) error{
	"inside":  inside,
	"outside": outside,
	"jobs":    playJobs,
	"views":   playViews,
	"records": playRecords,
	"rates":   playRates,
	"walls":   playWalls,
	"boot":    playBoot,
}

func run() error {
	chosen, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("cannot choose measures by %q: %w", *only, err)
	}
	if *rounds < 1 || *services < 1 {
		return fmt.Errorf("cannot measure %d rounds of %d services: write at least 1 of each", *rounds, *services)
	}
	if *redraw {
		return drawAgain(*plot)
	}
	if *binary, err = filepath.Abs(*binary); err != nil {
		return err
	}
	if err := checkPeers(); err != nil {
		return err
	}
	if programs, err = compile(); err != nil {
		return err
	}
	defer os.RemoveAll(programs)
	if *spawns {
		return countSpawns()
	}
	if *plot != "" {
		return plotScale(*plot)
	}
	whole := report{Machine: thisMachine(), Services: *services, Rounds: *rounds}
	for _, m := range slices.Concat(initMeasures(), supervisorMeasures(), isolationMeasures(), viewMeasures(), jobMeasures(), recordMeasures(), bootMeasures()) {
		if !chosen.MatchString(m.name) {
			continue
		}
		rows, err := m.run()
		if err != nil {
			return fmt.Errorf("cannot measure %s: %w", m.name, err)
		}
		r := reportOf(m, rows)
		show(m, r)
		whole.Measures = append(whole.Measures, r)
	}
	if *jsonFile != "" {
		return writeJSON(*jsonFile, whole)
	}
	return nil
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
