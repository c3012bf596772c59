// Command figures prints how much code the product is: in all, by package, and the
// largest files and functions. It reads the repository that it is run in.
package main

import (
	"fmt"
	"os"

	"rlminit/tests/box"
	"rlminit/tests/figures"
)

func main() {
	root, err := box.Repository()
	if err == nil {
		var f figures.Figures
		if f, err = figures.Measure(root); err == nil {
			show(f)
			return
		}
	}
	fmt.Fprintln(os.Stderr, "figures:", err)
	os.Exit(1)
}

func show(f figures.Figures) {
	fmt.Println("Code without tests, examples, tools, blank lines and comments.")
	fmt.Printf("\n%8s %9s  package\n", "lines", "nodes")
	fmt.Printf("%8d %9d  in all\n", f.Total.Lines, f.Total.Nodes)
	for _, name := range figures.Largest(f.Packages, len(f.Packages)) {
		fmt.Printf("%8d %9d  %s\n", f.Packages[name].Lines, f.Packages[name].Nodes, name)
	}
	fmt.Printf("\n%8s %9s  largest files\n", "lines", "nodes")
	for _, name := range figures.Largest(f.Files, 5) {
		fmt.Printf("%8d %9d  %s\n", f.Files[name].Lines, f.Files[name].Nodes, name)
	}
	fmt.Printf("\n%8s  longest functions, comments and blank lines within them included\n", "lines")
	for _, fn := range f.Functions[:min(5, len(f.Functions))] {
		fmt.Printf("%8d  %s\n", fn.Size, fn.Name)
	}
}
