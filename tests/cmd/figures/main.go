// Command figures prints the size of the product's code: in all, by package, the
// largest files and types, the longest functions. It reads the repository that it is
// run in.
//
//	figures [COMMIT]
//
// With a commit it prints the change since that commit beside each figure.
package main

import (
	"fmt"
	"os"
	"os/exec"

	"rlminit/tests/box"
	"rlminit/tests/figures"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	root, err := box.Repository()
	if err != nil {
		return err
	}
	now, err := figures.Measure(root)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		show(now, nil)
		return nil
	}
	before, err := at(root, args[0])
	if err != nil {
		return err
	}
	show(now, &before)
	return nil
}

// at measures a commit, in a directory that is removed again.
func at(root, commit string) (figures.Figures, error) {
	dir, err := os.MkdirTemp("", "figures-")
	if err != nil {
		return figures.Figures{}, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("sh", "-c", `git -C "$1" archive --format=tar "$2" | tar -x -C "$3"`, "sh", root, commit, dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return figures.Figures{}, fmt.Errorf("cannot read commit %s: %w", commit, err)
	}
	return figures.Measure(dir)
}

// show prints the figures; before is nil without a commit to compare with.
func show(f figures.Figures, before *figures.Figures) {
	fmt.Println("Code without tests, examples, tools, blank lines and comments.")
	if before != nil {
		fmt.Println("In brackets: the change since the commit.")
	}
	row := func(now figures.Size, then func(*figures.Figures) figures.Size, name string) {
		fmt.Printf("%8d%s %9d%s  %s\n", now.Lines, change(before, now.Lines, func(b *figures.Figures) int { return then(b).Lines }),
			now.Nodes, change(before, now.Nodes, func(b *figures.Figures) int { return then(b).Nodes }), name)
	}
	fmt.Printf("\n%8s %9s  package\n", "lines", "nodes")
	row(f.Total, func(b *figures.Figures) figures.Size { return b.Total }, "rlminit, in all")
	row(f.Beside, func(b *figures.Figures) figures.Size { return b.Beside }, "programs beside it")
	row(f.Fleet, func(b *figures.Figures) figures.Size { return b.Fleet }, "fleet")
	for _, name := range figures.Largest(f.Packages, len(f.Packages)) {
		row(f.Packages[name], func(b *figures.Figures) figures.Size { return b.Packages[name] }, name)
	}
	fmt.Printf("\n%8s %9s  largest files\n", "lines", "nodes")
	for _, name := range figures.Largest(f.Files, 5) {
		row(f.Files[name], func(b *figures.Figures) figures.Size { return b.Files[name] }, name)
	}
	fmt.Printf("\n%8s %9s  largest types\n", "methods", "fields")
	for _, t := range f.LargestTypes(5) {
		then := func(b *figures.Figures) figures.Type {
			if was := b.Types[t.Name]; was != nil {
				return *was
			}
			return figures.Type{}
		}
		fmt.Printf("%8d%s %9d%s  %s\n", t.Methods, change(before, t.Methods, func(b *figures.Figures) int { return then(b).Methods }),
			t.Fields, change(before, t.Fields, func(b *figures.Figures) int { return then(b).Fields }), t.Name)
	}
	fmt.Printf("\n%8s  longest functions, comments and blank lines within them included\n", "lines")
	for _, fn := range f.Functions[:min(5, len(f.Functions))] {
		fmt.Printf("%8d  %s\n", fn.Size, fn.Name)
	}
}

// change is the difference to before, in brackets, or nothing.
func change(before *figures.Figures, now int, then func(*figures.Figures) int) string {
	if before == nil {
		return ""
	}
	return fmt.Sprintf(" %7s", fmt.Sprintf("[%+d]", now-then(before)))
}
